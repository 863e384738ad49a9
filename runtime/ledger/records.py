"""The values of a ledger: messages, parts, jobs, people. A contract: messages are bytes on disk."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Literal, NamedTuple, TypeAlias

from nacre.record import Record
from nacre.runtime.contracts.inbound import Attachment, Inbound, Quoted
from nacre.runtime.contracts.outbound import Part, Place

_OF_THE_MOMENT = ("attachments", "quoted", "redelivered", "joined_by", "context")
_PLAIN = tuple(field.name for field in fields(Inbound) if field.name not in _OF_THE_MOMENT)


def inbound_to_json(inbound: Inbound) -> str:
    """The message as a JSON text, its files in base64. Lone surrogates become escapes."""
    stored: dict[str, Any] = {name: getattr(inbound, name) for name in _PLAIN}
    stored["attachments"] = [
        {
            "name": file.name,
            "mime_type": file.mime_type,
            "data": base64.b64encode(file.data).decode("ascii"),
            "problem": file.problem,
            "said_by": file.said_by,
        }
        for file in inbound.attachments
    ]
    stored["quoted"] = [
        {name: getattr(quote, name) for name in ("text", "kind", "said_by", "label")}
        for quote in inbound.quoted
    ]
    return json.dumps(stored)


def asker_to_json(inbound: Inbound) -> str:
    """Who wrote a message, and where, without its text: enough to check their rights again."""
    return inbound_to_json(replace(inbound, text="", attachments=(), quoted=()))


def inbound_from_json(text: str) -> Inbound:
    """Parses a stored message; fields that an older program did not write have their defaults.

    Raises:
        ValueError: the text is invalid.
    """
    stored = json.loads(text)
    if not isinstance(stored, Mapping) or not isinstance(stored.get("text"), str):
        raise ValueError("this is not a stored message")
    files = tuple(
        Attachment(
            name=file["name"],
            mime_type=file["mime_type"],
            data=base64.b64decode(file["data"]),
            problem=file.get("problem", ""),
            said_by=file.get("said_by", ""),
        )
        for file in stored.get("attachments", ())
    )
    quoted = tuple(Quoted(**quote) for quote in stored.get("quoted", ()))
    plain = {name: stored[name] for name in _PLAIN if name in stored}
    # Whatever is not known to be private is a group.
    return Inbound(**{"chat_kind": "group", **plain}, attachments=files, quoted=quoted)


MOST_KEPT_IDS = 1_000
"""How many of the newest messages of a chat are remembered; servers repeat only much newer ones."""

PartState: TypeAlias = Literal["pending", "unsure"]
PartRow: TypeAlias = tuple[int, str, str, str, str, str, str, str, int, int, str, str]
"""A row for `part_from_row`: number, channel, account, chat, thread, answered message, text, state,
whether it was a draft, attempts, its id on the server, its asker as JSON."""
Who: TypeAlias = tuple[str, str, str]
"""Channel, account and id of a sender."""


class LedgerUnusable(Exception):
    """The ledger cannot be read or written; the message says why and what to do."""


class LedgerLost(LedgerUnusable):
    """The program has lost the ledger, and gets it back only by a new start."""


class JobChanged(Exception):
    """A job was removed or changed meanwhile; read it again."""


class JobMoved(Record):
    """A job that was due at `before_ms` is due at `due_ms` next; without that and a `problem`, it is
    removed.

    Times are epoch milliseconds. Writing it raises `JobChanged` if the job is not due at `before_ms`.
    """

    job_id: str
    before_ms: int | None
    due_ms: int | None
    problem: str = ""


class HeartbeatRan(Record):
    """An agent had a heartbeat at `at_ms` and the one before at `before_ms`, in epoch milliseconds."""

    agent_id: str
    at_ms: int
    before_ms: int


Along: TypeAlias = JobMoved | HeartbeatRan
"""A change in the transaction of a message; if it fails, the message is not stored either."""


class Received(Record):
    """A message that waits or is being answered by the agent `agent_id`.

    `turn` is the number of the first message of its batch. `was_begun`: it was handed to the agent in that
    turn before, which did not finish; `attempts` counts how often. `has_joined`: it joined that turn while it
    ran. `begins`: it is new, and already recorded as handed to the agent.
    """

    number: int
    session_key: str
    inbound: Inbound
    agent_id: str = ""
    turn: int = 0
    was_begun: bool = False
    attempts: int = 0
    has_joined: bool = False
    begins: bool = False

    @property
    def named(self) -> Received:
        """The same message; without an id, it gets the ledger's number, so that it is recognized again."""
        if self.inbound.message_id:
            return self
        return replace(self, inbound=replace(self.inbound, message_id=f"#{self.number}"))


class OutboundPart(Record):
    """A part that is to be sent. `sent_id` is set if it is shown already, and has to be edited.

    `was_draft`: the text that may be shown differs from it. `asker` is whom it answers, as a message whose
    text may be missing; `None` if nobody asked.
    """

    number: int
    part: Part
    state: PartState = "pending"
    sent_id: str = ""
    was_draft: bool = False
    attempts: int = 0
    asker: Inbound | None = None


class StoredJob(NamedTuple):
    """A stored job: its asker as JSON, its time in epoch milliseconds."""

    job_id: str
    agent_id: str
    asker: str
    text: str
    rule: str
    due_ms: int | None
    problem: str = ""


class StoredPerson(NamedTuple):
    """A person who asks for access with a code, or has a role; since `at_ms`, in epoch milliseconds."""

    channel: str
    account: str
    sender_id: str
    at_ms: int
    code: str = ""
    role: str = ""
    own_agent: str = ""


class Delivery(NamedTuple):
    """A part of an answer: when its message was received (epoch milliseconds, 0 if unknown), and its
    state.

    `attempts` counts the failed ones.
    """

    received_ms: int
    channel: str
    chat_id: str
    state: str
    attempts: int
    problem: str


BridgeState: TypeAlias = Literal["stopped", "connecting", "connected", "waiting"]


class BridgeStatus(NamedTuple):
    """The status of a bridge since `since_ms`. Times are epoch milliseconds.

    `problem` says why it is not connected, or what is refused although it is. `next_try_ms` is when it is
    restarted if it waits for that, else 0. `holder` names the program that runs it, where there are several.
    """

    channel: str
    account: str
    state: BridgeState
    problem: str = ""
    restarts: int = 0
    since_ms: int = 0
    next_try_ms: int = 0
    holder: str = ""

    @property
    def line(self) -> str:
        """The status in one line, for people."""
        name = self.channel if self.account == "default" else f"{self.channel}/{self.account}"
        again = f", started again {self.restarts}×" if self.restarts else ""
        why = f": {self.problem}" if self.problem else ""
        return f"{name} {self.state}{again}{why}"


def part_from_row(row: PartRow, ledger_id: str) -> OutboundPart:
    """A part with its key, which contains the ledger's id, so that keys of different ledgers differ."""
    number, channel, account, chat_id, thread_id, answers, text, state, was_draft, attempts, sent, asker = row
    place = Place(channel=channel, account=account, chat_id=chat_id, thread_id=thread_id)
    return OutboundPart(
        number=number,
        part=Part(place=place, text=text, key=f"{ledger_id}-{number}", answers=answers),
        state="unsure" if state == "unsure" else "pending",
        sent_id=sent,
        was_draft=bool(was_draft),
        attempts=attempts,
        asker=inbound_from_json(asker) if asker else None,
    )


def chat_of(place: Place | Inbound) -> tuple[str, str, str]:
    return place.channel, place.account, place.chat_id


def is_owner_chat(inbound: Inbound) -> bool:
    """Whether a message shows where the owner can be reached: the owner wrote it, in private."""
    return inbound.is_owner is True and inbound.chat_kind == "direct" and not inbound.trigger
