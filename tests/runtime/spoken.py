"""Entries of a transcript in which something was said, for tests of what is made of them."""

from __future__ import annotations

from nacre.sessions.entries import Entry, MessageEntry
from nacre.sessions.messages import AssistantMessage, Message, Text, ToolCall, user_message


def entry(message: Message, number: int = 0) -> Entry:
    return MessageEntry(id=str(number), parent_id=None, timestamp="2026-03-14T22:00:00.000Z", message=message)


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
