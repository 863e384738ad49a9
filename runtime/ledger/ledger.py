"""A ledger for the serving program: messages, and outgoing parts. `tables.py` has what a terminal may use.

Each method is atomic and durable when it returns.

    A message: waiting ─► running ─► done
                   └─► dropped, when too many wait or the owner stops them

    A part: (draft ─►) pending ─► sending ─► sent or failed; unsure if nobody knows whether it arrived

Every method raises `LedgerUnusable` if the storage refuses, or if the ledger is closed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from typing import Protocol, TypeAlias, runtime_checkable
from zlib import crc32

from nacre.record import Record
from nacre.runtime.contracts.clock import Clock, NewId, epoch_ms
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.contracts.outbound import Part, Place, place_of
from nacre.runtime.ledger.moving import MovableLedger
from nacre.runtime.ledger.records import (
    MOST_KEPT_IDS,
    Along,
    OutboundPart,
    Received,
    asker_to_json,
    chat_of,
    inbound_from_json,
    inbound_to_json,
    is_owner_chat,
    part_from_row,
)
from nacre.runtime.ledger.tables import LedgerRows, LedgerStatements, LedgerTables, Run, write_along
from nacre.sessions.contracts.messages import sendable

FORGETS_EVERY = 32
"""After one turn in 32, the oldest messages of its chat are forgotten."""


class Outbox:
    """The parts of a ledger. Their keys include its `ledger_id`, so that those of other ledgers differ."""

    def __init__(self, rows: LedgerRows, sql: LedgerStatements, *, ledger_id: str) -> None:
        self._rows = rows
        self._sql = sql
        self._id = ledger_id

    async def put(self, place: Place, texts: Sequence[str], *, answers: str = "") -> None:
        """Adds parts that answer no turn."""
        await self._rows.write(
            lambda run: [put_part(run, self._sql, place, text, answers=answers) for text in texts]
        )

    async def draft(self, turn: int, place: Place, text: str, *, answers: str) -> OutboundPart | None:
        """Records that the beginning of a turn's answer is about to be shown.

        Returns `None` if an earlier program may have shown one. Then nothing more is shown before the whole
        answer, which says that it may be a repetition if that cannot be determined.
        """
        values = {**vars(place), "answers": answers, "text": sendable(text), "turn": turn}
        for (number,) in await self._rows.run(self._sql.PUT_DRAFT, **values):
            return self.new_part(number, place, text, answers)
        [(number, sent_id)] = await self._rows.read(self._sql.DRAFT, turn=turn)
        return self.new_part(number, place, text, answers, shown=sent_id) if sent_id else None

    async def next_part(
        self, channel: str, account: str, chat_id: str, *, after: int = 0
    ) -> OutboundPart | None:
        """The oldest part of a chat to send, with a number above `after`; `None` if there is none."""
        chat = {"channel": channel, "account": account, "chat_id": chat_id, "after": after}
        found = await self._rows.read(self._sql.NEXT_PART, **chat)
        return part_from_row(found[0], self._id) if found else None

    async def chats_with_parts(self, channel: str, account: str) -> tuple[str, ...]:
        rows = await self._rows.read(self._sql.CHATS, channel=channel, account=account)
        return tuple(str(chat_id) for (chat_id,) in rows)

    async def sending(self, part: OutboundPart, *, durable: bool = True) -> None:
        """Records that a part is about to be sent: until `sent`, nobody knows whether it arrived.

        It need not be `durable` where a second delivery shows nothing new.
        """
        await self._rows.run(self._sql.SET_STATE, durable, number=part.number, state="sending")

    async def sent(self, part: OutboundPart, sent_id: str, *, is_whole: bool = True) -> bool:
        """Records that a part arrived. If it is not `is_whole`, it still has to be edited.

        A power cut may undo this; then nobody knows whether the part arrived. Returns `True` if the chat has
        no more parts to send; `False` if it may have some.
        """
        values = {"number": part.number, "sent_id": sent_id, "state": "sent" if is_whole else "pending"}
        rows = await self._rows.run(self._sql.SENT, not is_whole, **values)
        return bool(rows and rows[0][0])

    async def drafted(self, part: OutboundPart, sent_id: str) -> None:
        await self._rows.run(self._sql.DRAFTED, number=part.number, sent_id=sent_id)

    async def undraft(self, part: OutboundPart) -> None:
        """Records that the beginning of an answer is certainly not shown."""
        await self._rows.run(self._sql.UNDRAFT, number=part.number)

    async def drop(self, place: Place) -> None:
        """Deletes the parts of answers in a place of which nothing was sent yet."""
        await self._rows.run(self._sql.DROP_PARTS, **vars(place))

    async def not_sent(self, part: OutboundPart, state: str, problem: str) -> None:
        """Records that sending failed: `pending`, `unsure` or, permanently, `failed`."""
        problem = sendable(problem[:500])
        await self._rows.run(self._sql.NOT_SENT, number=part.number, state=state, problem=problem)

    def new_part(
        self,
        number: int,
        place: Place,
        text: str,
        answers: str,
        asker: Inbound | None = None,
        shown: str = "",
    ) -> OutboundPart:
        """The part with this number, of which at most a draft is `shown`, as the message with that id."""
        part = Part(place=place, text=sendable(text), key=f"{self._id}-{number}", answers=answers)
        was_draft = bool(shown) or asker is None
        return OutboundPart(number=number, part=part, sent_id=shown, was_draft=was_draft, asker=asker)


AccountId: TypeAlias = tuple[str, str]
"""Channel and account."""


class Shares(Record):
    """The accounts that a program has `held` since the last check, and those of others, with their names.

    `surplus` are held ones that another program should have, `unsent` held ones with parts to send. The next
    check is due in `look_seconds`; `None` means that nothing ever changes.
    """

    held: tuple[AccountId, ...]
    elsewhere: Mapping[AccountId, str] = field(default_factory=dict)
    surplus: tuple[AccountId, ...] = ()
    unsent: tuple[AccountId, ...] = ()
    look_seconds: float | None = None


class Ledger(LedgerTables):
    """A whole ledger, for the serving program. `notice` is a sentence about the opening, or empty."""

    def __init__(
        self, rows: LedgerRows, sql: LedgerStatements, *, now: Clock, ledger_id: str, notice: str = ""
    ) -> None:
        super().__init__(rows, sql)
        self._now = now
        self.outbox = Outbox(rows, sql, ledger_id=ledger_id)
        self.notice = notice

    async def share(self, wanted: Sequence[AccountId]) -> Shares:
        """Takes the accounts of `wanted` that this program may serve; here all, because it is alone."""
        return Shares(held=tuple(wanted))

    async def give_up(self, account: AccountId) -> None:
        """Leaves an account to others, after its bridge was stopped."""

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

        `begins` also records, as `begin` does, that it is handed to the agent alone. If the owner wrote it in
        private, the owner can be reached there from now on. If it raises `JobChanged`, nothing is stored.
        """
        sql, at_ms = self.sql, epoch_ms(self._now())
        body = inbound_to_json(inbound)
        account = {"channel": inbound.channel, "account": inbound.account}

        def work(run: Run) -> int:
            if cursor:
                run(sql.PUT_CURSOR, **account, value=cursor)
            added = run(
                sql.RECEIVE,
                **account,
                chat_id=inbound.chat_id,
                message_id=inbound.message_id,
                session_key=session_key,
                answered_by=agent_id,
                at_ms=at_ms,
                body=body,
            )
            if added and is_owner_chat(inbound):
                asker = asker_to_json(inbound)
                run(sql.PUT_OWNER_CHAT, **account, answered_by=agent_id, at_ms=at_ms, inbound=asker)
            if along is not None:
                write_along(run, sql, along)
            number = int(added[0][0]) if added else 0
            if begins and number:
                run(sql.BEGIN, numbers=[number], turn=number)
            return number

        number = await self.rows.write(work)
        received = Received(
            number=number, session_key=session_key, inbound=inbound, agent_id=agent_id, begins=begins
        )
        return received.named if number else None

    async def tell(self, asker: Inbound, texts: Sequence[str], *, along: Along | None = None) -> None:
        """Puts texts that answer no message into the outbox, together with `along`.

        They go to the chat of `asker`, as long as that person has the same rights there. Raises
        `JobChanged`.
        """

        def work(run: Run) -> None:
            for text in texts:
                put_part(run, self.sql, place_of(asker), text, answers="", asker=asker_to_json(asker))
            if along is not None:
                write_along(run, self.sql, along)

        await self.rows.write(work)

    async def pass_over(self, inbound: Inbound, cursor: str) -> None:
        """Stores the cursor of a message that nobody answers, and nothing else of it."""
        if cursor:
            account = {"channel": inbound.channel, "account": inbound.account}
            await self.rows.run(self.sql.PUT_CURSOR, **account, value=cursor)

    async def cursor(self, channel: str, account: str) -> str:
        """The last cursor of a bridge; empty if there is none."""
        found = await self.rows.read(self.sql.CURSOR, channel=channel, account=account)
        return str(found[0][0]) if found else ""

    async def open_messages(self) -> tuple[Received, ...]:
        """All unanswered messages in order, for the start of a program."""
        return tuple(
            Received(
                number=number,
                session_key=key,
                inbound=inbound_from_json(body),
                turn=turn,
                was_begun=bool(was_begun),
                attempts=attempts,
                agent_id=agent_id,
                has_joined=bool(has_joined),
            ).named
            for number, key, body, turn, was_begun, attempts, agent_id, has_joined in await self.rows.read(
                self.sql.OPEN_MESSAGES
            )
        )

    async def begin(self, batch: Sequence[Received]) -> None:
        """Records that messages are handed to the agent, as one turn."""
        await self.rows.run(self.sql.BEGIN, numbers=_numbers(batch), turn=batch[0].number)

    async def join(self, received: Received, turn: int) -> None:
        """Records that a message is about to join a running turn."""
        await self.rows.run(self.sql.JOIN, number=received.number, turn=turn)

    async def part(self, apart: Sequence[Received]) -> None:
        """Records that messages did not join a turn after all, and wait for their own."""
        await self.rows.run(self.sql.PART, numbers=_numbers(apart))

    async def drop(self, dropped: Sequence[Received]) -> None:
        """Records that messages are not answered, because too many waited or the owner said so."""
        await self.rows.run(self.sql.DROP, numbers=_numbers(dropped))

    async def finish(
        self, batch: Sequence[Received], place: Place, texts: Sequence[str], *, sends: bool = False
    ) -> OutboundPart | None:
        """Records that a turn is over, and its reply; no texts mean silence.

        If a draft of the answer was shown, it becomes the first part. With `sends`, returns the first part
        if it may be sent now: the edit of a draft, or a part that is recorded as being sent, as
        `Outbox.sending` does.
        """
        sql, last, turn = self.sql, batch[-1].inbound, batch[0].number
        asker = asker_to_json(last)

        def work(run: Run) -> tuple[int, str]:
            number, sent_id = 0, ""
            draft, rest = run(sql.DRAFT, turn=turn), list(texts)
            if draft and rest:
                first = sendable(rest.pop(0))
                run(sql.DRAFT_BECOMES, number=draft[0][0], text=first, asker=asker)
                if sends and draft[0][1]:
                    [(number, sent_id)] = draft
            elif draft:
                run(sql.SET_STATE, number=draft[0][0], state="sent")
            elif rest and sends:
                text = rest.pop(0)
                number = put_part(
                    run, sql, place, text, answers=last.message_id, turn=turn, asker=asker, state="sending"
                )
            for text in rest:
                put_part(run, sql, place, text, answers=last.message_id, turn=turn, asker=asker)
            run(sql.DONE, numbers=_numbers(batch))
            # A checksum, because the turns of a chat may all have, say, odd numbers.
            if crc32(b"%d" % turn) % FORGETS_EVERY == 0:
                chat = dict(zip(("channel", "account", "chat_id"), chat_of(last), strict=True))
                run(sql.FORGET_INBOUND, **chat, most=MOST_KEPT_IDS)
                run(sql.FORGET_OUTBOUND, **chat, most=MOST_KEPT_IDS)
            return number, sent_id

        number, sent_id = await self.rows.write(work)
        return (
            self.outbox.new_part(number, place, texts[0], last.message_id, last, sent_id) if number else None
        )


def put_part(
    run: Run,
    sql: LedgerStatements,
    place: Place,
    text: str,
    *,
    answers: str,
    turn: int = 0,
    state: str = "pending",
    asker: str = "",
) -> int:
    """Adds a part within a transaction, and returns its number."""
    [(number,)] = run(
        sql.PUT_PART,
        turn=turn,
        channel=place.channel,
        account=place.account,
        chat_id=place.chat_id,
        thread_id=place.thread_id,
        answers=answers,
        text=sendable(text),
        state=state,
        asker=asker,
    )
    return int(number)


def _numbers(several: Sequence[Received]) -> list[int]:
    return [received.number for received in several]


class LedgerPlace(Protocol):
    """Opens a ledger: for the serving program, for a terminal, or to be moved."""

    async def open(self, *, now: Clock, new_id: NewId) -> Ledger:
        """Opens the whole ledger, for the serving program.

        Raises:
            LedgerUnusable: it cannot be opened, another program uses it, or it was left behind elsewhere.
        """

    async def open_tables(self) -> LedgerTables:
        """Opens the tables for a terminal. Raises like `open`."""

    async def is_there(self) -> bool:
        """Whether a ledger was ever created here. Raises `LedgerUnusable`."""

    async def is_served(self) -> bool:
        """Whether a program has the ledger open now. Raises `LedgerUnusable`."""

    def movable(self) -> AbstractAsyncContextManager[MovableLedger]:
        """Locks a ledger to copy from or into.

        Raises:
            LedgerUnusable: it cannot be opened, or a program serves it.
        """


@runtime_checkable
class SharedLedgerPlace(LedgerPlace, Protocol):
    """A place whose ledger several programs may serve, each of them some of the accounts."""

    async def open_shared(self, *, now: Clock, new_id: NewId) -> Ledger:
        """Joins the programs that serve it. Raises like `open`, but not because of them."""


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


def counts_text(counts: dict[str, int]) -> str:
    words = [text.format(counts[state]) for state, text in _WORDS.items() if counts.get(state)]
    return " · ".join(words) or "nothing left to do"
