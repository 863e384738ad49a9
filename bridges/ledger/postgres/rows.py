"""The ledger's statements run for one agent, by the program that serves or beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from nacre.bridges.contracts.errors import LedgerUnusable
from nacre.bridges.ledger.postgres import statements
from nacre.postgres.database import Database
from nacre.postgres.errors import DatabaseError

if TYPE_CHECKING:
    from nacre.postgres.pool import Connection

T = TypeVar("T")


class Run(Protocol):
    """Runs a statement within a transaction."""

    def __call__(self, statement: str, /, **values: object) -> list[Any]:
        """The rows that it gives."""
        ...


class LedgerRows:
    """Those of one agent. With a `fence` nothing is written once a later program serves."""

    def __init__(self, database: Database, agent: str, *, fence: int | None = None) -> None:
        self._database = database
        self._agent = agent
        self._fence = fence
        self._is_closed = False

    def close(self) -> None:
        """Takes nothing more. The database stays open for others of the process."""
        self._is_closed = True

    async def read(self, statement: str, /, **values: object) -> list[Any]:
        """The rows of one statement. Raises `LedgerUnusable`."""
        return await self._tried(self._database.read, lambda run: run(statement, **values))

    async def read_all(self, work: Callable[[Run], T]) -> T:
        """What `work` reads, all of one moment. Raises `LedgerUnusable`."""
        return await self._tried(self._database.read, work)

    async def run(self, statement: str, /, **values: object) -> list[Any]:
        """What one statement changes, and the rows that it gives. Raises `LedgerUnusable`."""
        return await self.write(lambda run: run(statement, **values))

    async def write(self, work: Callable[[Run], T]) -> T:
        """The result of `work`, whole or not at all; it may be run again from its beginning.

        Raises:
            LedgerUnusable: the database cannot be used, the ledger is closed, or another program serves.
        """

        def fenced(run: Run) -> T:
            if self._fence is not None and not run(statements.IS_HELD, fence=self._fence):
                raise LedgerUnusable(
                    f"Another program runs the bridges of {self._agent} by now. This one writes nothing more."
                )
            return work(run)

        return await self._tried(self._database.write, fenced)

    async def _tried(self, ask: Any, work: Callable[[Run], T]) -> T:
        if self._is_closed:
            raise LedgerUnusable(f"The ledger of {self._agent} is closed.")

        def whole(connection: Connection) -> T:
            def run(statement: str, /, **values: object) -> list[Any]:
                found = connection.execute(statement.encode(), {"agent": self._agent, **values})
                return found.fetchall() if found.description is not None else []

            return work(run)

        try:
            result: T = await ask(whole)
        except DatabaseError as error:
            raise LedgerUnusable(str(error)) from error
        return result
