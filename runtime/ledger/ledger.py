"""What a ledger is, wherever it is kept. What a method returns from is kept, whole or not at all.

A message: waiting ─► running ─► done      or dropped, when too many wait or the owner stops them
A part:    (draft ─►) pending ─► sending ─► sent      or failed; unsure where nobody knows whether it arrived

Every method raises `LedgerUnusable` when what keeps the ledger refuses, or the ledger is closed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.ids import NewId
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.contracts.outbound import Place
from nacre.runtime.ledger.moving import MovableLedger
from nacre.runtime.ledger.records import (
    Along,
    JobMoved,
    OutboundPart,
    Received,
    StoredJob,
    StoredPerson,
    StoredStatus,
    Who,
)


class Outbox(Protocol):
    """What has to go out, in the order in which it was put."""

    async def put(self, place: Place, texts: Sequence[str], *, answers: str = "") -> None:
        """Keeps parts that answer no turn."""
        ...

    async def draft(self, turn: int, place: Place, text: str, *, answers: str) -> OutboundPart | None:
        """Notes that the beginning of a turn's answer is about to be shown.

        `None` when nobody knows whether an earlier program showed one: then nothing more is shown before the
        whole answer, which says of itself that it may be a repeat where that cannot be found out.
        """
        ...

    async def next_part(
        self, channel: str, account: str, chat_id: str, *, after: int = 0
    ) -> OutboundPart | None:
        """The oldest part of a chat that is to be sent, of those with a number above `after`; `None` while
        there is none."""
        ...

    async def chats_with_parts(self, channel: str, account: str) -> tuple[str, ...]:
        """The chats that wait for something."""
        ...

    async def sending(self, part: OutboundPart) -> None:
        """Notes that a part is about to be sent: until `sent`, nobody knows whether it arrived."""
        ...

    async def sent(self, part: OutboundPart, sent_id: str, *, is_whole: bool = True) -> None:
        """Notes that a part arrived. One that is not `is_whole` is still to be changed."""
        ...

    async def drafted(self, part: OutboundPart, sent_id: str) -> None:
        """Notes that the beginning of an answer is shown."""
        ...

    async def undraft(self, part: OutboundPart) -> None:
        """Notes that the beginning of an answer surely is not shown."""
        ...

    async def not_sent(self, part: OutboundPart, state: str, problem: str) -> None:
        """Notes that sending failed: `pending`, `unsure` or, for good, `failed`."""
        ...

    async def counts(self) -> dict[str, int]:
        """How many parts are in which state, those that arrived left out."""
        ...


class PeopleRows(Protocol):
    """Who was let in, and who asks to be. Times are epoch milliseconds."""

    async def role(self, who: Who) -> str:
        """What a sender was made; empty for somebody unknown."""
        ...

    async def ask(
        self, who: Who, code: str, *, now_ms: int, since_ms: int, most: int, gives_way_ms: int = 0
    ) -> bool:
        """Keeps a code, unless its sender, or `most` of their account, asked after `since_ms`; whether so.

        What was asked until then is forgotten. When too many ask, the oldest who asked until `gives_way_ms`
        and was not denied gives way.
        """
        ...

    async def asking(self, since_ms: int) -> tuple[StoredPerson, ...]:
        """Who asked after `since_ms` and was not denied, the oldest first."""
        ...

    async def known(self) -> tuple[StoredPerson, ...]:
        """Who was let in, the oldest first."""
        ...

    async def approve(self, code: str, role: str, *, now_ms: int, since_ms: int) -> Who | None:
        """Lets in who asked with this code after `since_ms`; the code is used up."""
        ...

    async def deny(self, code: str, *, since_ms: int) -> Who | None:
        """Takes the code from who asked with it after `since_ms`; their line keeps them from asking again."""
        ...

    async def revoke(self, channel: str, sender_id: str) -> bool:
        """Takes back that a person was let in, on every account of a channel; whether they were."""
        ...


class JobRows(Protocol):
    """What is to be done without being asked. Times are epoch milliseconds."""

    async def add(self, job: StoredJob, *, made_ms: int, most: int) -> bool:
        """Keeps a job unless its agent has `most`; whether it is kept."""
        ...

    async def of_agent(self, agent_id: str) -> tuple[StoredJob, ...]:
        """The jobs of an agent, those that are due first in front, those that do not come behind."""
        ...

    async def due(self, at_ms: int) -> tuple[StoredJob, ...]:
        """The jobs of all agents that are due at a time, in their order."""
        ...

    async def recurring(self, after_ms: int) -> tuple[StoredJob, ...]:
        """The jobs of all agents that are due after a time, and again."""
        ...

    async def next_due_ms(self) -> int | None:
        """When the next job is due; `None` when none is."""
        ...

    async def remove(self, job_id: str) -> bool:
        """Removes a job; whether there was one."""
        ...

    async def move(self, moved: JobMoved) -> None:
        """Sets when a job is due next. Raises `JobChanged`."""
        ...

    async def last_beat_ms(self, agent_id: str, now_ms: int) -> int:
        """When an agent last had a heartbeat; that is now where it never had one."""
        ...


class LedgerTables(Protocol):
    """What a terminal may look at and change beside the program that serves."""

    @property
    def people(self) -> PeopleRows:
        """Who was let in."""
        ...

    @property
    def jobs(self) -> JobRows:
        """What is due."""
        ...

    async def owner_chats(self, agent_id: str) -> tuple[Inbound, ...]:
        """Where the owner wrote to an agent in private, as messages without words, the newest first."""
        ...

    async def put_statuses(self, statuses: Sequence[StoredStatus]) -> None:
        """Keeps how all bridges are, in place of what stood there."""
        ...

    async def statuses(self) -> tuple[StoredStatus, ...]:
        """What was last kept of the bridges, by channel and account."""
        ...

    async def choices(self) -> Mapping[tuple[str, str], str]:
        """What was chosen, by session key and name."""
        ...

    async def put_choice(self, session_key: str, name: str, value: str) -> None:
        """Keeps a choice; an empty one is forgotten."""
        ...

    async def not_done(self) -> dict[str, int]:
        """How many messages wait or are answered, and how many parts are not sent, by state."""
        ...

    async def close(self) -> None:
        """Finishes what was asked for and lets go of what keeps it. Safe to repeat."""
        ...


class Ledger(LedgerTables, Protocol):
    """The whole, for the one program that serves. What was being sent when another ended is `unsure`."""

    @property
    def outbox(self) -> Outbox:
        """What has to go out."""
        ...

    @property
    def notice(self) -> str:
        """A sentence for the owner about what was found at opening, or nothing."""
        ...

    async def receive(
        self,
        inbound: Inbound,
        session_key: str,
        *,
        agent_id: str = "",
        cursor: str = "",
        along: Along | None = None,
    ) -> Received | None:
        """Keeps a message, its bridge's cursor, and `along`; `None` if the message came before.

        Where the owner said it in private, they are found there from now on. Raises `JobChanged`, and then
        nothing of it is kept.
        """
        ...

    async def tell(self, asker: Inbound, texts: Sequence[str], *, along: Along | None = None) -> None:
        """Puts texts into the outbox that no message asked for, with `along`; both or none.

        They go to where `asker` wrote, while that person may still read there what they might then. Raises
        `JobChanged`.
        """
        ...

    async def pass_over(self, inbound: Inbound, cursor: str) -> None:
        """Keeps the cursor of a message that nobody answers, and nothing else of it."""
        ...

    async def cursor(self, channel: str, account: str) -> str:
        """What a bridge last handed in as its cursor; empty before that."""
        ...

    async def open_messages(self) -> tuple[Received, ...]:
        """Everything that is not answered, in the order in which it came; for the start of a program."""
        ...

    async def begin(self, batch: Sequence[Received]) -> None:
        """Notes that messages are handed to the agent, as one turn."""
        ...

    async def join(self, received: Received, turn: int) -> None:
        """Notes that a message is about to be said into a turn that runs."""
        ...

    async def part(self, apart: Sequence[Received]) -> None:
        """Notes that messages did not join a turn after all, and wait for one of their own."""
        ...

    async def drop(self, dropped: Sequence[Received]) -> None:
        """Notes that messages are not answered, because too many waited or the owner said so."""
        ...

    async def finish(self, batch: Sequence[Received], place: Place, texts: Sequence[str]) -> None:
        """Notes that a turn is over, and what is to be said of it; both or none. No texts are silence.

        What was shown of the answer while it was being written becomes its first part.
        """
        ...


async def owner_chats(tables: LedgerTables, agent_id: str, *, target: str = "last") -> tuple[Inbound, ...]:
    """Where the owner wrote to an agent, as messages without words, the newest first.

    `target` is the name of a channel, or `last` for all of them.
    """
    wanted = target.strip().lower()
    chats = await tables.owner_chats(agent_id)
    return tuple(chat for chat in chats if wanted in ("last", chat.channel.strip().lower()))


class LedgerPlace(Protocol):
    """Where a ledger is kept: what opens it, for one program, beside that program, or to be moved."""

    async def open(self, *, now: Clock, new_id: NewId) -> Ledger:
        """The whole ledger, for the program that serves.

        Raises:
            LedgerUnusable: it cannot be opened, another program is at it, or it was left behind elsewhere.
        """
        ...

    async def open_tables(self, *, now: Clock) -> LedgerTables:
        """What a terminal may look at and change beside that program. Raises as `open`."""
        ...

    async def is_there(self) -> bool:
        """Whether a program has ever made a ledger here. Raises `LedgerUnusable`."""
        ...

    async def is_served(self) -> bool:
        """Whether a program has the ledger open now. Raises `LedgerUnusable`."""
        ...

    def movable(self, *, now: Clock) -> AbstractAsyncContextManager[MovableLedger]:
        """A ledger to copy from or into; nobody serves it meanwhile.

        Raises:
            LedgerUnusable: it cannot be opened, or a program serves it.
        """
        ...


_WORDS = {
    "waiting": "{} to be answered",
    "running": "{} being answered",
    "pending": "{} to be sent",
    "sending": "{} being sent",
    "unsure": "{} sent perhaps",
    "failed": "{} not sent for good",
}
STATES = tuple(_WORDS)
"""What is waiting, or is being done, or was not done for certain."""


def told(counts: dict[str, int]) -> str:
    """Counts by state in words."""
    words = [text.format(counts[state]) for state, text in _WORDS.items() if counts.get(state)]
    return " · ".join(words) or "nothing left to do"
