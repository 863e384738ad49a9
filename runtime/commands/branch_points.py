"""Where a conversation can go back to, and what `/rewind`, `/fork` and `/label` say of it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from nacre.runtime.commands.wording import shortened
from nacre.sessions.contracts.messages import AssistantMessage, Message, UserMessage, message_text
from nacre.sessions.disk.lines import timestamp_ms
from nacre.sessions.entries.entries import Entry

HERE = "here"
"""The present place, in `/fork here`."""
MOST_LISTED = 10
SHOWN_CHARS = 60
_NAME = re.compile(r"(?=.*[^\W\d_])[\w.-]{1,40}")
"""A name is one word with a letter in it, so that it cannot be taken for a number."""


@dataclass(frozen=True, kw_only=True)
class BranchPoint:
    """Something that the user said, to go back to the moment before it.

    `before_id` is the entry in front of it, `None` when it was the first. `leaves` counts what people
    and assistant said from it on.
    """

    before_id: str | None
    text: str
    said_at: datetime
    leaves: int


@dataclass(frozen=True, kw_only=True)
class Leaving:
    """What going from one branch to another leaves out, and how much that was said is left and regained."""

    messages: tuple[Message, ...]
    left: int
    regained: int


def branch_points(branch: Sequence[Entry]) -> list[BranchPoint]:
    """What the user said last on a branch, the newest first, `MOST_LISTED` at most."""
    points: list[BranchPoint] = []
    leaves = 0
    for place in range(len(branch) - 1, -1, -1):
        entry = branch[place]
        leaves += is_spoken(entry)
        if isinstance(entry.body, UserMessage):
            points.append(
                BranchPoint(
                    before_id=branch[place - 1].id if place else None,
                    text=shortened(message_text(entry.body), SHOWN_CHARS),
                    said_at=moment_of(entry),
                    leaves=leaves,
                )
            )
            if len(points) == MOST_LISTED:
                break
    return points


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


def preview_text(points: Sequence[BranchPoint], names: Mapping[str, datetime], *, zone: tzinfo | None) -> str:
    """The answer to `/rewind` and `/fork` without a place: what there is to go back to."""
    if not points:
        return "Nothing has been said here yet, so there is nothing to go back to."
    lines = ["Go back to before one of these; nothing is deleted:"]
    for number, point in enumerate(points, 1):
        at = _clock(point.said_at, zone)
        lines.append(f"{number:>3} · {at} · “{point.text}” · leaves {_messages(point.leaves)}")
    if names:
        lines.append("Names: " + ", ".join(f"{name} ({_clock(at, zone)})" for name, at in names.items()))
    lines += [
        "/rewind 1 goes back here; /fork 1 does so in a new session and keeps this one as it is; "
        "/fork here goes on in a copy. A name or an entry's id serves as well as a number.",
        "/rewind 1 <note> tells the assistant what to remember of what is left.",
    ]
    return "\n".join(lines)


def rewound_text(
    leaving: Leaving, *, last_said: Message | None, return_id: str | None, files: Sequence[str]
) -> str:
    """The answer to `/rewind <place>`."""
    told = [f"⏪ Went back: {_messages(leaving.left)} left"]
    if leaving.regained:
        told.append(f"{_messages(leaving.regained)} back in view")
    lines = [", ".join(told) + "."]
    if last_said is None:
        lines.append("The conversation begins anew.")
    else:
        who = "You" if isinstance(last_said, UserMessage) else "Assistant"
        lines.append(f"The last words are now: {who}: “{shortened(message_text(last_said), SHOWN_CHARS)}”")
    if files:
        lines.append(f"Files stay as they are: {', '.join(files)}.")
    if return_id:
        lines.append(f"/rewind {return_id} returns to where you were.")
    return "\n".join(lines)


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count} messages"


def _clock(moment: datetime, zone: tzinfo | None) -> str:
    return moment.astimezone(zone).strftime("%Y-%m-%d %H:%M")
