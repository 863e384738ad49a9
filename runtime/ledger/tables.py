"""The tables of a ledger that a terminal may use: people, jobs, choices, bridges.

A backend provides statements (`LedgerStatements`) and runs them (`LedgerRows`). Their order, and what follows
from a result, is decided here and in `ledger.py`, once for every database.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar
from urllib.parse import unquote

from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.ledger.records import (
    Along,
    BridgeStatus,
    Delivery,
    HeartbeatRan,
    JobChanged,
    JobMoved,
    StoredJob,
    StoredPerson,
    Who,
    inbound_from_json,
)

T = TypeVar("T")


class Run(Protocol):
    """Runs a statement within a transaction and returns its rows."""

    def __call__(self, statement: str, /, **values: object) -> list[Any]: ...


class LedgerRows(Protocol):
    """Runs the statements of a backend. Each method raises `LedgerUnusable`."""

    async def read(self, statement: str, /, **values: object) -> list[Any]:
        """The rows of one reading statement."""

    async def run(self, statement: str, durable: bool = True, /, **values: object) -> list[Any]:
        """Runs one changing statement, and returns its rows.

        A power cut may take a change that is not `durable`, until a later one is.
        """

    async def write(self, work: Callable[[Run], T]) -> T:
        """Calls `work` in a transaction and returns its result. It may be called more than once."""

    async def close(self) -> None:
        """Finishes pending work and accepts no more. Safe to repeat."""


class LedgerStatements(Protocol):
    """The statements of a backend, such as a module of constants. All use the same names of values.

    `numbers` is a list of numbers of messages. Statements that change a row return it, which shows whether
    there was one.
    """

    PUT_CURSOR: str
    CURSOR: str
    RECEIVE: str
    OPEN_MESSAGES: str
    BEGIN: str
    JOIN: str
    PART: str
    DROP: str
    DONE: str
    FORGET_INBOUND: str
    FORGET_OUTBOUND: str
    PUT_PART: str
    PUT_DRAFT: str
    DRAFT: str
    DRAFT_BECOMES: str
    NEXT_PART: str
    CHATS: str
    SET_STATE: str
    SENT: str
    DRAFTED: str
    UNDRAFT: str
    DROP_PARTS: str
    NOT_SENT: str
    NOT_DONE: str
    SENT_FOR: str
    ROLE: str
    LOCK_PEOPLE: str
    FORGET_ASKING: str
    ASKING_OF_ACCOUNT: str
    GIVE_WAY: str
    ASK: str
    ASKING: str
    KNOWN: str
    FIND_CODE: str
    USE_CODE: str
    DENY_CODE: str
    LET_IN: str
    REVOKE: str
    CHOICES: str
    PUT_CHOICE: str
    FORGET_CHOICE: str
    PUT_OWNER_CHAT: str
    OWNER_CHATS: str
    FORGET_BRIDGES: str
    PUT_BRIDGE: str
    BRIDGES: str
    LOCK_JOBS: str
    COUNT_JOBS: str
    ADD_JOB: str
    JOBS_OF: str
    JOBS_DUE: str
    JOBS_RECURRING: str
    NEXT_DUE: str
    REMOVE_JOB: str
    MOVE_JOB: str
    END_JOB: str
    FIRST_BEAT: str
    BEATEN: str
    LAST_BEAT: str


class PeopleRows:
    """The people who have access, and those who ask for it. Times are epoch milliseconds."""

    def __init__(self, rows: LedgerRows, sql: LedgerStatements) -> None:
        self._rows = rows
        self._sql = sql

    async def role(self, who: Who) -> str:
        """A sender's role; empty if unknown."""
        return (await self.arrival(who))[0]

    async def arrival(self, who: Who) -> tuple[str, str]:
        """The role of a sender now, and the id of the agent that alone answers them; empty if unknown."""
        found = await self._rows.read(self._sql.ROLE, **_named(who))
        return (str(found[0][0]), str(found[0][1])) if found else ("", "")

    async def ask(
        self, who: Who, code: str, *, now_ms: int, since_ms: int, most: int, gives_way_ms: int = 0
    ) -> bool:
        """Stores a code, unless its sender, or `most` people of the account, asked after `since_ms`; `True`
        if stored.

        Older requests are deleted. If too many ask, the oldest one who asked until `gives_way_ms` and was
        not denied is dropped.
        """
        sql, named = self._sql, _named(who)
        account = {"channel": who[0], "account": who[1]}

        def work(run: Run) -> bool:
            run(sql.LOCK_PEOPLE)
            run(sql.FORGET_ASKING, since_ms=since_ms)
            asking = run(sql.ASKING_OF_ACCOUNT, **account)
            if (who[2],) in asking:
                return False
            if len(asking) >= most and not run(sql.GIVE_WAY, **account, gives_way_ms=gives_way_ms):
                return False
            run(sql.ASK, **named, code=code, at_ms=now_ms)
            return True

        return await self._rows.write(work)

    async def asking(self, since_ms: int) -> tuple[StoredPerson, ...]:
        """The people who asked after `since_ms` and were not denied, oldest first."""
        return tuple(StoredPerson(*row) for row in await self._rows.read(self._sql.ASKING, since_ms=since_ms))

    async def known(self) -> tuple[StoredPerson, ...]:
        """The people who were let in, oldest first."""
        return tuple(StoredPerson(*row) for row in await self._rows.read(self._sql.KNOWN))

    async def approve(
        self, code: str, role: str, *, now_ms: int, since_ms: int, own_agent: str = ""
    ) -> Who | None:
        """Lets in the person who asked with this code after `since_ms`; the code is used up.

        A database may give them an agent of their own.
        """
        sql = self._sql

        def work(run: Run) -> Who | None:
            who = self._found(run, code, since_ms)
            run(sql.USE_CODE, code=code)
            if who is not None:
                run(sql.LET_IN, **_named(who), role=role, at_ms=now_ms, own_agent=own_agent)
            return who

        return await self._rows.write(work)

    async def deny(self, code: str, *, since_ms: int) -> Who | None:
        """Invalidates the code of the person who asked with it after `since_ms`, who cannot ask again."""

        def work(run: Run) -> Who | None:
            who = self._found(run, code, since_ms)
            run(self._sql.DENY_CODE, code=code)
            return who

        return await self._rows.write(work)

    async def revoke(self, channel: str, sender_id: str) -> bool:
        """Removes a person from every account of a channel; `False` if they were not let in."""
        return bool(await self._rows.run(self._sql.REVOKE, channel=channel, sender_id=sender_id))

    def _found(self, run: Run, code: str, since_ms: int) -> Who | None:
        run(self._sql.LOCK_PEOPLE)
        found: list[Who] = run(self._sql.FIND_CODE, code=code, since_ms=since_ms)
        return found[0] if found else None


def _named(who: Who) -> dict[str, str]:
    return {"channel": who[0], "account": who[1], "sender_id": who[2]}


class JobRows:
    """Scheduled jobs. Times are epoch milliseconds."""

    def __init__(self, rows: LedgerRows, sql: LedgerStatements) -> None:
        self._rows = rows
        self._sql = sql

    async def add(self, job: StoredJob, *, made_ms: int, most: int) -> bool:
        """Stores a job unless its agent has `most`; `True` if stored."""
        sql = self._sql

        def work(run: Run) -> bool:
            run(sql.LOCK_JOBS)
            [(count,)] = run(sql.COUNT_JOBS, answered_by=job.agent_id)
            if count >= most:
                return False
            run(
                sql.ADD_JOB,
                id=job.job_id,
                answered_by=job.agent_id,
                asker=job.asker,
                text=job.text,
                rule=job.rule,
                made_ms=made_ms,
                due_ms=job.due_ms,
                problem=job.problem,
            )
            return True

        return await self._rows.write(work)

    async def of_agent(self, agent_id: str) -> tuple[StoredJob, ...]:
        """The jobs of an agent, by due time, those that are not due last."""
        return await self._found(self._sql.JOBS_OF, answered_by=agent_id)

    async def due(self, at_ms: int) -> tuple[StoredJob, ...]:
        """The jobs of all agents that are due at a time, in order."""
        return await self._found(self._sql.JOBS_DUE, at_ms=at_ms)

    async def recurring(self, after_ms: int) -> tuple[StoredJob, ...]:
        """The recurring jobs of all agents that are due after a time."""
        return await self._found(self._sql.JOBS_RECURRING, at_ms=after_ms)

    async def next_due_ms(self) -> int | None:
        """When the next job is due, or `None`."""
        [(due_ms,)] = await self._rows.read(self._sql.NEXT_DUE)
        return None if due_ms is None else int(due_ms)

    async def remove(self, job_id: str) -> bool:
        return bool(await self._rows.run(self._sql.REMOVE_JOB, id=job_id))

    async def move(self, moved: JobMoved) -> None:
        """Sets when a job is due next. Raises `JobChanged`."""
        await self._rows.write(lambda run: write_along(run, self._sql, moved))

    async def last_beat_ms(self, agent_id: str, now_ms: int) -> int:
        """When an agent last had a heartbeat; the first call records the current time."""
        sql = self._sql

        def work(run: Run) -> int:
            run(sql.FIRST_BEAT, answered_by=agent_id, at_ms=now_ms)
            [(at_ms,)] = run(sql.LAST_BEAT, answered_by=agent_id)
            return int(at_ms)

        return await self._rows.write(work)

    async def _found(self, statement: str, **values: object) -> tuple[StoredJob, ...]:
        return tuple(StoredJob(*row) for row in await self._rows.read(statement, **values))


def write_along(run: Run, sql: LedgerStatements, along: Along) -> None:
    """Writes `along` within a transaction. Raises `JobChanged`."""
    if isinstance(along, HeartbeatRan):
        beaten = {"answered_by": along.agent_id, "at_ms": along.at_ms, "before_ms": along.before_ms}
        if not run(sql.BEATEN, **beaten):
            raise JobChanged(f"Another program ran the heartbeat of {along.agent_id} meanwhile.")
        return
    job = {"id": along.job_id, "before_ms": along.before_ms}
    if along.due_ms is None and not along.problem:
        changed = run(sql.END_JOB, **job)
    else:
        changed = run(sql.MOVE_JOB, **job, due_ms=along.due_ms, problem=along.problem)
    if not changed:
        raise JobChanged(f"The job {along.job_id} was changed meanwhile.")


class LedgerTables:
    """The tables of a ledger that a terminal may use."""

    def __init__(self, rows: LedgerRows, sql: LedgerStatements) -> None:
        self.rows = rows
        self.sql = sql
        self.people = PeopleRows(rows, sql)
        self.jobs = JobRows(rows, sql)

    async def close(self) -> None:
        """Finishes pending work and releases the storage. Safe to repeat."""
        await self.rows.close()

    async def owner_chats(self, agent_id: str, *, target: str = "last") -> tuple[Inbound, ...]:
        """Where the owner wrote to an agent in private, as messages without text, newest first.

        `target` is the name of a channel, or `last` for all of them.
        """
        wanted = target.strip().lower()
        rows = await self.rows.read(self.sql.OWNER_CHATS, answered_by=agent_id)
        chats = (inbound_from_json(text) for (text,) in rows)
        return tuple(chat for chat in chats if wanted in ("last", chat.channel.strip().lower()))

    async def put_statuses(self, statuses: Sequence[BridgeStatus]) -> None:
        """Replaces the statuses of all bridges, for other programs."""

        def work(run: Run) -> None:
            run(self.sql.FORGET_BRIDGES)
            for status in statuses:
                run(self.sql.PUT_BRIDGE, **status._asdict())

        await self.rows.write(work)

    async def statuses(self) -> tuple[BridgeStatus, ...]:
        """The stored statuses of the bridges, by channel and account."""
        return tuple(BridgeStatus(*row) for row in await self.rows.read(self.sql.BRIDGES))

    async def deliveries(self, inbound_id: str) -> tuple[Delivery, ...]:
        """The parts that answer the message with this `Inbound.inbound_id`. Old ones are forgotten."""
        names = ("channel", "account", "chat_id", "message_id")
        named = dict(zip(names, map(unquote, inbound_id.split("/")), strict=False))
        if len(named) < len(names):
            return ()  # the transcript is another program's
        rows = await self.rows.read(self.sql.SENT_FOR, **named)
        return tuple(Delivery(*row) for row in rows)

    async def choices(self) -> Mapping[tuple[str, str], str]:
        """The stored choices, by session key and name."""
        return {(key, name): value for key, name, value in await self.rows.read(self.sql.CHOICES)}

    async def put_choice(self, session_key: str, name: str, value: str) -> None:
        """Stores a choice; an empty value deletes it."""
        if value:
            await self.rows.run(self.sql.PUT_CHOICE, session_key=session_key, name=name, value=value)
        else:
            await self.rows.run(self.sql.FORGET_CHOICE, session_key=session_key, name=name)

    async def not_done(self) -> dict[str, int]:
        """The number of messages that wait or are being answered, and of unsent parts, by state."""
        return dict(await self.rows.read(self.sql.NOT_DONE))
