"""Who serves: a lock that a connection has, so that it ends with its program. Edge."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from nacre.bridges.contracts.errors import LedgerUnusable
from nacre.bridges.ledger.postgres import statements
from nacre.bridges.ledger.postgres.rows import LedgerRows
from nacre.postgres.errors import DatabaseError
from nacre.postgres.pool import ConnectionLimits, connected

if TYPE_CHECKING:
    from nacre.postgres.pool import Connection


LOOK_SECONDS = 5.0
"""How often a program looks whether its lock is there still."""

log = logging.getLogger(__name__)


class Holding:
    """The lock of an agent's ledger, and who has it, for people: `host, process 123`."""

    def __init__(self, connection: Connection, url: str, agent: str) -> None:
        self.holder = f"{socket.gethostname()}, process {os.getpid()}"
        self._connection = connection
        self._url = url
        self._agent = agent
        self._changing = threading.Lock()
        self._is_released = False

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
        return cls(connection, url, agent)

    async def keep(self, look_seconds: float) -> None:
        """Takes the lock again whenever its connection was lost, until this is cancelled.

        A program that took it meanwhile keeps it; the fence then refuses what this one writes.
        """
        while True:
            await asyncio.sleep(look_seconds)
            try:
                if not await asyncio.to_thread(self._is_held):
                    log.warning("another program took the ledger of %s meanwhile", self._agent)
            except DatabaseError as error:
                log.warning("the lock of the ledger was lost, and is taken again: %s", error)

    def release(self) -> None:
        """Lets another program have it."""
        with self._changing, suppress(Exception):  # a connection that is gone has no lock either
            self._is_released = True
            # The server notices the end of a connection a moment later.
            self._connection.execute("SELECT pg_advisory_unlock_all()")
        self._connection.close()

    def _is_held(self) -> bool:
        with self._changing:
            if self._is_released or _lives(self._connection):
                return True
            again = _locked(self._url, self._agent)
            if again is not None:
                self._connection = again
            return again is not None


def _lives(connection: Connection) -> bool:
    try:
        connection.execute("SELECT 1")
    except Exception:  # noqa: BLE001 - whatever it is, the lock is asked for again
        return False
    return True


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
