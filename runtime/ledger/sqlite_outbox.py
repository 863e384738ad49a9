"""What has to go out, in the ledger's file. Each method is one transaction; what it returns from is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nacre.runtime.contracts.outbound import Place
from nacre.runtime.ledger.records import (
    MOST_KEPT_IDS,
    OutboundPart,
    chat_of,
    part_from_row,
    sendable,
)
from nacre.runtime.ledger.sqlite_database import Connection, Database


class SqliteOutbox:
    """The parts of a ledger. `ledger_id` stands in their keys, so that no two ledgers have one in common."""

    def __init__(self, database: Database, *, ledger_id: str) -> None:
        self._database = database
        self._id = ledger_id

    async def put(self, place: Place, texts: Sequence[str], *, answers: str = "") -> None:
        """Puts parts on disk that answer no turn."""
        await self._database.write(lambda db: [put_part(db, place, text, answers=answers) for text in texts])

    async def draft(self, turn: int, place: Place, text: str, *, answers: str) -> OutboundPart | None:
        """Notes that the beginning of a turn's answer is about to be shown."""

        def work(db: Connection) -> int | None:
            query = "SELECT seq, sent_id FROM outbound WHERE turn = ? AND state = 'draft'"
            there = db.execute(query, (turn,)).fetchone()
            if there is None:
                return put_part(db, place, text, answers=answers, turn=turn, state="draft")
            return int(there[0]) if there[1] else None

        number = await self._database.write(work)
        return None if number is None else await self._part(number)

    async def next_part(
        self, channel: str, account: str, chat_id: str, *, after: int = 0
    ) -> OutboundPart | None:
        """The oldest part of a chat that is to be sent, of those with a number above `after`."""
        query = (
            "SELECT seq FROM outbound WHERE channel = ? AND account = ? AND chat_id = ? "
            "AND state IN ('pending', 'unsure') AND seq > ? ORDER BY seq LIMIT 1"
        )
        chat = (channel, account, chat_id, after)
        number = await self._database.write(lambda db: db.execute(query, chat).get)
        return None if number is None else await self._part(number)

    async def chats_with_parts(self, channel: str, account: str) -> tuple[str, ...]:
        """The chats that wait for something."""
        query = (
            "SELECT DISTINCT chat_id FROM outbound "
            "WHERE channel = ? AND account = ? AND state IN ('pending', 'unsure')"
        )
        rows = await self._database.write(lambda db: db.execute(query, (channel, account)).fetchall())
        return tuple(str(chat_id) for (chat_id,) in rows)

    async def sending(self, part: OutboundPart) -> None:
        """Notes that a part is about to be sent: until `sent`, nobody knows whether it arrived."""
        update = "UPDATE outbound SET state = 'sending' WHERE seq = ?"
        await self._database.write(lambda db: db.execute(update, (part.number,)))

    async def sent(self, part: OutboundPart, sent_id: str, *, is_whole: bool = True) -> None:
        """Notes that a part arrived. One that is not `is_whole` is still to be changed."""

        def work(db: Connection) -> None:
            update = "UPDATE outbound SET sent_id = ?, state = iif(?, 'sent', 'pending') WHERE seq = ?"
            db.execute(update, (sent_id, is_whole, part.number))
            forget_old(db, chat_of(part.part.place))

        await self._database.write(work)

    async def drafted(self, part: OutboundPart, sent_id: str) -> None:
        """Notes that the beginning of an answer is shown."""
        update = "UPDATE outbound SET sent_id = ? WHERE seq = ?"
        await self._database.write(lambda db: db.execute(update, (sent_id, part.number)))

    async def undraft(self, part: OutboundPart) -> None:
        """Notes that the beginning of an answer surely is not shown."""
        await self._database.write(
            lambda db: db.execute("DELETE FROM outbound WHERE seq = ?", (part.number,))
        )

    async def not_sent(self, part: OutboundPart, state: str, problem: str) -> None:
        """Notes that sending failed: `pending`, `unsure` or, for good, `failed`."""
        update = "UPDATE outbound SET state = ?, problem = ?, attempts = attempts + 1 WHERE seq = ?"
        await self._database.write(lambda db: db.execute(update, (state, problem[:500], part.number)))

    async def counts(self) -> dict[str, int]:
        """How many parts are in which state, those that arrived left out."""
        query = "SELECT state, count(*) FROM outbound WHERE state NOT IN ('sent', 'draft') GROUP BY state"
        rows: list[Any] = await self._database.write(lambda db: db.execute(query).fetchall())
        return dict(rows)

    async def _part(self, number: int) -> OutboundPart:
        query = (
            "SELECT seq, channel, account, chat_id, thread_id, answers, text, state, is_draft, "
            "attempts, sent_id, asker FROM outbound WHERE seq = ?"
        )
        row: Any = await self._database.write(lambda db: db.execute(query, (number,)).fetchone())
        return part_from_row(row, self._id)


def put_part(
    db: Connection,
    place: Place,
    text: str,
    *,
    answers: str,
    turn: int = 0,
    state: str = "pending",
    asker: str = "",
) -> int:
    """Adds a part, within a transaction; its number."""
    row = (
        turn,
        *chat_of(place),
        place.thread_id,
        answers,
        sendable(text),
        state,
        int(state == "draft"),
        asker,
    )
    db.execute(
        "INSERT INTO outbound (turn, channel, account, chat_id, thread_id, answers, text, state, is_draft, "
        "asker) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        row,
    )
    return db.last_insert_rowid()


def forget_old(db: Connection, chat: tuple[str, str, str]) -> None:
    """Forgets what is over and older than the newest messages of a chat."""
    for table, over in (("inbound", "('done', 'dropped')"), ("outbound", "('sent', 'failed')")):
        of_chat = f"{table} WHERE channel = ? AND account = ? AND chat_id = ?"
        newest = f"SELECT seq FROM {of_chat} ORDER BY seq DESC LIMIT 1 OFFSET {MOST_KEPT_IDS}"
        db.execute(f"DELETE FROM {of_chat} AND state IN {over} AND seq <= ({newest})", (*chat, *chat))
