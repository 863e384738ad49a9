"""The ledger of an agent in PostgreSQL, for one serving program at a time on any machine, or for several
that share its accounts.
"""

from __future__ import annotations

import asyncio
import math
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from nacre.extensions.postgres import ledger_statements as statements
from nacre.extensions.postgres.server.connections import DatabaseError
from nacre.extensions.postgres.server.database import Database, Process
from nacre.extensions.postgres.workers.turn_rows import id_of_turn
from nacre.runtime.contracts.clock import Clock, NewId, epoch_ms
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.contracts.outbound import Place
from nacre.runtime.ledger.ledger import AccountId, Ledger, Shares
from nacre.runtime.ledger.moving import COLUMNS, Contents, as_row
from nacre.runtime.ledger.records import (
    MOST_KEPT_IDS,
    Along,
    LedgerLost,
    LedgerUnusable,
    OutboundPart,
    Received,
    Who,
    asker_to_json,
    chat_of,
    inbound_to_json,
    is_owner_chat,
)
from nacre.runtime.ledger.tables import LedgerRows, LedgerStatements, PeopleRows, Run
from nacre.sessions.contracts.messages import sendable

if TYPE_CHECKING:
    from nacre.extensions.postgres.server.connections import Connection

T = TypeVar("T")

NOT_HELD = "NA001"
"""The `sqlstate` of the error that `ledger_is_held` and `account_is_held` raise."""
_OF_ACCOUNT = (statements.RECEIVE, statements.PUT_CURSOR)
"""Statements of an account within a transaction, besides parts that belong to a turn."""


class PostgresRows:
    """Implements `LedgerRows` for one agent. The `fence` locks out programs that served earlier.

    With a `process`, several programs share the ledger, and each writes for accounts that it holds.
    """

    def __init__(
        self, database: Database, agent: str, *, fence: int | None = None, process: int | None = None
    ) -> None:
        self._database = database
        self._agent = agent
        self._fence = fence
        self._process = process
        self._is_closed = False

    async def close(self) -> None:
        """Stops accepting work. The database stays open for others in the process."""
        self._is_closed = True

    async def read(self, statement: str, /, **values: object) -> list[Any]:
        return await self._tried(self._database.single, lambda run: run(statement, **values))

    async def read_all(self, work: Callable[[Run], T]) -> T:
        """Returns the result of `work`, which reads a consistent snapshot. Raises `LedgerUnusable`."""
        return await self._tried(self._database.read, work)

    async def run(self, statement: str, durable: bool = True, /, **values: object) -> list[Any]:  # noqa: ARG002 - each commit is
        if statement in statements.FENCED:
            fenced = (statements.FENCED if self._process is None else statements.SHARED)[statement]
            return await self._tried(
                self._database.single, lambda run: run(fenced, **values, ledger_fence=self._fence)
            )
        return await self.write(lambda run: run(statement, **values))

    async def write(self, work: Callable[[Run], T]) -> T:
        """Commits `work` in one transaction and returns its result. `work` may be called again.

        Raises:
            LedgerUnusable: the database cannot be used, the ledger is closed, or another program serves.
        """

        def fenced(run: Run) -> T:
            def checked(statement: str, /, **values: object) -> list[Any]:
                if statement in _OF_ACCOUNT or (statement == statements.PUT_PART and values["turn"]):
                    account = {name: values[name] for name in ("channel", "account")}
                    run(statements.ACCOUNT_IS_HELD, **account, ledger_fence=self._fence)
                return run(statement, **values)

            if self._process is not None:
                return work(checked)
            if self._fence is not None:
                run(statements.IS_HELD, fence=self._fence)
            return work(run)

        return await self._tried(self._database.write, fenced)

    async def _tried(self, ask: Any, work: Callable[[Run], T]) -> T:
        if self._is_closed:
            raise LedgerUnusable(f"The ledger of {self._agent} is closed.")

        def whole(connection: Connection) -> T:
            def run(statement: str, /, **values: object) -> list[Any]:
                kept = {name: _storable(value) for name, value in values.items()}
                own = {"agent": self._agent, "ledger_process": self._process}
                found = connection.execute(statement.encode(), {**own, **kept})
                return found.fetchall() if found.description is not None else []

            return work(run)

        try:
            # A serving program waits for the database, because its data is stored nowhere else.
            result: T = await ask(whole, is_patient=self._fence is not None)
        except DatabaseError as error:
            if getattr(error, "sqlstate", "") != NOT_HELD:
                raise LedgerUnusable(str(error)) from error
            raise LedgerUnusable(
                f"Another program runs the bridges of {self._agent} now, so this one writes nothing more."
            ) from error
        return result


def _storable(value: object) -> object:
    """A value without NUL characters and lone surrogates, which PostgreSQL refuses."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
    return [_storable(each) for each in value] if isinstance(value, list) else value


def holder_name() -> str:
    """The name of this program, by which others tell who serves."""
    return f"{socket.gethostname()}, process {os.getpid()}"


RELEASE_SECONDS = 2.0
"""The longest wait at the end for an unreachable database; the ledger becomes free by silence, too."""


class Holding:
    """This process's hold on an agent's ledger, with heartbeats until it is released."""

    def __init__(self, database: Database, agent: str, *, ledger_id: str, fence: int) -> None:
        self.ledger_id = ledger_id
        self.fence = fence
        self._database = database
        self._agent = agent
        self._keeping = asyncio.create_task(database.process.keep(), name="ledger")
        database.process.ledgers.add(agent)

    @classmethod
    async def take(
        cls, database: Database, agent: str, *, ledger_id: str = "", is_shared: bool = False
    ) -> Self:
        """Takes the ledger, also from a process that has been silent for too long.

        If it `is_shared`, joins the programs that share it instead, if there are any.

        Raises:
            LedgerUnusable: the database cannot be used, or another program holds the ledger.
        """
        rows, process, seen = PostgresRows(database, agent), database.process, "-infinity"
        values = {"ledger_id": ledger_id, "holder": holder_name(), "process": process.number}
        while True:
            try:
                await process.beat()
            except DatabaseError as error:
                raise LedgerUnusable(str(error)) from error
            if agent not in process.ledgers:
                joined = await rows.run(statements.JOIN_OTHERS, **values) if is_shared else []
                for found, fence in joined or await rows.run(statements.HOLD, **values, seen=seen):
                    return cls(database, agent, ledger_id=found, fence=fence)
            [(name, alive_until, left)] = await rows.read(statements.ALIVE)
            if alive_until is None or alive_until != seen != "-infinity":
                who = f" ({name})" if name else ""
                raise LedgerUnusable(
                    f"Another program{who} runs the bridges of {agent}. Stop it first, because both would "
                    "answer every message."
                )
            beat = process.pace.beat_seconds
            await asyncio.sleep(beat if seen == "-infinity" else min(abs(left), beat))
            seen = alive_until

    async def release(self, statement: str = statements.RELEASE) -> None:
        self._keeping.cancel()
        self._database.process.ledgers.discard(self._agent)
        rows, process = PostgresRows(self._database, self._agent), self._database.process.number
        with suppress(LedgerUnusable, TimeoutError):
            async with asyncio.timeout(RELEASE_SECONDS):
                await rows.run(statement, process=process)


ROLE_SECONDS = 1.0
"""How long a role is cached, also a missing one."""
MOST_ROLES = 10_000


class KeptPeople(PeopleRows):
    """People with cached roles, because a serving program looks up a sender's role four times per turn.

    Changes by other programs take effect within `ROLE_SECONDS`.
    """

    def __init__(self, rows: LedgerRows, sql: LedgerStatements) -> None:
        super().__init__(rows, sql)
        self._roles: dict[Who, tuple[str, float]] = {}

    async def role(self, who: Who) -> str:
        """The role of a sender, at most `ROLE_SECONDS` old."""
        now = time.monotonic()
        kept, until = self._roles.get(who, ("", 0.0))
        if now < until:
            return kept
        if len(self._roles) > MOST_ROLES:
            self._roles.clear()
        return (await self.arrival(who))[0]

    async def arrival(self, who: Who) -> tuple[str, str]:
        """Asks the database, so that a person admitted a moment ago is answered, by the right agent."""
        role, own_agent = await super().arrival(who)
        self._roles[who] = role, time.monotonic() + ROLE_SECONDS
        return role, own_agent

    async def approve(
        self, code: str, role: str, *, now_ms: int, since_ms: int, own_agent: str = ""
    ) -> Who | None:
        """Admits a person."""
        found = await super().approve(code, role, now_ms=now_ms, since_ms=since_ms, own_agent=own_agent)
        self._roles.clear()
        return found

    async def revoke(self, channel: str, sender_id: str) -> bool:
        done = await super().revoke(channel, sender_id)
        self._roles.clear()
        return done


class PostgresLedger(Ledger):
    """The ledger of an agent. Open it with `open`."""

    _holding: Holding | None = None
    _release = statements.RELEASE
    _process: Process
    _receipts: Iterator[int]
    """Begins with the number that the process drew, so that no two calls of any have the same."""

    @classmethod
    async def open(cls, database: Database, *, agent: str, now: Clock, new_id: NewId) -> Self:
        """Takes the ledger. Parts that another program was sending become `unsure`; its writes are refused.

        Raises:
            LedgerUnusable: the database cannot be used, or another program holds the ledger.
        """
        holding = await Holding.take(database, agent, ledger_id=new_id())
        fenced = PostgresRows(database, agent, fence=holding.fence)
        try:
            await fenced.run(statements.NOBODY_KNOWS)
        except BaseException:
            await holding.release()
            raise
        return cls._held(holding, fenced, database.process, now)

    @classmethod
    def _held(cls, holding: Holding, fenced: PostgresRows, process: Process, now: Clock) -> Self:
        ledger = cls(fenced, statements, now=now, ledger_id=holding.ledger_id)
        ledger.people = KeptPeople(fenced, statements)
        ledger._process = process
        ledger._receipts = count(process.number)
        ledger._holding = holding
        return ledger

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
        """Stores a message, in one statement if it has an id.

        If workers run the turns, the same statement requests the turn.
        """
        if along is not None or not inbound.message_id:
            return await super().receive(
                inbound, session_key, agent_id=agent_id, cursor=cursor, along=along, begins=begins
            )
        asked = self._process.asked if begins else None
        turn = {} if asked is None else {"turn": id_of_turn(inbound), "stream": self._process.stream}
        [(number, *news)] = await self.rows.run(
            statements.RECEIVE_ALL if asked is None else statements.RECEIVE_AND_ASK,
            channel=inbound.channel,
            account=inbound.account,
            chat_id=inbound.chat_id,
            message_id=inbound.message_id,
            session_key=session_key,
            answered_by=agent_id,
            at_ms=epoch_ms(self._now()),
            body=inbound_to_json(inbound),
            cursor=cursor,
            owner_chat=asker_to_json(inbound) if is_owner_chat(inbound) else "",
            receipt=next(self._receipts),
            begins=begins,
            **turn,
        )
        if number is None:
            return None
        if asked is not None:
            asked[agent_id, id_of_turn(inbound)] = bool(news[0])
        return Received(
            number=number, session_key=session_key, inbound=inbound, agent_id=agent_id, begins=begins
        )

    async def finish(
        self, batch: Sequence[Received], place: Place, texts: Sequence[str], *, sends: bool = False
    ) -> OutboundPart | None:
        """Stores the end of a turn with one idempotent statement, which may record that it `sends`."""
        last = batch[-1].inbound
        [(number, *draft)] = await self.rows.run(
            statements.FINISH_AND_SEND if sends else statements.FINISH_ALL,
            numbers=[received.number for received in batch],
            turn=batch[0].number,
            channel=place.channel,
            account=place.account,
            chat_id=place.chat_id,
            thread_id=place.thread_id,
            answers=last.message_id,
            asker=asker_to_json(last),
            texts=[sendable(text) for text in texts],
            kept_in=list(chat_of(last)),
            most=MOST_KEPT_IDS,
        )
        if not draft or not (number := draft[0] or number):
            return None
        return self.outbox.new_part(number, place, texts[0], last.message_id, last, draft[1] or "")

    async def close(self) -> None:
        """Stops accepting work and releases the ledger. May be called twice."""
        await super().close()
        holding, self._holding = self._holding, None
        if holding is not None:
            await holding.release(self._release)


NUMBERED = ("inbound", "outbound")
"""The tables with generated row numbers."""
_FLAGS = ("joined", "was_draft")


class MovableRows:
    """Implements `MovableLedger` for one agent."""

    def __init__(self, rows: PostgresRows) -> None:
        self._rows = rows

    async def contents(self) -> Contents:
        def work(run: Run) -> Contents:
            found = run(statements.MARKS)
            ledger_id, copied = found[0] if found else ("", "")
            rows = {name: tuple(map(as_row, run(all_of(name)))) for name in COLUMNS}
            return Contents(ledger_id=ledger_id, rows=rows, copied=copied)

        return await self._rows.read_all(work)

    async def replace(self, contents: Contents, *, copied: str | None = None) -> None:
        mark = contents.checksum if copied is None else copied

        def work(run: Run) -> None:
            run(statements.PUT_MARKS, ledger_id=contents.ledger_id, copied=mark)
            for name in COLUMNS:
                run(none_of(name))
                for row in contents.rows.get(name, ()):
                    values = dict(zip(COLUMNS[name], row, strict=True))
                    flags = {key: bool(value) for key, value in values.items() if key in _FLAGS}
                    run(one_of(name), **{**values, **flags})
            for name in NUMBERED:
                most = max((row[0] for row in contents.rows.get(name, ())), default=0)
                run(statements.STOP_NUMBERING[name])
                run(statements.NUMBER_ON[name], number=most)

        await self._rows.write(work)


def all_of(table: str) -> str:
    """A statement that reads an agent's rows of a table."""
    return f"SELECT {', '.join(COLUMNS[table])} FROM ledger_{table} WHERE agent = %(agent)s{_moved(table)}"


def none_of(table: str) -> str:
    """A statement that removes an agent's rows of a table."""
    return f"DELETE FROM ledger_{table} WHERE agent = %(agent)s{_moved(table)}"


def _moved(table: str) -> str:
    # The ledger in files has no `own_agent`, so these people would all reach the default agent.
    return " AND own_agent = ''" if table == "people" else ""


def one_of(table: str) -> str:
    """A statement that adds a row to a table with its existing number."""
    names = COLUMNS[table]
    places = ", ".join(f"%({name})s" for name in names)
    columns = f"agent, {', '.join(names)}"
    return f"INSERT INTO ledger_{table} ({columns}) OVERRIDING SYSTEM VALUE VALUES (%(agent)s, {places})"


LOOK_SECONDS = 2.0
"""The longest time between looks. A look that waits for another program's silence comes right at its end."""
SOON_SECONDS = 0.05


class Member(NamedTuple):
    """A program that shares a ledger, or still holds accounts of it. Accounts are `channel/account`."""

    process: int
    holder: str
    wanted: Sequence[str]
    held: Sequence[str]
    alive_until: str | None
    left_seconds: float | None
    """How long it counts as alive; `None` if it has said that it ends, or ended long ago."""
    leads: bool
    unsent: Sequence[str]

    @property
    def is_silent(self) -> bool:
        return self.left_seconds is None or self.left_seconds <= 0


class Plan(NamedTuple):
    """The accounts to take, each with the process that had it, those to leave to others, and the holders of
    those that others keep."""

    take: Mapping[str, int | None]
    surplus: Sequence[str]
    elsewhere: Mapping[str, str]


def plan(
    own: Member,
    others: Sequence[Member],
    wanted: Sequence[str],
    *,
    silent: frozenset[int] = frozenset(),
    missed: frozenset[str] = frozenset(),
) -> Plan:
    """Shares accounts among the programs that want them, so that none has two more than another.

    `silent` are processes whose accounts may be taken. Of free accounts a program leaves those to others that
    want them and have fewer, unless nobody took them since the last look: the `missed` ones.
    """
    holders = {name: other for other in others for name in other.held}
    living = [other for other in others if not other.is_silent]
    count, take = len(own.held), dict[str, int | None]()
    for name in wanted:
        holder = holders.get(name)
        if name in own.held or (holder is not None and holder.process not in silent):
            continue
        if name in missed or not any(name in each.wanted and len(each.held) < count for each in living):
            take[name] = None if holder is None else holder.process
            count += 1
    with_room = [each for each in living if len(each.held) + 2 <= len(own.held)]
    surplus = [name for name in own.held if any(name in each.wanted for each in with_room)]
    elsewhere = {name: holders[name].holder for name in wanted if name in holders and name not in take}
    return Plan(take, surplus, elsewhere)


class SharedLedger(PostgresLedger):
    """The ledger of an agent whose accounts several programs share. This one serves those that it takes."""

    _release = statements.LEAVE_OTHERS
    _fence: int
    _told: Sequence[str] = ()
    """The accounts that this program has registered as wanted."""
    _free: frozenset[str] = frozenset()
    """The accounts that nobody held after the last look."""
    _silences: dict[int, tuple[str | None, float]]
    """Until when silent processes were alive, and since when that is known."""

    @classmethod
    async def open(cls, database: Database, *, agent: str, now: Clock, new_id: NewId) -> Self:
        """Joins the programs that share the ledger.

        Raises:
            LedgerUnusable: the database cannot be used, or a program holds the ledger for itself alone.
        """
        holding = await Holding.take(database, agent, ledger_id=new_id(), is_shared=True)
        rows = PostgresRows(database, agent, fence=holding.fence, process=database.process.number)
        ledger = cls._held(holding, rows, database.process, now)
        ledger._fence, ledger._silences = holding.fence, {}
        try:
            await ledger._enter(())
        except BaseException:
            await ledger.close()
            raise
        return ledger

    async def share(self, wanted: Sequence[AccountId]) -> Shares:
        """Takes its share of the accounts in `wanted` that nobody holds or whose program is silent.

        Raises:
            LedgerLost: a program has taken the ledger for itself alone, or its rows are gone.
            LedgerUnusable: the database cannot be used.
        """
        names = {f"{channel}/{account}": (channel, account) for channel, account in wanted}
        if self._told != tuple(names):
            await self._enter(tuple(names))
        own = {"process": self._process.number, "fence": self._fence}
        members = [Member(*row) for row in await self.rows.read(statements.GATEWAYS, **own)]
        mine = next((each for each in members if each.process == self._process.number), None)
        if mine is None:
            raise LedgerLost(
                "Another program has taken all bridges, or an older database was restored. Restart this one."
            )
        others = [each for each in members if each is not mine]
        if not any(each.leads for each in members if not each.is_silent):
            await self.rows.run(statements.LEAD, **own, holder=holder_name())
        silent, soon = self._silent(others)
        todo = plan(mine, others, [*names], silent=silent, missed=self._free)
        taken = [name for name in todo.take if await self._take(names[name], todo.take[name])]
        held = [name for name in names if name in (*mine.held, *taken)]
        self._free = frozenset(names) - {*held, *todo.elsewhere}
        return Shares(
            held=tuple(names[name] for name in held),
            elsewhere={names[name]: holder for name, holder in todo.elsewhere.items()},
            surplus=tuple(names[name] for name in todo.surplus if name in names),
            unsent=tuple(names[name] for name in mine.unsent if name in names),
            look_seconds=min(LOOK_SECONDS, soon),
        )

    async def give_up(self, account: AccountId) -> None:
        """Leaves an account to others."""
        named = {"channel": account[0], "account": account[1], "process": self._process.number}
        await self.rows.run(statements.GIVE_UP, **named)

    async def _enter(self, wanted: tuple[str, ...]) -> None:
        named = {"process": self._process.number, "holder": holder_name(), "wanted": list(wanted)}
        await self.rows.run(statements.ENTER, **named)
        self._told = wanted

    def _silent(self, others: Sequence[Member]) -> tuple[frozenset[int], float]:
        """The processes whose accounts may be taken, and the seconds until another one may be silent.

        After an outage all seem silent, so a program that was cut off itself waits for their next heartbeat.
        """
        now, pace, found, soon = time.monotonic(), self._process.pace, set[int](), math.inf
        for each in others:
            if not each.is_silent:
                self._silences.pop(each.process, None)
                soon = min(soon, (each.left_seconds or 0) + SOON_SECONDS) if each.held else soon
                continue
            seen, since = self._silences.get(each.process, ("", now))
            if seen != each.alive_until:
                since = now
            self._silences[each.process] = each.alive_until, since
            wait_seconds = since + pace.beat_seconds - now
            if each.left_seconds is None or self._process.is_steady or wait_seconds <= 0:
                found.add(each.process)
            else:
                soon = min(soon, wait_seconds + SOON_SECONDS)
        return frozenset(found), soon

    async def _take(self, account: AccountId, before: int | None) -> bool:
        """Takes an account. Parts that were being sent become `unsure`."""
        named = {"channel": account[0], "account": account[1]}

        def work(run: Run) -> bool:
            if not run(statements.TAKE, **named, process=self._process.number, before=before):
                return False
            run(statements.UNSURE_OF_ACCOUNT, **named)
            return True

        return await self.rows.write(work)
