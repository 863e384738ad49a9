"""The output of `nacre sessions …`, for people and for scripts.

The JSON has OpenClaw's names for the fields of `sessions.json`, and additional fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any

from nacre.cli.screen.json_text import camel_json, escaped_controls, json_text
from nacre.cli.screen.plain import aligned, cut_to_cells, one_line, plain
from nacre.cli.screen.session_words import SHORT_ID_CHARS, age, session_name
from nacre.runtime.commands.wording import counted, short_count
from nacre.runtime.contracts.clock import stored_moment
from nacre.sessions.contracts.keys import key_kind
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    message_text,
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
from nacre.sessions.upkeep.maintenance import UpkeepReport
from nacre.sessions.upkeep.stored_session import StoredSession

_KEY_CELLS = 36
_WORDS_CELLS = 44
_LINE_CELLS = 100


def list_lines(
    sessions: Sequence[StoredSession], words: Mapping[str, str], *, now: datetime, main_key: str
) -> list[str]:
    """A table with a heading, or a sentence. `words` has the last user message by session id."""
    if not sessions:
        return ["There are no sessions yet. `nacre chat` starts one."]
    rows = [("SESSION", "ID", "ACTIVE", "CONTEXT", "LAST SAID")]
    for session in sessions:
        name = session_name(session.key, session.record, main_key, is_current=session.is_current)
        rows.append(
            (
                cut_to_cells(name, _KEY_CELLS),
                one_line(session.session_id[:SHORT_ID_CHARS]),
                age(session.active_at_ms, now),
                _context(session),
                cut_to_cells(one_line(words.get(session.session_id, "")), _WORDS_CELLS),
            )
        )
    return aligned(rows)


def list_json(sessions: Sequence[StoredSession], place: str, *, main_key: str) -> dict[str, Any]:
    return {
        "path": place,
        "count": len(sessions),
        "sessions": [session_json(session, main_key=main_key) for session in sessions],
    }


def session_json(session: StoredSession, *, main_key: str) -> dict[str, Any]:
    """One session for scripts: its facts, and its line in the index."""
    return {
        "key": session.key,
        "kind": key_kind(session.key, main_key=main_key),
        "current": session.is_current,
        "transcript": session.place or None,
        "sizeBytes": session.size_bytes,
        **record_to_json(session.record),
    }


def show_lines(
    session: StoredSession,
    transcript: StoredTranscript,
    *,
    last: int,
    now: datetime,
    main_key: str,
    short: Callable[[Path], str],
) -> list[str]:
    """`Label: value` lines without unknown values, and the last messages of the current branch."""
    record, zone = session.record, now.tzinfo or UTC
    spoken = _messages(transcript.branch)
    elsewhere = len(_messages(transcript.entries)) - len(spoken)
    compactions = sum(isinstance(entry.body, Compaction) for entry in transcript.branch)
    history = counted(len(spoken), "message")
    history += f", {elsewhere} more on abandoned branches" if elsewhere else ""
    history += f" · {counted(compactions, 'compaction')}" if compactions else ""
    earlier = ", ".join(name[:SHORT_ID_CHARS] for name in record.previous_session_ids)
    pairs = [
        ("Session", session.session_id),
        ("Key", session.key if session.is_current else f"{session.key} (ended; this is an earlier session)"),
        ("Kind", key_kind(session.key, main_key=main_key)),
        ("Name", record.label or record.display_name or ""),
        ("Replies go to", " ".join(filter(None, (record.last_channel, record.last_to)))),
        ("Started", _moment(record.session_started_at_ms, zone)),
        ("Active", f"{_moment(session.active_at_ms, zone)} ({age(session.active_at_ms, now)})"),
        ("Model", "/".join(filter(None, (record.model_provider, record.model)))),
        ("Context", _context(session)),
        ("History", history),
        ("Earlier", earlier),
        ("File", f"{short(Path(session.place))} ({session.size_bytes} bytes)" if session.place else ""),
    ]
    lines = [f"{label + ':':<15}{one_line(value)}" for label, value in pairs if value]
    shown = [line for entry in _last(transcript.branch, last) for line in _entry_lines(entry, zone)]
    return lines + (["", *shown] if shown else [])


def show_json(
    session: StoredSession, transcript: StoredTranscript, *, last: int, main_key: str
) -> dict[str, Any]:
    """A session and its last messages for scripts; messages are unchanged."""
    return {
        **session_json(session, main_key=main_key),
        "messageCount": len(_messages(transcript.branch)),
        "messages": [
            {"entryId": entry.id, "timestamp": entry.timestamp, **entry.body.to_json()}
            for entry in _last(transcript.branch, last)
            if isinstance(entry.body, Message)
        ],
        "marks": [mark for entry in transcript.branch for mark in _marks(entry)],
    }


def _marks(entry: Entry) -> Iterator[dict[str, Any]]:
    place = {"entryId": entry.id, "timestamp": entry.timestamp}
    if isinstance(entry.body, Compaction):
        yield {"type": "compaction", **place, "tokensBefore": entry.body.tokens_before}
    elif (flush := _flush(entry)) is not None:
        yield {"type": "flush", **place, "status": flush.get("status"), "path": flush.get("path") or None}


def deleted_line(session: StoredSession, aside: str, short: Callable[[Path], str]) -> str:
    """A sentence about a deleted session, and how to restore it."""
    deleted = f"Deleted session {session.session_id} of {session.key}."
    if not aside:
        return f"{deleted} It had no transcript."
    now_at = short(Path(aside))
    return f"{deleted} Its transcript is now {now_at}; to undo, rename it to {session.session_id}.jsonl."


def deleted_json(deleted: Sequence[tuple[StoredSession, str]], problem: str) -> dict[str, Any]:
    return {
        "deleted": [
            {**camel_json(session, "key", "session_id"), "movedTo": aside or None}
            for session, aside in deleted
        ],
        "problem": problem or None,
    }


def upkeep_json(report: UpkeepReport, *, dry_run: bool) -> dict[str, Any]:
    return {
        "dryRun": dry_run,
        "pruned": list(report.pruned_keys),
        **camel_json(report, "moved_aside", "removed", "removed_bytes"),
    }


def _context(session: StoredSession) -> str:
    record = session.record
    if session.size_bytes is None:
        is_new = session.is_current and record.total_tokens is None
        return "nothing said yet" if is_new else "no transcript"
    if record.total_tokens is None or not record.total_tokens_fresh:
        return ""
    window = f"/{short_count(record.context_tokens)}" if record.context_tokens else ""
    return f"{short_count(record.total_tokens)}{window}"


def _moment(at_ms: int | None, zone: tzinfo) -> str:
    moment = stored_moment(at_ms or 0, zone)
    return f"{moment:%Y-%m-%d %H:%M}" if moment is not None else ""


def _messages(entries: Sequence[Entry]) -> list[Entry]:
    return [entry for entry in entries if isinstance(entry.body, Message)]


def _last(branch: Sequence[Entry], count: int) -> list[Entry]:
    shown: list[Entry] = []
    for entry in reversed(branch):
        if count <= 0:
            break
        is_mark = isinstance(entry.body, Compaction | BranchSummary) or _flush(entry) is not None
        if is_mark or isinstance(entry.body, Message):
            shown.append(entry)
            count -= isinstance(entry.body, Message)
    return shown[::-1]


def _flush(entry: Entry) -> Mapping[str, Any] | None:
    from nacre.runtime.open_sessions.open_session import (
        FLUSH_ENTRY,  # imported here, because a list does not need it
    )

    return entry.custom_data(FLUSH_ENTRY)


def _entry_lines(entry: Entry, zone: tzinfo) -> list[str]:
    if isinstance(entry.body, Compaction):
        before = f" ({short_count(entry.body.tokens_before)} tokens)" if entry.body.tokens_before else ""
        return [f"--- compaction: earlier messages were summarized{before} ---"]
    if (flush := _flush(entry)) is not None:
        status, path, problem = (str(flush.get(name) or "") for name in ("status", "path", "problem"))
        result = f" to {path}" if path else f": {problem}" if problem else ""
        return [one_line(f"--- flush, {status or 'unknown'}{result} ---")]
    if isinstance(entry.body, BranchSummary):
        return ["--- went back to here from another branch ---"]
    return _message_lines(entry.body, zone) if isinstance(entry.body, Message) else []


def _message_lines(message: Message, zone: tzinfo) -> list[str]:
    at, text = _moment(message.timestamp_ms, zone), message_text(message).strip()
    if isinstance(message, ToolResultMessage):
        failed = " failed" if message.is_error else ""
        return [_detail(f"{message.tool_name}{failed}: {text}")]
    images = sum(isinstance(block, Image) for block in message.content)
    text += f"\n[{counted(images, 'image')}]" if images else ""
    who = "User" if isinstance(message, UserMessage) else "Assistant"
    lines = [f"[{at}] {who}: {text}"] if text else []
    if isinstance(message, AssistantMessage):
        for call in message.tool_calls:
            arguments = json.dumps(dict(call.arguments), ensure_ascii=False, default=str)
            lines.append(_detail(f"→ {call.name} {arguments}"))
        if message.error_message:
            lines.append(_detail(f"broke off: {message.error_message}"))
    return lines


def _detail(text: str) -> str:
    return f"  {cut_to_cells(one_line(text), _LINE_CELLS)}"


def exported(form: str, session: StoredSession, transcript: StoredTranscript, zone: tzinfo) -> bytes:
    """The session in the form `markdown`, or as `json` with all entries of every branch."""
    if form == "json":
        value = {
            "key": session.key,
            "index": record_to_json(session.record),
            "header": header_to_json(transcript.header),
            "entries": [entry_to_json(entry) for entry in transcript.entries],
            "branch": [entry.id for entry in transcript.branch],
        }
    text = json_text(value) if form == "json" else _markdown(session, transcript, zone)
    return f"{text}\n".encode("utf-8", "backslashreplace")


def printable(form: str, data: bytes) -> str:
    """An export for standard output, which may be a terminal.

    Characters that could control it become escapes in JSON, and visible signs in Markdown.
    """
    text = data.decode("utf-8", "replace")
    return plain(text) if form == "markdown" else escaped_controls(text)


def _markdown(session: StoredSession, transcript: StoredTranscript, zone: tzinfo) -> str:
    """The current branch as Markdown: messages with their times, tool calls and their results in full."""
    facts = {
        "Session": transcript.header.id,
        "Key": session.key,
        "Started": _at(transcript.header.timestamp, zone),
        "Model": session.record.model or "",
    }
    parts = ["# Session", "\n".join(f"- {label}: {value}" for label, value in facts.items() if value)]
    for entry in transcript.branch:
        parts += _entry_parts(entry, zone)
    return "\n\n".join(parts)


def _entry_parts(entry: Entry, zone: tzinfo) -> list[str]:
    body, at = entry.body, _at(entry.timestamp, zone)
    if isinstance(body, Message):
        return _message_parts(body, at)
    if isinstance(body, Compaction):
        return [f"## Summary of earlier messages · {at}", body.summary.strip()]
    if isinstance(body, BranchSummary):
        return [f"## Summary of an abandoned branch · {at}", body.summary.strip()]
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
