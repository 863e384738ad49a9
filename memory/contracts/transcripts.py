"""The contract for the source of an agent's transcripts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Protocol

from nacre.record import Record


class TranscriptInfo(Record):
    """A transcript: its file name, size, lines, and whether its session has ended."""

    name: str
    size_bytes: int
    lines: int
    modified_ns: int
    ended: bool


class TranscriptText(Record):
    """The text of a transcript, one message per line (`User: …`, `Assistant: …`).

    `line_numbers`, from 1 in the file, and `days` belong to the lines.
    """

    lines: Sequence[str]
    line_numbers: Sequence[int]
    days: Sequence[date | None]


class TranscriptSource(Protocol):
    """Provides the transcripts that the engine may search."""

    async def transcripts(self) -> Sequence[TranscriptInfo]:
        """All present transcripts. Raises `OSError` if they cannot be listed; none counts as deleted then."""

    async def text(self, name: str) -> TranscriptText | None:
        """The text of a transcript; `None` if it is gone or cannot be read now."""

    async def close(self) -> None:
        """Releases resources; the engine calls this when it is closed."""
