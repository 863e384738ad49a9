"""Keeps an agent's sessions within the owner's limits: at the start, then every hour beside the turns."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence

from nacre.runtime.contracts.clock import Clock, epoch_ms
from nacre.runtime.settings.sections.session import SessionSettings
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.stores.store import SessionStore
from nacre.sessions.upkeep.maintenance import UpkeepReport

log = logging.getLogger(__name__)

EVERY_MS = 3_600_000
_SHOWN_NAMES = 3


class Upkeep:
    """The upkeep of one agent's sessions. `notices` are sentences for the owner."""

    def __init__(self, store: SessionStore, settings: SessionSettings, *, now: Clock) -> None:
        self._store = store
        self._settings = settings
        self._now = now
        self._due_ms = 0
        self._task: asyncio.Task[None] | None = None
        self.notices: tuple[str, ...] = ()

    async def begin(self) -> None:
        """The first time, before any turn: whoever comes back after a month finds the index as it will be."""
        self.start_if_due(())
        await self.close()

    def start_if_due(self, active_keys: Collection[str]) -> None:
        """Begins in the background when the last time was an hour ago.

        `active_keys` are those with a turn, looked at again when lines leave: a view that stays true.
        """
        at_ms = epoch_ms(self._now())
        if at_ms < self._due_ms or (self._task is not None and not self._task.done()):
            return
        self._due_ms = at_ms + EVERY_MS
        self._task = asyncio.create_task(self._run(active_keys), name="sessions-upkeep")

    async def close(self) -> None:
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, active_keys: Collection[str]) -> None:
        maintenance = self._settings.maintenance
        dry_run = maintenance.mode == "warn"
        try:
            report = await self._store.keep_up(
                maintenance.limits(),
                main_key=self._settings.main_key,
                active_keys=active_keys,
                dry_run=dry_run,
            )
        except (SessionError, OSError) as error:
            log.warning("sessions could not be kept within their limits: %s", error)
            return
        if report.is_empty:
            return
        told = upkeep_text(report, dry_run=dry_run)
        log.info("%s", told)
        # That a line left the index changes nothing that the owner can see; a file that is gone does.
        if dry_run or report.removed:
            self.notices = (told,)


def upkeep_text(report: UpkeepReport, *, dry_run: bool) -> str:
    """What was done, or would be done, in a sentence for each kind."""
    left, were = ("would leave", "would be") if dry_run else ("left", "were")
    sentences = [
        f"Lines that {left} the index because nobody used them: {_some(report.pruned_keys)}. "
        "What was said stays in `nacre sessions list --all`.",
        f"Transcripts of programs that {were} moved aside: {_some(report.moved_aside)}.",
        f"Files that {were} removed, as session.maintenance asks: {_some(report.removed)} "
        f"({report.removed_bytes} bytes).",
    ]
    there_is = (report.pruned_keys, report.moved_aside, report.removed)
    told = [sentence for sentence, names in zip(sentences, there_is, strict=True) if names]
    return " ".join(told) or "The sessions are within their limits."


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    return ", ".join(names[:_SHOWN_NAMES]) + more
