"""What begins passes while an agent runs: changed files, transcripts that have grown, the clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from nacre.memory.sync.triggers.settling import Settling
from nacre.memory.sync.triggers.transcript_growth import TranscriptGrowth

if TYPE_CHECKING:
    from nacre.memory.contracts.index_settings import SyncSettings
    from nacre.memory.contracts.notes import NoteWatch


class Following:
    """Calls `start` with the reason of a pass that is due, and `changed` at each change of a note.

    Nothing is followed before `begin`.
    """

    def __init__(
        self, settings: SyncSettings, *, start: Callable[[str], object], changed: Callable[[], None]
    ) -> None:
        self._settings = settings
        self._start = start
        self._changed = changed
        self._watch: NoteWatch | None = None
        self._settling: Settling | None = None
        self._growth: TranscriptGrowth | None = None
        self._clock: asyncio.Task[None] | None = None

    @property
    def watching(self) -> str:
        """Whether changes of files are told: `on`, `off`, or why they are only looked for."""
        return (self._watch.problem or "on") if self._watch else "off"

    async def begin(
        self,
        watch: Callable[[Callable[[], None]], Awaitable[NoteWatch]],
        transcripts_due: Callable[[], Awaitable[bool]] | None,
    ) -> None:
        """Follows files and transcripts, as the settings say.

        `watch` begins to tell of changed notes; `transcripts_due` looks whether a transcript has grown by
        enough, and is `None` where transcripts are no memory.
        """
        if self._settings.interval_minutes:
            self._clock = asyncio.create_task(self._at_intervals(), name="memory-interval")
        if transcripts_due is not None:
            self._growth = TranscriptGrowth(
                is_due=transcripts_due, index=lambda: self._begin_pass("session-delta")
            )
        if self._settings.watch:
            self._settling = Settling(
                debounce_ms=self._settings.watch_debounce_ms,
                changed=self._changed,
                settled=lambda: self._begin_pass("watch"),
            )
            self._watch = await watch(self._settling.note_change)

    def transcripts_changed(self) -> None:
        """Says that something was said."""
        if self._growth is not None:
            self._growth.grown()

    async def close(self) -> None:
        """Follows nothing any more."""
        if self._watch is not None:
            await self._watch.close()
        if self._settling is not None:
            self._settling.close()
        if self._growth is not None:
            await self._growth.close()
        if self._clock is not None:
            self._clock.cancel()
            await asyncio.gather(self._clock, return_exceptions=True)

    def _begin_pass(self, reason: str) -> None:
        self._start(reason)

    async def _at_intervals(self) -> None:
        while True:
            await asyncio.sleep(self._settings.interval_minutes * 60)
            self._start("interval")
