"""How sessions are called and how long ago they were active, in words. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from nacre.cli.screen.plain import one_line
from nacre.runtime.contracts.clock import stored_moment
from nacre.sessions.contracts.keys import key_kind

if TYPE_CHECKING:
    from nacre.sessions.index.record import SessionRecord


def age(at_ms: int, now: datetime) -> str:
    """How long ago a moment was, in words; a day when it is far away or still to come."""
    moment = stored_moment(at_ms, now.tzinfo or UTC)
    if moment is None:
        return "unknown"
    past = now - moment
    if past < timedelta(seconds=-60) or past >= timedelta(days=30):
        return f"{moment:%Y-%m-%d}"
    if past < timedelta(minutes=1):
        return "just now"
    if past < timedelta(hours=1):
        return f"{past // timedelta(minutes=1)} min ago"
    if past < timedelta(days=1):
        return f"{past // timedelta(hours=1)} h ago"
    return f"{past.days} d ago"


def session_name(key: str, record: SessionRecord, main_key: str, *, is_current: bool = True) -> str:
    """A session's key without its agent, as every command takes it; `main` for the main session."""
    parts = key.split(":", 2)
    name = parts[2] if parts[0] == "agent" and len(parts) == 3 else key
    if key.endswith(main_key.strip().lower()) and key_kind(key, main_key=main_key) == "main":
        name = "main"
    called = record.label or record.display_name
    shown = one_line(f"{name} ({called})" if called else name)
    return shown if is_current else f"{shown}, earlier"
