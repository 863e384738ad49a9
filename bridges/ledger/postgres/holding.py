"""Who serves: a lock that a connection has, so that it ends with its program. Edge."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from nacre.bridges.contracts.errors import LedgerUnusable
from nacre.bridges.ledger.postgres import statements
from nacre.bridges.ledger.postgres.rows import LedgerRows
from nacre.postgres.errors import DatabaseError
from nacre.postgres.pool import ConnectionLimits, connected

if TYPE_CHECKING:
    from nacre.postgres.pool import Connection


@dataclass(frozen=True)
class Holding:
    """The lock of an agent's ledger, and who has it, for people: `host, process 123`."""

    connection: Connection
    holder: str

    @classmethod
    async def taken(cls, rows: LedgerRows, url: str, agent: str) -> Self:
        """The lock.

        Raises:
            LedgerUnusable: the database cannot be used, or another program has it.
        """
        before = await rows.read(statements.HOLDER)  # this also makes the tables
        try:
            connection = await asyncio.to_thread(_locked, url, agent)
        except DatabaseError as error:
            raise LedgerUnusable(str(error)) from error
        if connection is None:
            who = f" ({before[0][0]})" if before and before[0][0] else ""
            raise LedgerUnusable(
                f"Another program{who} runs the bridges of {agent}. Stop it first: both would answer every "
                "message."
            )
        return cls(connection, f"{socket.gethostname()}, process {os.getpid()}")

    def release(self) -> None:
        """Lets another program have it."""
        with suppress(Exception):  # a connection that is gone has no lock either
            self.connection.close()


def _locked(url: str, agent: str) -> Connection | None:
    connection = connected(url, ConnectionLimits())
    try:
        row = connection.execute(statements.TRY_TO_HOLD.encode(), {"agent": agent}).fetchone()
    except BaseException:
        connection.close()
        raise
    if row is not None and row[0]:
        return connection
    connection.close()
    return None
