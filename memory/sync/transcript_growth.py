"""Transcripts that grew by enough are indexed while the agent runs, without a search that asks for it."""

from __future__ import annotations

import asyncio
import logging

from nacre.memory.contracts.errors import MemoryIndexError
from nacre.memory.contracts.settings import SessionSyncSettings
from nacre.memory.contracts.transcripts import TranscriptSource
from nacre.memory.sync.syncing import Syncing
from nacre.memory.sync.transcripts import due_and_waiting

log = logging.getLogger(__name__)

QUIET_SECONDS = 5.0
"""How long after something was said transcripts are looked at: turns in quick succession cost one look."""


class TranscriptGrowth:
    """Looks whether a transcript is due, some seconds after it is told that something was said."""

    def __init__(self, source: TranscriptSource, settings: SessionSyncSettings, syncing: Syncing) -> None:
        self._source = source
        self._settings = settings
        self._syncing = syncing
        self._has_grown = False
        self._look: asyncio.Task[None] | None = None

    def grown(self) -> None:
        """Something was said."""
        self._has_grown = True
        if self._look is None or self._look.done():
            self._look = asyncio.create_task(self._look_until_quiet(), name="memory-transcripts")

    async def close(self) -> None:
        """Stops looking."""
        if self._look is not None:
            self._look.cancel()
            await asyncio.gather(self._look, return_exceptions=True)

    async def _look_until_quiet(self) -> None:
        while self._has_grown:
            await asyncio.sleep(QUIET_SECONDS)
            self._has_grown = False
            try:
                is_due = await self._is_due()
            except (OSError, MemoryIndexError) as error:
                log.warning("whether transcripts have grown cannot be seen: %s", error)
                continue
            if is_due:
                self._syncing.start("session-delta")

    async def _is_due(self) -> bool:
        infos = await self._source.transcripts()
        stored = await self._syncing.with_store(
            lambda store: store.read(lambda index: index.file_states("sessions"))
        )
        return due_and_waiting(infos, stored, self._settings)[0] > 0
