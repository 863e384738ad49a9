"""One turn at a time in a session, whichever task or process asks.

Inside the process an asyncio lock, first come, first served; between processes the lane of a store, which
a killed process cannot leave behind.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from nacre.runtime.contracts.errors import SessionInUse
from nacre.runtime.contracts.events import Emit, Warned

POLL_SECONDS = 0.05
NOTICE_AFTER_SECONDS = 2.0


class LaneLocks(Protocol):
    """What of a `SessionStore` keeps other processes out."""

    def lane(self, key: str) -> AbstractAsyncContextManager[bool]:
        """Whether this caller alone may have a turn of the key until the block ends; never waits."""


class Lanes:
    """The lanes of one agent. `locks` keep other processes out; `sleep` waits between tries."""

    def __init__(
        self, locks: LaneLocks, *, sleep: Callable[[float], Awaitable[None]], wait_seconds: float
    ) -> None:
        self._between_processes = locks
        self._sleep = sleep
        self._wait_seconds = wait_seconds
        self._locks: dict[str, asyncio.Lock] = {}
        self._waiting: dict[str, int] = {}

    def is_busy(self, session_key: str) -> bool:
        """Whether somebody of this process is in the lane, or waits for it."""
        return session_key in self._waiting

    @asynccontextmanager
    async def enter(
        self, session_key: str, *, on_wait: Callable[[str], None], wait_seconds: float | None = None
    ) -> AsyncIterator[None]:
        """Holds the session's lane. `on_wait` gets one sentence when another process keeps it busy.

        `wait_seconds` is how long to wait for another process, unless it is as long as usual.

        Raises:
            SessionInUse: another process kept the lane for longer than this agent waits.
        """
        lock = self._locks.setdefault(session_key, asyncio.Lock())
        self._waiting[session_key] = self._waiting.get(session_key, 0) + 1
        longest_seconds = self._wait_seconds if wait_seconds is None else wait_seconds
        waited_seconds = 0.0
        try:
            async with lock:
                while True:
                    async with self._between_processes.lane(session_key) as is_ours:
                        if is_ours:
                            yield
                            return
                    if waited_seconds >= longest_seconds:
                        raise _in_use(session_key, longest_seconds)
                    await self._sleep(POLL_SECONDS)
                    before, waited_seconds = waited_seconds, waited_seconds + POLL_SECONDS
                    if before < NOTICE_AFTER_SECONDS <= waited_seconds:
                        on_wait(f"Waiting: another process is in a turn of session {session_key!r}.")
        finally:
            self._waiting[session_key] -= 1
            if not self._waiting[session_key]:
                del self._waiting[session_key], self._locks[session_key]


def _in_use(session_key: str, waited_seconds: float) -> SessionInUse:
    return SessionInUse(
        f"Another process has been in a turn of session {session_key!r} for over "
        f"{waited_seconds:.0f} seconds. "
        "Try again when it is done, or use another session."
    )


log = logging.getLogger(__name__)


class Told:
    """What an agent has told so far, session by session."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str]] = set()

    def once(self, session_id: str, notices: Sequence[str], emit: Emit) -> None:
        """Warns of each notice that this session has not been told yet; an empty id is the whole agent."""
        for notice in notices:
            if (session_id, notice) not in self._told:
                self._told.add((session_id, notice))
                log.warning("%s", notice)
                emit(Warned(message=notice))
