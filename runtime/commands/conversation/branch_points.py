"""Where a conversation can go back to, and what is left by going. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from nacre.record import Record
from nacre.sessions.contracts.messages import AssistantMessage, Message, UserMessage, message_text
from nacre.sessions.disk.json_text import timestamp_ms
from nacre.sessions.entries.entries import Entry, EntryTree

HERE = "here"
"""The present place, in `/fork here`; so no place can be named like that."""
_NAME = re.compile(r"(?=.*[^\W\d_])[\w.-]{1,40}")
"""A name is one word with a letter in it, so that it cannot be taken for a number."""


class SessionTurn(Record):
    """Something that a person said, and a place to go back to: the moment before it was said.

    `before_id` is the entry in front of it, `None` when it was the first. `leaves` counts what people
    and assistant said from it on.
    """

    before_id: str | None
    text: str
    said_at: datetime
    leaves: int


class SessionLabel(Record):
    """A name that was given to a place. `place` is the entry's id, `at` when that entry was written."""

    name: str
    place: str
    at: datetime


class Leaving(Record):
    """What going from one branch to another leaves out, and how much that was said is left and regained."""

    messages: tuple[Message, ...]
    left: int
    regained: int


def turns_of(branch: Sequence[Entry], *, limit: int | None = None) -> tuple[SessionTurn, ...]:
    """What people said last on a branch, the newest first; all of it without a limit."""
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
    """The names that places of a transcript have, in the order of the places."""
    return tuple(
        SessionLabel(name=name, place=entry.id, at=moment_of(entry))
        for entry in tree.entries
        if (name := tree.label(entry.id))
    )


def leaving(branch: Sequence[Entry], target: Sequence[Entry]) -> Leaving:
    """What is on one branch and not on the other; both begin at a root."""
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
    """Whether an entry is something that a person or the assistant said, and not only a call or a result."""
    if isinstance(entry.body, AssistantMessage):
        return bool(message_text(entry.body).strip())
    return isinstance(entry.body, UserMessage)


def moment_of(entry: Entry) -> datetime:
    """When an entry was written; the beginning of time when it does not say."""
    return datetime.fromtimestamp(timestamp_ms(entry.timestamp) / 1000, UTC)


def is_name(text: str) -> bool:
    """Whether a place may be called so."""
    return _NAME.fullmatch(text) is not None and text.lower() != HERE
