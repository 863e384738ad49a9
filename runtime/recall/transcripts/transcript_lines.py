"""What a transcript says, as text to search: who said what on which line of the file, and when.

Words of people and answers of the assistant only: no tool calls and results, no thinking, no recalled
notes, no flushes, summaries or commands, nothing that was never delivered; and no keys or passwords.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, tzinfo
from io import BytesIO
from typing import NamedTuple

from nacre.memory.files.sources.secrets import without_secrets
from nacre.runtime.contracts.clock import stored_moment
from nacre.runtime.contracts.inbound import was_command
from nacre.runtime.contracts.silence import without_token
from nacre.sessions.contracts.keys import canonical_key
from nacre.sessions.contracts.messages import AssistantMessage, Message, UserMessage, message_text
from nacre.sessions.disk.json_text import read_lines, timestamp_ms
from nacre.sessions.entries.entries import Entry, SessionOwner, entry_from_json, session_owner

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
        if line.value is None:
            continue
        entry = entry_from_json(line.value)
        owner = session_owner(entry)
        if owner is not None:
            speaker = _speaker(owner, speaker, agent_id=agent_id, main_key=main_key)
        elif said := _said(entry, speaker):
            yield SaidLine(said, number, _day(entry, zone))


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


def _said(entry: Entry, speaker: str) -> str:
    if isinstance(entry.body, UserMessage):
        text = message_text(entry.body)
        text = "" if was_command(text) else text
    elif isinstance(entry.body, AssistantMessage):
        speaker, text = "Assistant", without_token(message_text(entry.body))
    else:
        return ""
    words = " ".join(text.split())
    return f"{speaker}: {without_secrets(words)}" if words else ""


def _day(entry: Entry, zone: tzinfo) -> date | None:
    at_ms = entry.body.timestamp_ms if isinstance(entry.body, Message) else 0
    moment = stored_moment(at_ms or timestamp_ms(entry.timestamp), zone)
    return moment.date() if moment is not None else None
