"""The ledger of a state folder: one SQLite file, for one program at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from nacre.locks.kernel_lock import try_lock
from nacre.runtime.contracts.clock import Clock, epoch_ms
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.contracts.outbound import Place, place_of
from nacre.runtime.ledger.records import (
    Along,
    LedgerUnusable,
    Received,
    asker_to_json,
    chat_of,
    inbound_from_json,
    inbound_to_json,
    is_owner_chat,
)
from nacre.runtime.ledger.sqlite_database import (
    PRIVATE_FOLDER,
    Connection,
    Database,
    open_database,
    unusable,
)
from nacre.runtime.ledger.sqlite_jobs import write_along
from nacre.runtime.ledger.sqlite_outbox import SqliteOutbox, forget_old, put_part
from nacre.runtime.ledger.sqlite_schema import MIGRATIONS
from nacre.runtime.ledger.sqlite_tables import SqliteTables


class SqliteLedger(SqliteTables):
    """The ledger of a state folder. Open it with `open`."""

    def __init__(
        self,
        database: Database,
        *,
        now: Clock,
        ledger_id: str,
        notice: str,
        release: Callable[[], None],
    ) -> None:
        super().__init__(database)
        self._now = now
        self._release: Callable[[], None] | None = release
        self.outbox = SqliteOutbox(database, ledger_id=ledger_id)
        self.notice = notice
        """A sentence for the owner about what was found at opening, or nothing."""

    @classmethod
    async def open(cls, path: Path, *, now: Clock, new_id: Callable[[], str]) -> Self:
        """Opens the file, made if need be. What was being sent when a program ended is `unsure` now.

        One process at a time: two would send everything twice.

        Raises:
            LedgerUnusable: the file cannot be opened or written, or another process has it.
        """
        release = locked(path)
        try:
            database, notice = open_database(path, MIGRATIONS, now=now())
        except BaseException:
            release()
            raise

        def begin(db: Connection) -> str:
            db.execute("UPDATE outbound SET state = 'unsure' WHERE state = 'sending'")
            db.execute("INSERT OR IGNORE INTO meta VALUES ('id', ?)", (new_id(),))
            return str(db.execute("SELECT value FROM meta WHERE name = 'id'").get)

        try:
            ledger_id = await database.write(begin)
        except BaseException:
            await database.close()
            release()
            raise
        return cls(database, now=now, ledger_id=ledger_id, notice=notice, release=release)

    async def close(self) -> None:
        """Finishes what was asked for and closes the file. Safe to repeat."""
        await super().close()
        if self._release is not None:
            self._release()
            self._release = None

    async def receive(
        self,
        inbound: Inbound,
        session_key: str,
        *,
        agent_id: str = "",
        cursor: str = "",
        along: Along | None = None,
    ) -> Received | None:
        """Puts a message on disk, its bridge's cursor, and `along`; `None` if it came before."""
        at_ms, body = epoch_ms(self._now()), inbound_to_json(inbound)
        chat = (inbound.channel, inbound.account, inbound.chat_id)

        def work(db: Connection) -> int:
            if cursor:
                db.execute("INSERT OR REPLACE INTO cursors VALUES (?, ?, ?)", (*chat[:2], cursor))
            # NULL is like no other id: what has none is never a duplicate.
            row = (*chat, inbound.message_id or None, session_key, agent_id, at_ms, body)
            db.execute(
                "INSERT OR IGNORE INTO inbound (channel, account, chat_id, message_id, session_key, agent, "
                "state, received_ms, body) VALUES (?, ?, ?, ?, ?, ?, 'waiting', ?, ?)",
                row,
            )
            number = db.last_insert_rowid() if db.changes() else 0
            if number and is_owner_chat(inbound):
                found = (agent_id, inbound.channel, inbound.account, at_ms, asker_to_json(inbound))
                db.execute("INSERT OR REPLACE INTO owner_chats VALUES (?, ?, ?, ?, ?)", found)
            if along is not None:
                write_along(db, along)
            return number

        number = await self.database.write(work)
        received = Received(number=number, session_key=session_key, inbound=inbound, agent_id=agent_id)
        return received.named if number else None

    async def tell(self, asker: Inbound, texts: Sequence[str], *, along: Along | None = None) -> None:
        """Puts texts into the outbox that no message asked for, with `along`; both or none."""

        def work(db: Connection) -> None:
            for text in texts:
                put_part(db, place_of(asker), text, answers="", asker=asker_to_json(asker))
            if along is not None:
                write_along(db, along)

        await self.database.write(work)

    async def pass_over(self, inbound: Inbound, cursor: str) -> None:
        """Keeps the cursor of a message that nobody answers, and nothing else of it."""
        row = (inbound.channel, inbound.account, cursor)
        if cursor:
            await self.database.write(
                lambda db: db.execute("INSERT OR REPLACE INTO cursors VALUES (?, ?, ?)", row)
            )

    async def cursor(self, channel: str, account: str) -> str:
        """What a bridge last handed in as its cursor; empty before that."""
        query = "SELECT value FROM cursors WHERE channel = ? AND account = ?"
        return str(await self.database.write(lambda db: db.execute(query, (channel, account)).get) or "")

    async def open_messages(self) -> tuple[Received, ...]:
        """Everything that is not answered, in the order in which it came; for the start of a program."""
        query = (
            "SELECT seq, session_key, body, turn, state = 'running', attempts, agent, joined FROM inbound "
            "WHERE state IN ('waiting', 'running') ORDER BY seq"
        )
        rows: list[Any] = await self.database.write(lambda db: db.execute(query).fetchall())
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
            for number, key, body, turn, was_begun, attempts, agent_id, has_joined in rows
        )

    async def begin(self, batch: Sequence[Received]) -> None:
        """Notes that messages are handed to the agent, as one turn."""
        turn = batch[0].number
        rows = [(turn, received.number) for received in batch]
        update = "UPDATE inbound SET state = 'running', attempts = attempts + 1, turn = ? WHERE seq = ?"
        await self.database.write(lambda db: db.executemany(update, rows))

    async def join(self, received: Received, turn: int) -> None:
        """Notes that a message is about to be said into a turn that runs."""
        update = "UPDATE inbound SET state = 'running', turn = ?, joined = 1 WHERE seq = ?"
        await self.database.write(lambda db: db.execute(update, (turn, received.number)))

    async def part(self, apart: Sequence[Received]) -> None:
        """Notes that messages did not join a turn after all, and wait for one of their own."""
        rows = [(received.number,) for received in apart]
        update = "UPDATE inbound SET state = 'waiting', turn = 0, joined = 0, attempts = 0 WHERE seq = ?"
        await self.database.write(lambda db: db.executemany(update, rows))

    async def drop(self, dropped: Sequence[Received]) -> None:
        """Notes that messages are not answered, because too many waited or the owner said so."""
        rows = [(received.number,) for received in dropped]
        update = "UPDATE inbound SET state = 'dropped' WHERE seq = ?"
        await self.database.write(lambda db: db.executemany(update, rows))

    async def finish(self, batch: Sequence[Received], place: Place, texts: Sequence[str]) -> None:
        """Notes that a turn is over, and what is to be said of it; both or none."""
        answers = batch[-1].inbound.message_id
        where, turn = chat_of(batch[-1].inbound), batch[0].number
        asker = asker_to_json(batch[-1].inbound)

        def work(db: Connection) -> None:
            draft = db.execute("SELECT seq FROM outbound WHERE turn = ? AND state = 'draft'", (turn,)).get
            rest = list(texts)
            if draft is not None and rest:
                become = "state = iif(sent_id = '', 'unsure', 'pending') WHERE seq = ?"
                shown = (rest.pop(0), asker, draft)
                db.execute(f"UPDATE outbound SET text = ?, asker = ?, {become}", shown)
            elif draft is not None:
                db.execute("UPDATE outbound SET state = 'sent' WHERE seq = ?", (draft,))
            for text in rest:
                put_part(db, place, text, answers=answers, turn=turn, asker=asker)
            rows = [(received.number,) for received in batch]
            db.executemany("UPDATE inbound SET state = 'done', body = NULL WHERE seq = ?", rows)
            forget_old(db, where)

        await self.database.write(work)


def is_locked(path: Path) -> bool:
    """Whether a program has a ledger open now. Raises `LedgerUnusable`."""
    try:
        release = try_lock(path.with_name(f"{path.name}.lock"))
    except OSError as error:
        raise unusable(path, error) from error
    if release is not None:
        release()
    return release is None


def locked(path: Path) -> Callable[[], None]:
    """Keeps other programs out of a ledger until what comes back is called, or this process dies."""
    try:
        path.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        release = try_lock(path.with_name(f"{path.name}.lock"))
    except OSError as error:
        raise unusable(path, error) from error
    if release is None:
        raise LedgerUnusable(
            f"Another program runs the bridges of {path}. Stop it first: both would answer every message."
        )
    return release
