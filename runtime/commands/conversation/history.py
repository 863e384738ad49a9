"""What was said in a session, and what it cost. Pure."""

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
    """Something that was said. `place` is its entry's id, to go back to."""

    place: str
    speaker: Speaker
    text: str
    said_at: datetime


def history_of(branch: Sequence[Entry], *, limit: int | None = None) -> tuple[SessionMessage, ...]:
    """The last `limit` things that were said on a branch, the oldest first; all of them without a limit.

    Every word counts, also those for which the model sees a summary; tool calls, results and what the
    assistant kept silent about do not.
    """
    found: list[SessionMessage] = []
    for entry in reversed(branch):
        if limit is not None and len(found) >= limit:
            break
        if is_spoken(entry) and (message := message_of(entry)) is not None and message.text:
            found.append(message)
    return tuple(reversed(found))


def message_of(entry: Entry) -> SessionMessage | None:
    """What an entry says, `None` for one that is no message of a person or the assistant."""
    if isinstance(entry.body, AssistantMessage):
        speaker: Speaker = "assistant"
        text = without_token(message_text(entry.body)).strip()
    elif isinstance(entry.body, UserMessage):
        speaker, text = "person", message_text(entry.body)
    else:
        return None
    return SessionMessage(place=entry.id, speaker=speaker, text=text, said_at=moment_of(entry))


def usage_of(tree: EntryTree) -> Usage:
    """Tokens and cost of all model calls that a transcript has, on every branch, those of flushes too.

    What providers reported; a call of which nothing was reported counts nothing.
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
