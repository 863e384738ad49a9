"""A transcript that was only looked at."""

from __future__ import annotations

from nacre.sessions.entries.entries import Entry, SessionHeader
from nacre.values.frozen import dataclass


@dataclass(frozen=True, kw_only=True)
class StoredTranscript:
    """A transcript as it was when it was read: all entries, and the present branch."""

    header: SessionHeader
    entries: tuple[Entry, ...]
    branch: tuple[Entry, ...]
