"""The names and ages of sessions in words. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from nacre.cli.screen.plain import one_line
from nacre.runtime.contracts.clock import stored_moment
from nacre.sessions.contracts.keys import key_kind, owners_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nacre.runtime.commands.conversation.word_search import FoundSession
    from nacre.sessions.index.record import SessionRecord

SHORT_ID_CHARS = 8


def age(at_ms: int, now: datetime) -> str:
    """How long ago a moment was, in words; its day if it is long ago or in the future."""
    past_seconds = now.timestamp() - at_ms / 1000  # fast, because lists have thousands
    if at_ms <= 0 or not -60 <= past_seconds < 30 * 86_400:
        moment = stored_moment(at_ms, now.tzinfo or UTC)
        return "unknown" if moment is None else f"{moment:%Y-%m-%d}"
    if past_seconds < 60:
        return "just now"
    if past_seconds < 3_600:
        return f"{int(past_seconds // 60)} min ago"
    if past_seconds < 86_400:
        return f"{int(past_seconds // 3_600)} h ago"
    return f"{int(past_seconds // 86_400)} d ago"


def session_name(key: str, record: SessionRecord, main_key: str, *, is_current: bool = True) -> str:
    """The short name of a session, which every command accepts.

    A private session has the owner's name for it, the main one `main`, others their key without the agent.
    """
    parts = key.split(":", 2)
    name = parts[2] if parts[0] == "agent" and len(parts) == 3 else key
    own = name.removeprefix("direct:")
    if own not in ("", name) and owners_key(own, agent_id=parts[1], main_key=main_key) == key:
        name = own
    if key.endswith(main_key.strip().lower()) and key_kind(key, main_key=main_key) == "main":
        name = "main"
    called = record.label or record.display_name
    shown = one_line(f"{name} ({called})" if called else name)
    return shown if is_current else f"{shown}, earlier"


def found_session_lines(found: Sequence[FoundSession], *, now: datetime, main_key: str) -> list[str]:
    """Two lines for each session that a search found: its name, id and age, and the passage."""
    lines: list[str] = []
    for each in found:
        session = each.session
        name = session_name(session.key, session.record, main_key, is_current=session.is_current)
        identity = one_line(session.session_id[:SHORT_ID_CHARS])
        lines += [f"{name} · {identity} · {age(session.active_at_ms, now)}", f"  {one_line(each.passage)}"]
    return lines
