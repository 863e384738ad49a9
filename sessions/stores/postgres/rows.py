"""The statements of one agent, run in a database, and what is due for sessions that are over. Edge."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from nacre.postgres.database import Database
from nacre.postgres.errors import DatabaseError
from nacre.sessions.contracts.errors import SessionStoreRefused, SessionTakenOver
from nacre.sessions.contracts.keys import EndedSession, ended_from_json, ended_to_json
from nacre.sessions.stores.postgres import statements

if TYPE_CHECKING:
    from nacre.postgres.pool import Connection

T = TypeVar("T")


class Moment:
    """One transaction, for the rows of one agent."""

    def __init__(self, connection: Connection, agent: str, held: Mapping[str, int]) -> None:
        self._connection = connection
        self._agent = agent
        self._held = held

    def run(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        """The rows that a statement gives."""
        cursor = self._connection.execute(statement, {"agent": self._agent, **values})
        return cursor.fetchall() if cursor.description else []

    def run_many(self, statement: str, values: list[dict[str, Any]]) -> None:
        """A statement that gives nothing, for each of several values."""
        with self._connection.cursor() as cursor:
            cursor.executemany(statement, [{"agent": self._agent, **each} for each in values])

    def fenced(self, statement: str, *, lane: str | None, **values: Any) -> list[tuple[Any, ...]]:
        """The rows that a statement gives which the server runs only while the lane is ours, if it ever was.

        Raises:
            SessionTakenOver: another process has the lane by now; nothing is written.
        """
        fence = self._held.get(lane) if lane is not None else None
        rows = self.run(statement, lane=lane, fence=fence, **values)
        if not rows and fence is not None and not self.run(statements.FENCE_HOLDS, lane=lane, fence=fence):
            raise SessionTakenOver(
                f"Another process went on with the session {lane!r}, because this one did not say for a "
                "while that it was still at it. What it had to write was not written."
            )
        return rows


class AgentRows:
    """The rows of one agent. `held` says which lanes this process has, with the fence of each."""

    def __init__(self, database: Database, agent: str) -> None:
        self.database = database
        self.agent = agent
        self.held: dict[str, int] = {}

    @property
    def place(self) -> str:
        """Where they lie, for people."""
        return f"{self.database.place}, agent {self.agent!r}"

    async def read(self, work: Callable[[Moment], T]) -> T:
        """What `work` reads, all of one moment. Raises `SessionStoreRefused`."""
        return await self._told(self.database.read, work)

    async def write(self, work: Callable[[Moment], T]) -> T:
        """The result of `work`, committed whole; it may run again, so it changes nothing but rows.

        Raises:
            SessionStoreRefused: the database cannot be reached, or refused.
        """
        return await self._told(self.database.write, work)

    async def single(self, work: Callable[[Moment], T]) -> T:
        """The result of one statement that only reads, or that does nothing new when it is run again.

        Raises as `write`.
        """
        return await self._told(self.database.single, work)

    async def _told(self, run: Callable[..., Any], work: Callable[[Moment], T]) -> T:
        try:
            result: T = await run(lambda db: work(Moment(db, self.agent, self.held)))
        except DatabaseError as error:
            raise SessionStoreRefused(str(error)) from error
        return result


class EndingRows:
    """The endings of an agent that are not finished. Each method raises `SessionStoreRefused`."""

    def __init__(self, rows: AgentRows) -> None:
        self._rows = rows

    async def put(self, ended: EndedSession) -> None:
        """Notes one, or its new number of attempts."""
        body = json.dumps(ended_to_json(ended))
        await self._rows.write(lambda rows: rows.run(statements.PUT_ENDING, body=body, **_place(ended)))

    async def remove(self, ended: EndedSession) -> None:
        """Strikes one off; it may be gone already."""
        await self._rows.write(lambda rows: rows.run(statements.REMOVE_ENDING, **_place(ended)))

    async def has(self, ended: EndedSession) -> bool:
        """Whether one is still due."""
        return bool(await self._rows.single(lambda rows: rows.run(statements.HAS_ENDING, **_place(ended))))

    async def all(self) -> tuple[EndedSession, ...]:
        """Those that are due, the oldest first; one that a newer program wrote is left to it."""
        found = await self._rows.single(lambda rows: rows.run(statements.ENDINGS))
        return tuple(ended for (body,) in found if (ended := ended_from_json(body.encode())) is not None)


def _place(ended: EndedSession) -> dict[str, Any]:
    return {"ended_at_ms": ended.ended_at_ms, "session_id": ended.session_id}
