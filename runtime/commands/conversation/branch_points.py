"""The places to which a conversation can go back, and what that leaves behind."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from nacre.record import Record
from nacre.sessions.contracts.messages import AssistantMessage, Message, UserMessage, message_text
from nacre.sessions.disk.json_text import timestamp_ms
from nacre.sessions.entries.entries import Entry, EntryTree

HERE = "here"
"""The current place, as in `/fork here`; no label may have this name."""
_NAME = re.compile(r"(?=.*[^\W\d_])[\w.-]{1,40}")
"""A label is one word with a letter in it, so that it differs from a number."""


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
        if (name := tree.label(entry.id))
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
    """Whether a text is a valid label."""
    return _NAME.fullmatch(text) is not None and text.lower() != HERE
