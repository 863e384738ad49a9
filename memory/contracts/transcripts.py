"""Where an engine gets an agent's transcripts from, and what it is told of each."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Protocol

from nacre.record import Record


class TranscriptInfo(Record):
    """One transcript: its file name, its bytes and lines, and whether its session has ended."""

    name: str
    size_bytes: int
    lines: int
    modified_ns: int
    ended: bool


class TranscriptText(Record):
    """What was said, one message to a line (`User: …`, `Assistant: …`).

    `line_numbers` are the lines of the file (from 1), `days` the days, of each line here.
    """

    lines: Sequence[str]
    line_numbers: Sequence[int]
    days: Sequence[date | None]


class TranscriptSource(Protocol):
    """Where the engine gets an agent's transcripts from; only those it may search."""

    async def transcripts(self) -> Sequence[TranscriptInfo]:
        """All transcripts that exist now.

        Raises:
            OSError: they cannot be listed; nothing is then taken for deleted.
        """

    async def text(self, name: str) -> TranscriptText | None:
        """What one of them says; `None` when it is gone or cannot be read now."""

    async def close(self) -> None:
        """Releases what it holds; its engine calls this when it is closed itself."""
