"""That a process lives: locks of its own connection, which the server lets go of when it ends. Edge.

A process that is killed has its connections closed by its machine within moments; one that is paused, or cut
off, keeps them. So who finds no lock may go on sooner than who waits for a silence, and a fence keeps out
whoever lost the connection alone.
"""

from __future__ import annotations

import secrets
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from nacre.postgres.errors import DatabaseError
from nacre.postgres.pool import ConnectionLimits, connected

if TYPE_CHECKING:
    from nacre.postgres.pool import Connection

LOOK_SECONDS = 2.0
"""So long a connection that was there is taken to be there still."""
GONE_SECONDS = 7.0
"""A process without its lock that said nothing for so long has ended. One that lives says something each five
seconds, and takes its lock again before, so that a server that restarts takes nothing from it."""
_TAKE = b"SELECT pg_try_advisory_lock(%s)"


class Life:
    """That of a process in one database. Its methods wait for the server: call them on a thread."""

    def __init__(self, url: str, limits: ConnectionLimits) -> None:
        self.number = secrets.randbits(62)
        """What the process is known by while it lives."""
        self._url = url
        self._limits = limits
        self._changing = threading.Lock()
        self._connection: Connection | None = None
        self._keys: set[int] = set()
        self._looked = 0.0

    def hold(self, *more: int) -> bool:
        """Takes the lock of `number` and of `more` numbers, again where the connection was lost; whether all
        are had. Without them others wait for the silence."""
        with self._changing:
            wanted = {self.number, *more}
            is_new = time.monotonic() - self._looked < LOOK_SECONDS
            if self._connection is not None and wanted <= self._keys and is_new:
                return True
            try:
                self._take(wanted)
            except DatabaseError:
                return False
            except Exception:  # noqa: BLE001 - it went; the next call makes one
                self._drop()
                return False
            return wanted <= self._keys

    def close(self) -> None:
        """Lets go of all. Who asks afterwards takes them again."""
        with self._changing:
            self._drop()

    def _take(self, wanted: set[int]) -> None:
        if self._connection is not None:
            try:
                self._connection.execute("SELECT 1")
            except Exception:  # noqa: BLE001 - it was lost, and a new one is made
                self._drop()
        if self._connection is None:
            self._connection = connected(self._url, self._limits)
        for key in sorted(wanted - self._keys):
            row = self._connection.execute(_TAKE, (key,)).fetchone()
            if row is not None and row[0]:
                self._keys.add(key)
        self._looked = time.monotonic()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        self._keys.clear()
        if connection is not None:
            with suppress(Exception):
                connection.close()
