"""A whole session as a document: Markdown to read, JSON to process. Pure."""

from __future__ import annotations

import json
import re
from datetime import datetime, tzinfo

from nacre.cli.screen.json_text import escaped_controls, json_text
from nacre.cli.screen.plain import plain
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from nacre.sessions.entries.entries import (
    BranchSummary,
    Compaction,
    CustomMessage,
    Entry,
    StoredTranscript,
    entry_to_json,
    header_to_json,
)
from nacre.sessions.index.record import record_to_json
from nacre.sessions.upkeep.stored_session import StoredSession


def exported(form: str, session: StoredSession, transcript: StoredTranscript, zone: tzinfo) -> bytes:
    """The session in the form `markdown` or `json`."""
    text = _json(session, transcript) if form == "json" else _markdown(session, transcript, zone)
    return f"{text}\n".encode("utf-8", "backslashreplace")


def printable(form: str, data: bytes) -> str:
    """An export for standard output, which may be a terminal behind any number of pipes.

    What could drive it is an escape in JSON, which gives the same values, and a visible sign in Markdown.
    """
    text = data.decode("utf-8", "replace")
    return plain(text) if form == "markdown" else escaped_controls(text)


def _markdown(session: StoredSession, transcript: StoredTranscript, zone: tzinfo) -> str:
    """The present branch for readers: who said what when, tools and their results in full."""
    facts = {
        "Session": transcript.header.id,
        "Key": session.key,
        "Begun": _at(transcript.header.timestamp, zone),
        "Model": session.record.model or "",
    }
    parts = ["# Session", "\n".join(f"- {label}: {value}" for label, value in facts.items() if value)]
    for entry in transcript.branch:
        parts += _entry_parts(entry, zone)
    return "\n\n".join(parts)


def _json(session: StoredSession, transcript: StoredTranscript) -> str:
    """Header, index line and every entry of every branch; `branch` are the ids of the present one."""
    value = {
        "key": session.key,
        "index": record_to_json(session.record),
        "header": header_to_json(transcript.header),
        "entries": [entry_to_json(entry) for entry in transcript.entries],
        "branch": [entry.id for entry in transcript.branch],
    }
    return json_text(value)


def _entry_parts(entry: Entry, zone: tzinfo) -> list[str]:
    body, at = entry.body, _at(entry.timestamp, zone)
    if isinstance(body, Message):
        return _message_parts(body, at)
    if isinstance(body, Compaction):
        return [f"## Summary of what came before · {at}", body.summary.strip()]
    if isinstance(body, BranchSummary):
        return [f"## Summary of a branch that was left · {at}", body.summary.strip()]
    if isinstance(body, CustomMessage) and body.display:
        return [f"## Note · {at}", body.content.strip()]
    return []


def _message_parts(message: Message, at: str) -> list[str]:
    if isinstance(message, ToolResultMessage):
        failed = ", failed" if message.is_error else ""
        return [f"**Result of {message.tool_name}{failed}**", *(_block(block) for block in message.content)]
    who = "User" if isinstance(message, UserMessage) else "Assistant"
    parts = [f"## {who} · {at}"]
    for block in message.content:
        if isinstance(block, ToolCall):
            arguments = json.dumps(dict(block.arguments), ensure_ascii=False, indent=2, default=str)
            parts += [f"**Call of {block.name}**", _fenced(block.invalid_arguments or arguments, "json")]
        elif isinstance(block, Text):
            parts.append(block.text.strip())
        elif not isinstance(block, Thinking):
            parts.append(_block(block))
    if isinstance(message, AssistantMessage) and message.error_message:
        parts.append(f"*Broke off: {' '.join(message.error_message.split())}*")
    return [part for part in parts if part]


def _block(block: Text | Image) -> str:
    return _fenced(block.text, "") if isinstance(block, Text) else f"*An image, {block.mime_type}*"


def _fenced(text: str, language: str) -> str:
    longest = max((len(row) for row in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _at(timestamp: str, zone: tzinfo) -> str:
    try:
        return f"{datetime.fromisoformat(timestamp).astimezone(zone):%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError):
        return timestamp
