"""The operations of `nacre sessions` on stored sessions, without an agent. Edge: files, locks, memory."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import tzinfo
from functools import cached_property
from pathlib import Path

from nacre.runtime.contracts.clock import brief_clock, owner_zone
from nacre.runtime.settings.config import Config
from nacre.runtime.storage.storage import open_sessions
from nacre.sessions.contracts.errors import SessionWriteFailed
from nacre.sessions.disk.durable import write_new
from nacre.sessions.upkeep.maintenance import UpkeepReport
from nacre.sessions.upkeep.stored_session import StoredSession, find_session

LANE_WAIT_SECONDS = 5.0
"""How long a command waits for another process's turn before it gives up."""


class SessionShelf:
    """The stored sessions of the agent that a config describes.

    `now` returns the time, `main_key` is the name of the owner's main session.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self.main_key = config.settings.session.main_key
        self.now = brief_clock(config.settings.agent.user_timezone)
        self.store = open_sessions(config, self.now)

    @cached_property
    def zone(self) -> tzinfo:
        """The owner's time zone, made on demand."""
        return owner_zone(self._config.settings.agent.user_timezone or None)

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences for the owner about what could not be read."""
        return self.store.index.notices

    async def find(self, name: str) -> StoredSession:
        """The session of a key, an id or the beginning of one.

        Raises:
            SessionNotFound: there is none, or there are several.
        """
        sessions = await self.store.sessions(with_earlier=True)
        return find_session(sessions, name, agent_id=self._config.agent_id, main_key=self.main_key)

    async def last_words(self, sessions: Sequence[StoredSession]) -> dict[str, str]:
        """The last user message by session id, without sessions that have none."""
        found = await self.store.last_messages(sessions, most=len(sessions))
        return {session.session_id: words for session, words in found}

    async def delete(self, session: StoredSession) -> str:
        """Deletes a session while no turn runs in it; returns where its transcript is now.

        Raises:
            SessionInUse: another process runs a turn in it. SessionWriteFailed: the system refused.
        """
        from nacre.runtime.open_sessions.routing import SessionLocks

        lanes = SessionLocks(self.store, sleep=asyncio.sleep, wait_seconds=LANE_WAIT_SECONDS)
        async with lanes.enter(session.key, on_wait=lambda _: None):
            aside = await self.store.delete(session)
        await self.store.close()
        return aside

    async def keep_up(self, *, dry_run: bool) -> UpkeepReport:
        """Keeps the sessions within the owner's limits. Raises `SessionWriteFailed`."""
        limits = self._config.settings.session.maintenance.limits()
        return await self.store.maintain(limits, main_key=self.main_key, active_keys=(), dry_run=dry_run)

    async def forget_in_memory(self) -> str:
        """Removes deleted transcripts from memory search; returns a sentence if that failed."""
        if "sessions" not in self._config.settings.agent.memory_search.sources:
            return ""
        from nacre.closing import using
        from nacre.memory.contracts.errors import MemoryIndexError
        from nacre.runtime.recall.open_memory import open_memory

        try:
            memory = await open_memory(self._config, self.now)
            if memory is None:
                return ""
            async with using(memory):
                problem = (await memory.sync(reason="delete")).problem
        except MemoryIndexError as error:
            problem = str(error)
        return f"Memory search may still find it: {problem}" if problem else ""

    def write_new(self, path: Path, data: bytes) -> None:
        """Writes a new file that only its owner can read. Raises `SessionWriteFailed`."""
        try:
            write_new(path, data)
        except SessionWriteFailed as error:
            if isinstance(error.__cause__, FileExistsError):
                raise SessionWriteFailed(
                    f"{path} exists and was not overwritten. Name a new file.",
                    path=path,
                ) from error
            raise
