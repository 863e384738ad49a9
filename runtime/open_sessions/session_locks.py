"""Locks that allow one turn at a time in a session.

Within a process, turns wait for an asyncio lock in order of arrival. Between processes, they wait for a lock
of the session store, which a killed process cannot leave behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from nacre.runtime.contracts.errors import SessionInUse

POLL_SECONDS = 0.05
NOTICE_AFTER_SECONDS = 2.0


class ProcessLocks(Protocol):
    """The part of `SessionStore` that locks sessions across processes."""

    def turn_lock(self, key: str) -> AbstractAsyncContextManager[bool]:
        """The lock of a session; see `SessionStore.turn_lock`."""


class SessionLocks:
    """The session locks of one agent. `locks` excludes other processes; `sleep` waits between attempts."""

    def __init__(
        self, locks: ProcessLocks, *, sleep: Callable[[float], Awaitable[None]], wait_seconds: float
    ) -> None:
        self._between_processes = locks
        self._sleep = sleep
        self._wait_seconds = wait_seconds
        self._locks: dict[str, asyncio.Lock] = {}
        self._waiting: dict[str, int] = {}

    def is_busy(self, session_key: str) -> bool:
        """Whether a task of this process holds the session's lock or waits for it."""
        return session_key in self._waiting

    @asynccontextmanager
    async def enter(
        self, session_key: str, *, on_wait: Callable[[str], None], wait_seconds: float | None = None
    ) -> AsyncIterator[None]:
        """Holds the session's lock. `on_wait` receives one sentence if another process holds it.

        `wait_seconds` limits the wait for another process; the default is the agent's limit.

        Raises:
            SessionInUse: another process held the lock for longer.
        """
        lock = self._locks.setdefault(session_key, asyncio.Lock())
        self._waiting[session_key] = self._waiting.get(session_key, 0) + 1
        longest_seconds = self._wait_seconds if wait_seconds is None else wait_seconds
        waited_seconds = 0.0
        try:
            async with lock:
                while True:
                    async with self._between_processes.turn_lock(session_key) as is_ours:
                        if is_ours:
                            yield
                            return
                    if waited_seconds >= longest_seconds:
                        raise _in_use(session_key, longest_seconds)
                    await self._sleep(POLL_SECONDS)
                    before, waited_seconds = waited_seconds, waited_seconds + POLL_SECONDS
                    if before < NOTICE_AFTER_SECONDS <= waited_seconds:
                        on_wait(f"Waiting: another process is running a turn of session {session_key!r}.")
        finally:
            self._waiting[session_key] -= 1
            if not self._waiting[session_key]:
                del self._waiting[session_key], self._locks[session_key]


def _in_use(session_key: str, waited_seconds: float) -> SessionInUse:
    return SessionInUse(
        f"Another process has been running a turn of session {session_key!r} for over "
        f"{waited_seconds:.0f} seconds. "
        "Try again when it is finished, or use another session."
    )
