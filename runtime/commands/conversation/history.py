"""The messages of a session, and what its model calls cost."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, TypeAlias

from nacre.record import Record
from nacre.runtime.commands.conversation.branch_points import is_spoken, moment_of
from nacre.runtime.contracts.silence import without_token
from nacre.runtime.open_sessions.open_session import FLUSH_MESSAGE_ENTRY
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Usage,
    UserMessage,
    message_text,
    usage_from_json,
)
from nacre.sessions.entries.entries import Entry, EntryTree

Speaker: TypeAlias = Literal["person", "assistant"]


class SessionMessage(Record):
    """One message. `place` is its entry's id, to go back to."""

    place: str
    speaker: Speaker
    text: str
    said_at: datetime


def history_of(branch: Sequence[Entry], *, limit: int | None = None) -> tuple[SessionMessage, ...]:
    """The last `limit` messages on a branch, oldest first; all without a limit.

    Messages that the model sees only as a summary are included. Tool calls, results and silent answers are
    not.
    """
    found: list[SessionMessage] = []
    for entry in reversed(branch):
        if limit is not None and len(found) >= limit:
            break
        if is_spoken(entry) and (message := message_of(entry)) is not None and message.text:
            found.append(message)
    return tuple(reversed(found))


def message_of(entry: Entry) -> SessionMessage | None:
    """The message of an entry, or `None` if it is not a message of a person or the assistant."""
    if isinstance(entry.body, AssistantMessage):
        speaker: Speaker = "assistant"
        text = without_token(message_text(entry.body)).strip()
    elif isinstance(entry.body, UserMessage):
        speaker, text = "person", message_text(entry.body)
    else:
        return None
    return SessionMessage(place=entry.id, speaker=speaker, text=text, said_at=moment_of(entry))


def usage_of(tree: EntryTree) -> Usage:
    """Tokens and cost of all model calls in a transcript, on every branch and including flushes.

    Only usage that providers reported is counted.
    """
    total = Usage()
    for entry in tree.entries:
        if isinstance(entry.body, AssistantMessage) and entry.body.usage is not None:
            total += entry.body.usage
    for entry in tree.customs(FLUSH_MESSAGE_ENTRY):
        data = entry.custom_data(FLUSH_MESSAGE_ENTRY) or {}
        usage = usage_from_json(data.get("usage"))
        if usage is not None:
            total += usage
    return total
