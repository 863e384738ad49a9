"""What a transcript says, as text to search: who said what on which line of the file, and when.

Words of people and answers of the assistant only: no tool calls and results, no thinking, no recalled
notes, no flushes, summaries or commands, nothing that was never delivered; and no keys or passwords.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, tzinfo
from io import BytesIO
from typing import Any, NamedTuple

from nacre.memory.files.sources.secrets import without_secrets
from nacre.runtime.contracts.clock import stored_moment
from nacre.runtime.contracts.inbound import was_command
from nacre.runtime.contracts.silence import without_token
from nacre.sessions.contracts.keys import canonical_key
from nacre.sessions.contracts.messages import whole_number
from nacre.sessions.disk.json_text import read_lines, timestamp_ms
from nacre.sessions.entries.entries import SessionOwner, blocks_text, entry_from_json, session_owner

OWNER = "User"
ANYBODY = "Somebody"
"""Who speaks where it cannot be told that it is the owner: in groups, and in chats of others."""


class SaidLine(NamedTuple):
    """One message as a line of text, the number of its line in the file, from 1, and its day."""

    text: str
    number: int
    day: date | None


def said_lines(data: bytes, *, key: str, agent_id: str, main_key: str, zone: tzinfo) -> Iterator[SaidLine]:
    """Yields what JSON lines of a transcript say, with days in `zone`.

    `key` is the session's key, empty when it is not known; what the file says of itself goes first.
    """
    speaker = OWNER if is_owners_key(key, agent_id=agent_id, main_key=main_key) else ANYBODY
    number, place = 1, 0
    for line in read_lines(BytesIO(data)):
        number += data.count(b"\n", place, line.start)
        place = line.start
        raw = line.value or {}
        message = raw.get("message")
        if raw.get("type") == "custom":
            owner = session_owner(entry_from_json(raw))
            if owner is not None:
                speaker = _speaker(owner, speaker, agent_id=agent_id, main_key=main_key)
        elif raw.get("type") == "message" and isinstance(message, dict) and (said := _said(message, speaker)):
            yield SaidLine(said, number, _day(message, raw, zone))


def is_owners_key(key: str, *, agent_id: str, main_key: str) -> bool:
    """Whether nobody but the owner speaks in the session of this key: the main one and its threads."""
    main = canonical_key(main_key, agent_id=agent_id, main_key=main_key)
    return key == main or key.startswith(f"{main}:thread:")


def _speaker(owner: SessionOwner, speaker: str, *, agent_id: str, main_key: str) -> str:
    """Who speaks, as the session's own entry tells; `speaker` if it does not."""
    if owner.is_private is not None:
        return OWNER if owner.is_private else ANYBODY
    if owner.key is None:
        return speaker
    return OWNER if is_owners_key(owner.key, agent_id=agent_id, main_key=main_key) else ANYBODY


def _said(message: Mapping[str, Any], speaker: str) -> str:
    role = message.get("role")
    try:
        text = blocks_text(message.get("content")) if role in ("user", "assistant") else ""
    except ValueError:
        return ""
    if role == "assistant":
        speaker, text = "Assistant", without_token(text)
    elif was_command(text):
        return ""
    words = " ".join(text.split())
    return f"{speaker}: {without_secrets(words)}" if words else ""


def _day(message: Mapping[str, Any], raw: Mapping[str, Any], zone: tzinfo) -> date | None:
    at_ms = whole_number(message.get("timestamp")) or timestamp_ms(str(raw.get("timestamp") or ""))
    moment = stored_moment(at_ms, zone)
    return moment.date() if moment is not None else None
