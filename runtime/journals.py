"""The transcripts that an agent has read, so that the next turn of a session reads only what is new."""

from __future__ import annotations

from pathlib import Path

from nacre.runtime.clock import Clock
from nacre.runtime.ids import NewId
from nacre.sessions.errors import SessionError
from nacre.sessions.journal import Journal

MOST_KEPT = 8
"""A long transcript takes tens of megabytes once read, so only those of the latest sessions are kept."""


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
        while len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        return journal

    async def _caught_up(self, journal: Journal | None) -> Journal | None:
        if journal is None:
            return None
        try:
            await journal.refresh()
        except SessionError:
            # Gone or broken since: opening it anew says what is the matter.
            return None
        return journal
