"""Entries of a transcript in which something was said, for tests of what is made of them."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from nacre.runtime.hooks.events import SessionEnded
from nacre.sessions.contracts.messages import AssistantMessage, Message, Text, ToolCall, user_message
from nacre.sessions.entries.entries import Entry


def entry(message: Message, number: int = 0) -> Entry:
    return Entry(id=str(number), parent_id=None, timestamp="2026-03-14T22:00:00.000Z", body=message)


def user(text: str) -> Entry:
    return entry(user_message(text, timestamp_ms=1_773_500_000_000))


def assistant(text: str, *tool_calls: ToolCall) -> Entry:
    content = (*((Text(text=text),) if text else ()), *tool_calls)
    return entry(
        AssistantMessage(
            content=content,
            api="scripted",
            provider="scripted",
            model="model",
            usage=None,
            stop_reason="stop",
            timestamp_ms=1_773_500_000_000,
        )
    )


def ended(*entries: Entry, session_id: str = "00000001") -> SessionEnded:
    """A private session that its owner ended with `/new` at 23:30 in Berlin."""
    return SessionEnded(
        reason="new",
        session_key="agent:main:main",
        session_id=session_id,
        transcript="00000001.jsonl",
        entries=entries,
        is_private=True,
        channel="terminal",
        ended_at=datetime(2026, 3, 14, 23, 30, tzinfo=ZoneInfo("Europe/Berlin")),
    )
