"""The ledger of an agent in PostgreSQL, for one serving program at a time, wherever it runs."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from nacre.extensions.postgres import ledger_statements as statements
from nacre.extensions.postgres.ledger_rows import (
    LedgerRows,
    PostgresOutbox,
    PostgresTables,
    Run,
    forget_old,
    kept_text,
    put_part,
    write_along,
)
from nacre.extensions.postgres.server.connections import ConnectionLimits, DatabaseError, connected
from nacre.extensions.postgres.server.database import Database
from nacre.runtime.contracts.clock import Clock, epoch_ms
from nacre.runtime.contracts.ids import NewId
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.contracts.outbound import Place, place_of
from nacre.runtime.ledger.moving import COLUMNS, Contents, as_row
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

if TYPE_CHECKING:
    from nacre.extensions.postgres.server.connections import Connection


LOOK_SECONDS = 5.0
"""How often a program looks whether its lock is there still."""

log = logging.getLogger(__name__)


class Holding:
    """The lock of an agent's ledger, and who has it, for people: `host, process 123`."""

    def __init__(self, connection: Connection, url: str, agent: str) -> None:
        self.holder = f"{socket.gethostname()}, process {os.getpid()}"
        self._connection = connection
        self._url = url
        self._agent = agent
        self._changing = threading.Lock()
        self._is_released = False

    @classmethod
    async def taken(cls, rows: LedgerRows, url: str, agent: str) -> Self:
        """The lock.

        Raises:
            LedgerUnusable: the database cannot be used, or another program has it.
        """
        before = await rows.read(statements.HOLDER)  # this also makes the tables
        try:
            connection = await asyncio.to_thread(_locked, url, agent)
        except DatabaseError as error:
            raise LedgerUnusable(str(error)) from error
        if connection is None:
            who = f" ({before[0][0]})" if before and before[0][0] else ""
            raise LedgerUnusable(
                f"Another program{who} runs the bridges of {agent}. Stop it first: both would answer every "
                "message."
            )
        return cls(connection, url, agent)

    async def keep(self, look_seconds: float) -> None:
        """Takes the lock again whenever its connection was lost, until this is cancelled.

        A program that took it meanwhile keeps it; the fence then refuses what this one writes.
        """
        while True:
            await asyncio.sleep(look_seconds)
            try:
                if not await asyncio.to_thread(self._is_held):
                    log.warning("another program took the ledger of %s meanwhile", self._agent)
            except DatabaseError as error:
                log.warning("the lock of the ledger was lost, and is taken again: %s", error)

    def release(self) -> None:
        """Lets another program have it."""
        with self._changing, suppress(Exception):  # a connection that is gone has no lock either
            self._is_released = True
            # The server notices the end of a connection a moment later.
            self._connection.execute("SELECT pg_advisory_unlock_all()")
        self._connection.close()

    def _is_held(self) -> bool:
        with self._changing:
            if self._is_released or _lives(self._connection):
                return True
            again = _locked(self._url, self._agent)
            if again is not None:
                self._connection = again
            return again is not None


def _lives(connection: Connection) -> bool:
    try:
        connection.execute("SELECT 1")
    except Exception:  # noqa: BLE001 - whatever it is, the lock is asked for again
        return False
    return True


def _locked(url: str, agent: str) -> Connection | None:
    connection = connected(url, ConnectionLimits())
    try:
        row = connection.execute(statements.TRY_TO_HOLD.encode(), {"agent": agent}).fetchone()
    except BaseException:
        connection.close()
        raise
    if row is not None and row[0]:
        return connection
    connection.close()
    return None


class PostgresLedger(PostgresTables):
    """The ledger of an agent. Open it with `open`."""

    notice = ""

    def __init__(
        self, rows: LedgerRows, *, now: Clock, ledger_id: str, holding: Holding, look_seconds: float
    ) -> None:
        super().__init__(rows)
        self._now = now
        self._holding: Holding | None = holding
        self._keeping = asyncio.create_task(holding.keep(look_seconds), name="ledger-lock")
        self.outbox = PostgresOutbox(rows, ledger_id=ledger_id)

    @classmethod
    async def open(
        cls,
        database: Database,
        url: str,
        *,
        agent: str,
        now: Clock,
        new_id: NewId,
        look_seconds: float = LOOK_SECONDS,
    ) -> Self:
        """Holds the ledger. What a program before was sending is `unsure` now, and it writes nothing more.

        Each `look_seconds` it looks whether its lock was lost with a connection, and takes it again.

        Raises:
            LedgerUnusable: the database cannot be used, or another program has the ledger.
        """
        rows = LedgerRows(database, agent)
        holding = await Holding.taken(rows, url, agent)

        def begin(run: Run) -> tuple[str, int]:
            [(ledger_id, fence)] = run(statements.HOLD, ledger_id=new_id(), holder=holding.holder)
            run(statements.NOBODY_KNOWS)
            return ledger_id, fence

        try:
            ledger_id, fence = await rows.write(begin)
        except BaseException:
            await asyncio.to_thread(holding.release)
            raise
        fenced = LedgerRows(database, agent, fence=fence)
        return cls(fenced, now=now, ledger_id=ledger_id, holding=holding, look_seconds=look_seconds)

    async def close(self) -> None:
        """Takes nothing more, and lets another program have it. Safe to repeat."""
        await super().close()
        holding, self._holding = self._holding, None
        if holding is not None:
            self._keeping.cancel()
            await asyncio.to_thread(holding.release)

    async def receive(
        self,
        inbound: Inbound,
        session_key: str,
        *,
        agent_id: str = "",
        cursor: str = "",
        along: Along | None = None,
    ) -> Received | None:
        """Keeps a message, its bridge's cursor, and `along`; `None` if the message came before."""
        at_ms, body, asker = epoch_ms(self._now()), inbound_to_json(inbound), asker_to_json(inbound)
        account = {"channel": inbound.channel, "account": inbound.account}

        def work(run: Run) -> int:
            if cursor:
                run(statements.PUT_CURSOR, **account, value=cursor)
            added = run(
                statements.RECEIVE,
                **account,
                chat_id=inbound.chat_id,
                message_id=inbound.message_id,
                session_key=session_key,
                answered_by=agent_id,
                at_ms=at_ms,
                body=body,
            )
            if added and is_owner_chat(inbound):
                run(statements.PUT_OWNER_CHAT, **account, answered_by=agent_id, at_ms=at_ms, inbound=asker)
            if along is not None:
                write_along(run, along)
            return int(added[0][0]) if added else 0

        number = await self._rows.write(work)
        received = Received(number=number, session_key=session_key, inbound=inbound, agent_id=agent_id)
        return received.named if number else None

    async def tell(self, asker: Inbound, texts: Sequence[str], *, along: Along | None = None) -> None:
        """Puts texts into the outbox that no message asked for, with `along`; both or none."""

        def work(run: Run) -> None:
            for text in texts:
                put_part(run, place_of(asker), text, answers="", asker=asker_to_json(asker))
            if along is not None:
                write_along(run, along)

        await self._rows.write(work)

    async def pass_over(self, inbound: Inbound, cursor: str) -> None:
        """Keeps the cursor of a message that nobody answers."""
        if cursor:
            account = {"channel": inbound.channel, "account": inbound.account}
            await self._rows.run(statements.PUT_CURSOR, **account, value=cursor)

    async def cursor(self, channel: str, account: str) -> str:
        """What a bridge last handed in as its cursor; empty before that."""
        found = await self._rows.read(statements.CURSOR, channel=channel, account=account)
        return str(found[0][0]) if found else ""

    async def open_messages(self) -> tuple[Received, ...]:
        """Everything that is not answered, in the order in which it came."""
        return tuple(
            Received(
                number=number,
                session_key=key,
                inbound=inbound_from_json(body),
                turn=turn,
                was_begun=was_begun,
                attempts=attempts,
                agent_id=agent_id,
                has_joined=has_joined,
            ).named
            for number, key, body, turn, was_begun, attempts, agent_id, has_joined in await self._rows.read(
                statements.OPEN_MESSAGES
            )
        )

    async def begin(self, batch: Sequence[Received]) -> None:
        """Notes that messages are handed to the agent, as one turn."""
        await self._rows.run(statements.BEGIN, numbers=_numbers(batch), turn=batch[0].number)

    async def join(self, received: Received, turn: int) -> None:
        """Notes that a message is about to be said into a turn that runs."""
        await self._rows.run(statements.JOIN, number=received.number, turn=turn)

    async def part(self, apart: Sequence[Received]) -> None:
        """Notes that messages did not join a turn after all."""
        await self._rows.run(statements.PART, numbers=_numbers(apart))

    async def drop(self, dropped: Sequence[Received]) -> None:
        """Notes that messages are not answered."""
        await self._rows.run(statements.DROP, numbers=_numbers(dropped))

    async def finish(self, batch: Sequence[Received], place: Place, texts: Sequence[str]) -> None:
        """Notes that a turn is over, and what is to be said of it; both or none."""
        last, turn = batch[-1].inbound, batch[0].number
        asker = asker_to_json(last)

        def work(run: Run) -> None:
            draft, rest = run(statements.DRAFT, turn=turn), list(texts)
            if draft and rest:
                first = kept_text(rest.pop(0))
                run(statements.DRAFT_BECOMES, number=draft[0][0], text=first, asker=asker)
            elif draft:
                run(statements.SET_STATE, number=draft[0][0], state="sent")
            for text in rest:
                put_part(run, place, text, answers=last.message_id, turn=turn, asker=asker)
            run(statements.DONE, numbers=_numbers(batch))
            forget_old(run, chat_of(last))

        await self._rows.write(work)


def _numbers(several: Sequence[Received]) -> list[int]:
    return [received.number for received in several]


NUMBERED = ("inbound", "outbound")
"""The tables whose rows the database numbers."""
_FLAGS = ("joined", "was_draft")


class MovableRows:
    """Those of one agent."""

    def __init__(self, rows: LedgerRows) -> None:
        self._rows = rows

    async def contents(self) -> Contents:
        """All that it has."""

        def work(run: Run) -> Contents:
            found = run(statements.MARKS)
            ledger_id, copied = found[0] if found else ("", "")
            rows = {name: tuple(map(as_row, run(all_of(name)))) for name in COLUMNS}
            return Contents(ledger_id=ledger_id, rows=rows, copied=copied)

        return await self._rows.read_all(work)

    async def replace(self, contents: Contents, *, copied: str | None = None) -> None:
        """Keeps these contents in the place of what it had."""
        mark = contents.checksum if copied is None else copied

        def work(run: Run) -> None:
            run(statements.PUT_MARKS, ledger_id=contents.ledger_id, copied=mark)
            for name in COLUMNS:
                run(none_of(name))
                for row in contents.rows.get(name, ()):
                    run(one_of(name), **_values(name, row))
            for name in NUMBERED:
                most = max((row[0] for row in contents.rows.get(name, ())), default=0)
                run(statements.STOP_NUMBERING[name])
                run(statements.NUMBER_ON[name], number=most)

        await self._rows.write(work)


def all_of(table: str) -> str:
    """Reads an agent's rows of a table."""
    return f"SELECT {', '.join(COLUMNS[table])} FROM ledger_{table} WHERE agent = %(agent)s"


def none_of(table: str) -> str:
    """Removes an agent's rows of a table."""
    return f"DELETE FROM ledger_{table} WHERE agent = %(agent)s"


def one_of(table: str) -> str:
    """Adds a row to a table, with the number that it has."""
    names = COLUMNS[table]
    places = ", ".join(f"%({name})s" for name in names)
    columns = f"agent, {', '.join(names)}"
    return f"INSERT INTO ledger_{table} ({columns}) OVERRIDING SYSTEM VALUE VALUES (%(agent)s, {places})"


def _values(table: str, row: tuple[Any, ...]) -> dict[str, Any]:
    values = dict(zip(COLUMNS[table], row, strict=True))
    return {name: bool(value) if name in _FLAGS else value for name, value in values.items()}
