"""The transcripts that an agent has read, so that the next turn of a session reads only what is new."""

from __future__ import annotations

from pathlib import Path

from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.ids import NewId
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.journal.journal import Journal

MOST_KEPT_BYTES = 64_000_000
"""So many bytes of transcripts are kept, those used last, and always the one in use. In memory a transcript
takes nearly twice its file."""
LEAST_BYTES = 8_000
"""What a transcript takes that says nothing yet; each counts for so much more than its file."""


class Journals:
    """Opens transcripts for the holder of their session's lane. `workspace` goes into new headers."""

    def __init__(self, *, workspace: Path, now: Clock, new_id: NewId) -> None:
        self._workspace = workspace
        self._now = now
        self._new_id = new_id
        self._kept: dict[Path, Journal] = {}
        self._counted: dict[Path, int] = {}
        self._kept_bytes = 0

    async def open(self, path: Path, *, session_id: str) -> Journal:
        """The journal at `path`, with what other processes appended to it since.

        Raises:
            SessionError: see `Journal.open`.
        """
        journal = await self._caught_up(self._kept.get(path)) or await Journal.open(
            path, session_id=session_id, cwd=self._workspace, now=self._now, new_id=self._new_id
        )
        self._keep(path, journal)
        while len(self._kept) > 1 and self._kept_bytes > MOST_KEPT_BYTES:
            self._forget(next(iter(self._kept)))
        return journal

    def _keep(self, path: Path, journal: Journal) -> None:
        """Counts it as it is now, as the one that was used last."""
        self._forget(path)
        self._kept[path] = journal
        self._counted[path] = journal.size_bytes + LEAST_BYTES
        self._kept_bytes += self._counted[path]

    def _forget(self, path: Path) -> None:
        self._kept.pop(path, None)
        self._kept_bytes -= self._counted.pop(path, 0)

    async def _caught_up(self, journal: Journal | None) -> Journal | None:
        if journal is None:
            return None
        try:
            await journal.refresh()
        except SessionError:
            # Gone or broken since: opening it anew says what is the matter.
            return None
        return journal
