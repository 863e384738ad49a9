"""What starts passes while an agent runs: changed files, grown transcripts, and the clock."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from nacre.memory.contracts.errors import MemoryIndexError

if TYPE_CHECKING:
    from nacre.memory.contracts.index_settings import SyncSettings
    from nacre.memory.contracts.notes import NoteWatch


class IndexTriggers:
    """Calls `start` with the reason of a due pass, and `changed` at each change of a note.

    Nothing happens before `begin`.
    """

    def __init__(
        self, settings: SyncSettings, *, start: Callable[[str], object], changed: Callable[[], None]
    ) -> None:
        self._settings = settings
        self._start = start
        self._changed = changed
        self._watch: NoteWatch | None = None
        self._debounce: Debounce | None = None
        self._growth: TranscriptGrowth | None = None
        self._clock: asyncio.Task[None] | None = None

    @property
    def watching(self) -> str:
        """Whether changes of files are reported: `on`, `off`, or why they are only polled."""
        return (self._watch.problem or "on") if self._watch else "off"

    async def begin(
        self,
        watch: Callable[[Callable[[], None]], Awaitable[NoteWatch]],
        transcripts_due: Callable[[], Awaitable[bool]] | None,
    ) -> None:
        """Starts to follow files and transcripts, as the settings say.

        `watch` starts a watch over notes. `transcripts_due` says whether a transcript has grown enough; it is
        `None` if transcripts are not indexed.
        """
        if self._settings.interval_minutes:
            self._clock = asyncio.create_task(self._at_intervals(), name="memory-interval")
        if transcripts_due is not None:
            self._growth = TranscriptGrowth(
                is_due=transcripts_due, index=lambda: self._start("session-delta")
            )
        if self._settings.watch:
            self._debounce = Debounce(
                debounce_ms=self._settings.watch_debounce_ms,
                changed=self._changed,
                settled=lambda: self._start("watch"),
            )
            self._watch = await watch(self._debounce.note_change)

    def transcripts_changed(self) -> None:
        """Says that a transcript has grown."""
        if self._growth is not None:
            self._growth.grown()

    async def close(self) -> None:
        """Stops following."""
        if self._watch is not None:
            await self._watch.close()
        if self._debounce is not None:
            self._debounce.close()
        if self._growth is not None:
            await self._growth.close()
        if self._clock is not None:
            self._clock.cancel()
            await asyncio.gather(self._clock, return_exceptions=True)

    async def _at_intervals(self) -> None:
        while True:
            await asyncio.sleep(self._settings.interval_minutes * 60)
            self._start("interval")


_LONGEST_WAIT = 4
"""Continuous changes are synced after this many debounce times."""


class Debounce:
    """Calls `changed()` at each change, and `settled()` after a pause without changes."""

    def __init__(
        self, *, debounce_ms: int, changed: Callable[[], None], settled: Callable[[], object]
    ) -> None:
        self._debounce_seconds = debounce_ms / 1000
        self._changed = changed
        self._settled = settled
        self._timer: asyncio.TimerHandle | None = None
        self._first_change = 0.0

    def note_change(self) -> None:
        """Takes a change and restarts the wait for a pause, up to a limit."""
        loop = asyncio.get_running_loop()
        self._changed()
        if self._timer is None:
            self._first_change = loop.time()
        else:
            self._timer.cancel()
        latest = self._first_change + _LONGEST_WAIT * self._debounce_seconds
        self._timer = loop.call_at(min(loop.time() + self._debounce_seconds, latest), self._fire)

    def close(self) -> None:
        """Drops a pending `settled` call."""
        if self._timer is not None:
            self._timer.cancel()

    def _fire(self) -> None:
        self._timer = None
        self._settled()


log = logging.getLogger(__name__)

QUIET_SECONDS = 5.0
"""The delay before transcripts are checked, so that turns in quick succession cost one check."""


class TranscriptGrowth:
    """Checks some seconds after a transcript has grown whether one is due.

    `is_due` checks, and may raise `OSError` or `MemoryIndexError`; `index` is called if one is due.
    """

    def __init__(self, *, is_due: Callable[[], Awaitable[bool]], index: Callable[[], object]) -> None:
        self._is_due = is_due
        self._index = index
        self._has_grown = False
        self._look: asyncio.Task[None] | None = None

    def grown(self) -> None:
        """Says that a transcript has grown."""
        self._has_grown = True
        if self._look is None or self._look.done():
            self._look = asyncio.create_task(self._look_until_quiet(), name="memory-transcripts")

    async def close(self) -> None:
        """Stops checking."""
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
                log.warning("cannot check whether transcripts have grown: %s", error)
                continue
            if is_due:
                self._index()
