"""Transcripts that grew by enough are indexed while the agent runs, without a search that asks for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from nacre.memory.contracts.errors import MemoryIndexError

log = logging.getLogger(__name__)

QUIET_SECONDS = 5.0
"""How long after something was said transcripts are looked at: turns in quick succession cost one look."""


class TranscriptGrowth:
    """Looks whether a transcript is due, some seconds after it is told that something was said.

    `is_due` looks, and may raise `OSError` or `MemoryIndexError`; `index` is called when one is.
    """

    def __init__(self, *, is_due: Callable[[], Awaitable[bool]], index: Callable[[], None]) -> None:
        self._is_due = is_due
        self._index = index
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
                self._index()
