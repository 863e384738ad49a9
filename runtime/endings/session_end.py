"""The event `session_end`: a session has ended, for whichever reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import ClassVar

from nacre.sessions.contracts.endings import EndReason
from nacre.sessions.entries.entries import Entry


@dataclass(frozen=True, kw_only=True)
class SessionEnded:
    """A session has ended; the action is the reason.

    `transcript` is its file, which stays where it is, and `entries` its present branch. `is_private`
    says that nobody but the owner wrote in it. `channel` is where the message came from that ended it.
    """

    type: ClassVar[str] = "session_end"
    reason: EndReason
    session_key: str
    session_id: str
    transcript: Path
    entries: Sequence[Entry]
    is_private: bool
    channel: str
    ended_at: datetime

    @property
    def action(self) -> str:
        return self.reason
