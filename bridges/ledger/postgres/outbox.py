"""What has to go out. Each method is one transaction; what it returns from is kept."""

from __future__ import annotations

from collections.abc import Sequence

from nacre.bridges.contracts.bridge import Place
from nacre.bridges.ledger.contracts.records import (
    MOST_KEPT_IDS,
    OutboundPart,
    chat_of,
    part_from_row,
    sendable,
)
from nacre.bridges.ledger.postgres import statements
from nacre.bridges.ledger.postgres.rows import LedgerRows, Run


class PostgresOutbox:
    """The parts of a ledger. `ledger_id` stands in their keys."""

    def __init__(self, rows: LedgerRows, *, ledger_id: str) -> None:
        self._rows = rows
        self._id = ledger_id

    async def put(self, place: Place, texts: Sequence[str], *, answers: str = "") -> None:
        """Keeps parts that answer no turn."""
        await self._rows.write(lambda run: [put_part(run, place, text, answers=answers) for text in texts])

    async def draft(self, turn: int, place: Place, text: str, *, answers: str) -> OutboundPart | None:
        """Notes that the beginning of a turn's answer is about to be shown."""

        def work(run: Run) -> int | None:
            there = run(statements.DRAFT, turn=turn)
            if not there:
                return put_part(run, place, text, answers=answers, turn=turn, state="draft")
            return int(there[0][0]) if there[0][1] else None

        number = await self._rows.write(work)
        return None if number is None else await self._part(number)

    async def next_part(
        self, channel: str, account: str, chat_id: str, *, after: int = 0
    ) -> OutboundPart | None:
        """The oldest part of a chat that is to be sent, of those with a number above `after`."""
        chat = {"channel": channel, "account": account, "chat_id": chat_id, "after": after}
        found = await self._rows.read(statements.NEXT_PART, **chat)
        return await self._part(found[0][0]) if found else None

    async def chats_with_parts(self, channel: str, account: str) -> tuple[str, ...]:
        """The chats that wait for something."""
        rows = await self._rows.read(statements.CHATS, channel=channel, account=account)
        return tuple(str(chat_id) for (chat_id,) in rows)

    async def sending(self, part: OutboundPart) -> None:
        """Notes that a part is about to be sent."""
        await self._rows.run(statements.SET_STATE, number=part.number, state="sending")

    async def sent(self, part: OutboundPart, sent_id: str, *, is_whole: bool = True) -> None:
        """Notes that a part arrived."""
        state = "sent" if is_whole else "pending"

        def work(run: Run) -> None:
            run(statements.SENT, number=part.number, sent_id=sent_id, state=state)
            forget_old(run, chat_of(part.part.place))

        await self._rows.write(work)

    async def drafted(self, part: OutboundPart, sent_id: str) -> None:
        """Notes that the beginning of an answer is shown."""
        await self._rows.run(statements.DRAFTED, number=part.number, sent_id=sent_id)

    async def undraft(self, part: OutboundPart) -> None:
        """Notes that the beginning of an answer surely is not shown."""
        await self._rows.run(statements.UNDRAFT, number=part.number)

    async def not_sent(self, part: OutboundPart, state: str, problem: str) -> None:
        """Notes that sending failed."""
        problem = kept_text(problem[:500])
        await self._rows.run(statements.NOT_SENT, number=part.number, state=state, problem=problem)

    async def counts(self) -> dict[str, int]:
        """How many parts are in which state."""
        return dict(await self._rows.read(statements.OUTBOX_COUNTS))

    async def _part(self, number: int) -> OutboundPart:
        [row] = await self._rows.read(statements.PART_ROW, number=number)
        return part_from_row(row, self._id)


def put_part(
    run: Run,
    place: Place,
    text: str,
    *,
    answers: str,
    turn: int = 0,
    state: str = "pending",
    asker: str = "",
) -> int:
    """Adds a part, within a transaction; its number."""
    [(number,)] = run(
        statements.PUT_PART,
        turn=turn,
        channel=place.channel,
        account=place.account,
        chat_id=place.chat_id,
        thread_id=place.thread_id,
        answers=answers,
        text=kept_text(text),
        state=state,
        asker=asker,
    )
    return int(number)


def kept_text(text: str) -> str:
    """The text as the database takes it: it has no character zero."""
    return sendable(text).replace("\0", "\N{REPLACEMENT CHARACTER}")


def forget_old(run: Run, chat: tuple[str, str, str]) -> None:
    """Forgets what is over and older than the newest messages of a chat."""
    named = dict(zip(("channel", "account", "chat_id"), chat, strict=True))
    run(statements.FORGET_INBOUND, **named, most=MOST_KEPT_IDS)
    run(statements.FORGET_OUTBOUND, **named, most=MOST_KEPT_IDS)
