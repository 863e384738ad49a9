"""Whose turn it is: a lease in the database, renewed while the turn lasts. Edge.

A process that dies leaves its lease to others after a few seconds (`postgres/life.py`).
One that is paused for longer finds, when it wakes up, that
its fence is not the lane's any more, and the server takes nothing from it. Time is the server's.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from nacre.postgres.life import GONE_SECONDS
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.stores.postgres import statements
from nacre.sessions.stores.postgres.rows import AgentRows

LEASE_SECONDS = 20.0
"""How long others wait for a process that is silent; `GONE_SECONDS` where its connections ended with it."""

log = logging.getLogger(__name__)


class Lease:
    """The lane of one key, for an `async with`. Raises `SessionStoreRefused` on entering."""

    def __init__(self, rows: AgentRows, key: str, *, holder: str, lease_seconds: float) -> None:
        self._rows = rows
        self._key = key
        self._holder = holder
        self._seconds = lease_seconds
        self._fence: int | None = None
        self._renewing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> bool:
        """Whether it is this caller's."""
        life = self._rows.database.life
        has_life = await asyncio.to_thread(life.hold)
        values = {
            "lane": self._key,
            "holder": self._holder,
            "seconds": self._seconds,
            "gone_seconds": GONE_SECONDS,
            "life": life.number if has_life else None,
        }
        taken = await self._rows.single(lambda rows: rows.run(statements.TAKE_LANE, **values))
        if not taken:
            return False
        self._fence = self._rows.held[self._key] = taken[0][0]
        self._renewing = asyncio.create_task(self._renew(), name="session-lease")
        return True

    async def __aexit__(self, *_ended: object) -> None:
        """Leaves it to others; if the server cannot be told, the lease runs out."""
        if self._fence is None or self._renewing is None:
            return
        self._renewing.cancel()
        with suppress(asyncio.CancelledError):
            await self._renewing
        if self._rows.held.get(self._key) == self._fence:
            del self._rows.held[self._key]
        with suppress(SessionError):
            await self._say(statements.LEAVE_LANE)

    async def _renew(self) -> None:
        is_ours = True
        while is_ours:
            await asyncio.sleep(self._seconds / 4)
            await asyncio.to_thread(self._rows.database.life.hold)
            try:
                is_ours = bool(await self._say(statements.RENEW_LANE, seconds=self._seconds))
            except SessionError as error:
                log.warning("the lease of the session %r was not renewed: %s", self._key, error)
        log.warning("another process went on with the session %r", self._key)

    async def _say(self, statement: str, **values: float) -> list[tuple[object, ...]]:
        return await self._rows.single(
            lambda rows: rows.run(statement, lane=self._key, fence=self._fence, **values)
        )
