"""What a ledger is, independent of where it is stored. Each method is atomic and durable when it returns.

    A message: waiting ─► running ─► done
                   └─► dropped, when too many wait or the owner stops them

    A part: (draft ─►) pending ─► sending ─► sent or failed; unsure if nobody knows whether it arrived

Every method raises `LedgerUnusable` if the storage refuses, or if the ledger is closed.
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
    """The parts to be sent, in order."""

    async def put(self, place: Place, texts: Sequence[str], *, answers: str = "") -> None:
        """Adds parts that answer no turn."""

    async def draft(self, turn: int, place: Place, text: str, *, answers: str) -> OutboundPart | None:
        """Records that the beginning of a turn's answer is about to be shown.

        Returns `None` if an earlier program may have shown one. Then nothing more is shown before the whole
        answer, which says that it may be a repetition if that cannot be determined.
        """

    async def next_part(
        self, channel: str, account: str, chat_id: str, *, after: int = 0
    ) -> OutboundPart | None:
        """The oldest part of a chat that is to be sent, with a number above `after`; `None` if there is
        none.
        """

    async def chats_with_parts(self, channel: str, account: str) -> tuple[str, ...]:
        """The chats with unsent parts."""

    async def sending(self, part: OutboundPart, *, durable: bool = True) -> None:
        """Records that a part is about to be sent: until `sent`, nobody knows whether it arrived.

        It need not be `durable` where a second delivery shows nothing new.
        """

    async def sent(self, part: OutboundPart, sent_id: str, *, is_whole: bool = True) -> None:
        """Records that a part arrived. If it is not `is_whole`, it still has to be edited.

        A power cut may take this; then nobody knows whether the part arrived.
        """

    async def drafted(self, part: OutboundPart, sent_id: str) -> None:
        """Records that the beginning of an answer is shown."""

    async def undraft(self, part: OutboundPart) -> None:
        """Records that the beginning of an answer is certainly not shown."""

    async def not_sent(self, part: OutboundPart, state: str, problem: str) -> None:
        """Records that sending failed: `pending`, `unsure` or, permanently, `failed`."""

    async def counts(self) -> dict[str, int]:
        """The number of parts in each state, without those that arrived."""


class PeopleRows(Protocol):
    """The people who were let in, and those who ask to be. Times are epoch milliseconds."""

    async def role(self, who: Who) -> str:
        """A sender's role; empty if unknown."""

    async def ask(
        self, who: Who, code: str, *, now_ms: int, since_ms: int, most: int, gives_way_ms: int = 0
    ) -> bool:
        """Stores a code, unless its sender, or `most` people of the account, asked after `since_ms`; `True`
        if stored.

        Older requests are deleted. If too many ask, the oldest one who asked until `gives_way_ms` and was
        not denied is dropped.
        """

    async def asking(self, since_ms: int) -> tuple[StoredPerson, ...]:
        """The people who asked after `since_ms` and were not denied, oldest first."""

    async def known(self) -> tuple[StoredPerson, ...]:
        """The people who were let in, oldest first."""

    async def approve(self, code: str, role: str, *, now_ms: int, since_ms: int) -> Who | None:
        """Lets in the person who asked with this code after `since_ms`; the code is used up."""

    async def deny(self, code: str, *, since_ms: int) -> Who | None:
        """Invalidates the code of the person who asked with it after `since_ms`, who cannot ask again."""

    async def revoke(self, channel: str, sender_id: str) -> bool:
        """Removes a person from every account of a channel; `False` if they were not let in."""


class JobRows(Protocol):
    """Scheduled jobs. Times are epoch milliseconds."""

    async def add(self, job: StoredJob, *, made_ms: int, most: int) -> bool:
        """Stores a job unless its agent has `most`; `True` if stored."""

    async def of_agent(self, agent_id: str) -> tuple[StoredJob, ...]:
        """The jobs of an agent, by due time, those that are not due last."""

    async def due(self, at_ms: int) -> tuple[StoredJob, ...]:
        """The jobs of all agents that are due at a time, in order."""

    async def recurring(self, after_ms: int) -> tuple[StoredJob, ...]:
        """The recurring jobs of all agents that are due after a time."""

    async def next_due_ms(self) -> int | None:
        """When the next job is due, or `None`."""

    async def remove(self, job_id: str) -> bool:
        """Removes a job; `False` if there was none."""

    async def move(self, moved: JobMoved) -> None:
        """Sets when a job is due next. Raises `JobChanged`."""

    async def last_beat_ms(self, agent_id: str, now_ms: int) -> int:
        """When an agent last had a heartbeat; the first call records the current time."""


class LedgerTables(Protocol):
    """The tables that a terminal may read and change while a program serves."""

    @property
    def people(self) -> PeopleRows: ...

    @property
    def jobs(self) -> JobRows: ...

    async def owner_chats(self, agent_id: str) -> tuple[Inbound, ...]:
        """Where the owner wrote to an agent in private, as messages without text, newest first."""

    async def put_statuses(self, statuses: Sequence[StoredStatus]) -> None:
        """Replaces the statuses of all bridges."""

    async def statuses(self) -> tuple[StoredStatus, ...]:
        """The stored statuses of the bridges, by channel and account."""

    async def choices(self) -> Mapping[tuple[str, str], str]:
        """The stored choices, by session key and name."""

    async def put_choice(self, session_key: str, name: str, value: str) -> None:
        """Stores a choice; an empty value deletes it."""

    async def not_done(self) -> dict[str, int]:
        """The number of messages that wait or are being answered, and of unsent parts, by state."""

    async def close(self) -> None:
        """Finishes pending work and releases the storage. Safe to repeat."""


class Ledger(LedgerTables, Protocol):
    """The whole ledger, for the one serving program. Parts that another program was sending are
    `unsure`.
    """

    @property
    def outbox(self) -> Outbox: ...

    @property
    def notice(self) -> str:
        """A sentence for the owner about the opening, or an empty string."""

    async def receive(
        self,
        inbound: Inbound,
        session_key: str,
        *,
        agent_id: str = "",
        cursor: str = "",
        along: Along | None = None,
        begins: bool = False,
    ) -> Received | None:
        """Stores a message, its bridge's cursor, and `along`; `None` if the message was received before.

        `begins` records in the same step that it is handed to the agent alone, as `begin` does.

        If the owner wrote it in private, the owner can be reached there from now on. Raises `JobChanged`,
        and then stores nothing.
        """

    async def tell(self, asker: Inbound, texts: Sequence[str], *, along: Along | None = None) -> None:
        """Puts texts into the outbox that no message asked for, together with `along`.

        They go to the chat of `asker`, as long as that person has the same rights there. Raises
        `JobChanged`.
        """

    async def pass_over(self, inbound: Inbound, cursor: str) -> None:
        """Stores the cursor of a message that nobody answers, and nothing else of it."""

    async def cursor(self, channel: str, account: str) -> str:
        """The last cursor of a bridge; empty if there is none."""

    async def open_messages(self) -> tuple[Received, ...]:
        """All unanswered messages in order, for the start of a program."""

    async def begin(self, batch: Sequence[Received]) -> None:
        """Records that messages are handed to the agent, as one turn."""

    async def join(self, received: Received, turn: int) -> None:
        """Records that a message is about to join a running turn."""

    async def part(self, apart: Sequence[Received]) -> None:
        """Records that messages did not join a turn after all, and wait for one of their own."""

    async def drop(self, dropped: Sequence[Received]) -> None:
        """Records that messages are not answered, because too many waited or the owner said so."""

    async def finish(self, batch: Sequence[Received], place: Place, texts: Sequence[str]) -> None:
        """Records that a turn is over, and its reply; no texts are silence.

        If a draft of the answer was shown, it becomes the first part.
        """


async def owner_chats(tables: LedgerTables, agent_id: str, *, target: str = "last") -> tuple[Inbound, ...]:
    """Where the owner wrote to an agent, as messages without text, newest first.

    `target` is the name of a channel, or `last` for all of them.
    """
    wanted = target.strip().lower()
    chats = await tables.owner_chats(agent_id)
    return tuple(chat for chat in chats if wanted in ("last", chat.channel.strip().lower()))


class LedgerPlace(Protocol):
    """Opens a ledger: for the serving program, for a terminal, or to be moved."""

    async def open(self, *, now: Clock, new_id: NewId) -> Ledger:
        """Opens the whole ledger, for the serving program.

        Raises:
            LedgerUnusable: it cannot be opened, another program uses it, or it was left behind elsewhere.
        """

    async def open_tables(self, *, now: Clock) -> LedgerTables:
        """Opens the tables for a terminal. Raises like `open`."""

    async def is_there(self) -> bool:
        """Whether a ledger was ever created here. Raises `LedgerUnusable`."""

    async def is_served(self) -> bool:
        """Whether a program has the ledger open now. Raises `LedgerUnusable`."""

    def movable(self, *, now: Clock) -> AbstractAsyncContextManager[MovableLedger]:
        """Locks a ledger to copy from or into.

        Raises:
            LedgerUnusable: it cannot be opened, or a program serves it.
        """


_WORDS = {
    "waiting": "{} to be answered",
    "running": "{} being answered",
    "pending": "{} to be sent",
    "sending": "{} being sent",
    "unsure": "{} sent perhaps",
    "failed": "{} not sent for good",
}
STATES = tuple(_WORDS)
"""The states that are shown: waiting, in progress, or not certainly done."""


def told(counts: dict[str, int]) -> str:
    words = [text.format(counts[state]) for state, text in _WORDS.items() if counts.get(state)]
    return " · ".join(words) or "nothing left to do"
