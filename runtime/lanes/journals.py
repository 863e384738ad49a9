"""The transcripts that an agent has read, so that the next turn of a session reads only what is new."""

from __future__ import annotations

from pathlib import Path

from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.ids import NewId
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.journal.journal import Journal

MOST_KEPT = 8
MOST_KEPT_BYTES = 64_000_000
"""A transcript in memory takes about one and a half times its file, so only the latest ones are kept: so
many, and of them no more than this together. The one in use always is."""


class Journals:
    """Opens transcripts for the holder of their session's lane. `workspace` goes into new headers."""

    def __init__(self, *, workspace: Path, now: Clock, new_id: NewId) -> None:
        self._workspace = workspace
        self._now = now
        self._new_id = new_id
        self._kept: dict[Path, Journal] = {}

    async def open(self, path: Path, *, session_id: str) -> Journal:
        """The journal at `path`, with what other processes appended to it since.

        Raises:
            SessionError: see `Journal.open`.
        """
        journal = await self._caught_up(self._kept.pop(path, None)) or await Journal.open(
            path, session_id=session_id, cwd=self._workspace, now=self._now, new_id=self._new_id
        )
        self._kept[path] = journal
        while len(self._kept) > 1 and self._is_too_much():
            del self._kept[next(iter(self._kept))]
        return journal

    def _is_too_much(self) -> bool:
        kept_bytes = sum(journal.size_bytes for journal in self._kept.values())
        return len(self._kept) > MOST_KEPT or kept_bytes > MOST_KEPT_BYTES

    async def _caught_up(self, journal: Journal | None) -> Journal | None:
        if journal is None:
            return None
        try:
            await journal.refresh()
        except SessionError:
            # Gone or broken since: opening it anew says what is the matter.
            return None
        return journal
