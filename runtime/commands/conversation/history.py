"""The messages of a session, the places to go back to, and what its model calls cost."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from nacre.record import Record
from nacre.runtime.contracts.silence import without_token
from nacre.runtime.open_sessions.open_session import FLUSH_MESSAGE_ENTRY
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Message,
    Usage,
    UserMessage,
    message_text,
    usage_from_json,
)
from nacre.sessions.disk.json_text import timestamp_ms
from nacre.sessions.entries.entries import Entry, EntryTree

HERE = "here"
"""The current place, as in `/fork here`; no label may have this name."""
_NAME = re.compile(r"(?=.*[^\W\d_])[\w.-]{1,40}")
"""A label has a letter, so that it differs from a number."""


class SessionTurn(Record):
    """A user message as a place to go back to: the moment before it was sent.

    `before_id` is the preceding entry, or `None` if it was the first. `leaves` counts the messages from it
    on.
    """

    before_id: str | None
    text: str
    said_at: datetime
    leaves: int


class SessionLabel(Record):
    """A named place. `place` is the entry's id, `at` its time."""

    name: str
    place: str
    at: datetime


class Leaving(Record):
    """The messages that a change of branch leaves, and the numbers of messages left and regained."""

    messages: tuple[Message, ...]
    left: int
    regained: int


def turns_of(branch: Sequence[Entry], *, limit: int | None = None) -> tuple[SessionTurn, ...]:
    """The last user messages on a branch, newest first; all without a limit."""
    found: list[SessionTurn] = []
    leaves = 0
    for place in range(len(branch) - 1, -1, -1):
        if limit is not None and len(found) >= limit:
            break
        entry = branch[place]
        leaves += is_spoken(entry)
        if isinstance(entry.body, UserMessage):
            found.append(
                SessionTurn(
                    before_id=branch[place - 1].id if place else None,
                    text=message_text(entry.body),
                    said_at=moment_of(entry),
                    leaves=leaves,
                )
            )
    return tuple(found)


def labels_of(tree: EntryTree) -> tuple[SessionLabel, ...]:
    """The labels of a transcript, in the order of their entries."""
    return tuple(
        SessionLabel(name=name, place=entry.id, at=moment_of(entry))
        for entry in tree.entries
        if (name := tree.labels.get(entry.id))
    )


def leaving(branch: Sequence[Entry], target: Sequence[Entry]) -> Leaving:
    """What is on `branch` but not on `target`; both begin at a root."""
    ids = {entry.id for entry in target}
    shared = len(branch)
    while shared and branch[shared - 1].id not in ids:
        shared -= 1
    return Leaving(
        messages=tuple(entry.body for entry in branch[shared:] if isinstance(entry.body, Message)),
        left=sum(map(is_spoken, branch[shared:])),
        regained=sum(map(is_spoken, target[shared:])),
    )


def is_spoken(entry: Entry) -> bool:
    """Whether an entry is a message with text of a person or the assistant, not just a call or a result."""
    if isinstance(entry.body, AssistantMessage):
        return bool(message_text(entry.body).strip())
    return isinstance(entry.body, UserMessage)


def moment_of(entry: Entry) -> datetime:
    """When an entry was written; the epoch if it has no time."""
    return datetime.fromtimestamp(timestamp_ms(entry.timestamp) / 1000, UTC)


def is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None and text.lower() != HERE


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


def last_usage_of(branch: Sequence[Entry]) -> Usage | None:
    """The usage of the newest answer for which the provider reported one."""
    answers = (entry.body for entry in reversed(branch) if isinstance(entry.body, AssistantMessage))
    return next((answer.usage for answer in answers if answer.usage is not None), None)


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
