"""The ledger's statements run for one agent, by the program that serves or beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from nacre.extensions.postgres import ledger_statements as statements
from nacre.extensions.postgres.server.connections import DatabaseError
from nacre.extensions.postgres.server.database import Database
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.contracts.outbound import Place
from nacre.runtime.ledger.records import (
    MOST_KEPT_IDS,
    Along,
    Beaten,
    JobChanged,
    JobMoved,
    LedgerUnusable,
    OutboundPart,
    StoredJob,
    StoredPerson,
    StoredStatus,
    Who,
    chat_of,
    inbound_from_json,
    part_from_row,
    sendable,
)

if TYPE_CHECKING:
    from nacre.extensions.postgres.server.connections import Connection


T = TypeVar("T")


class Run(Protocol):
    """Runs a statement within a transaction."""

    def __call__(self, statement: str, /, **values: object) -> list[Any]:
        """The rows that it gives."""
        ...


class LedgerRows:
    """Those of one agent. With a `fence` nothing is written once a later program serves."""

    def __init__(self, database: Database, agent: str, *, fence: int | None = None) -> None:
        self._database = database
        self._agent = agent
        self._fence = fence
        self._is_closed = False

    def close(self) -> None:
        """Takes nothing more. The database stays open for others of the process."""
        self._is_closed = True

    async def read(self, statement: str, /, **values: object) -> list[Any]:
        """The rows of one statement. Raises `LedgerUnusable`."""
        return await self._tried(self._database.read, lambda run: run(statement, **values))

    async def read_all(self, work: Callable[[Run], T]) -> T:
        """What `work` reads, all of one moment. Raises `LedgerUnusable`."""
        return await self._tried(self._database.read, work)

    async def run(self, statement: str, /, **values: object) -> list[Any]:
        """What one statement changes, and the rows that it gives. Raises `LedgerUnusable`."""
        return await self.write(lambda run: run(statement, **values))

    async def write(self, work: Callable[[Run], T]) -> T:
        """The result of `work`, whole or not at all; it may be run again from its beginning.

        Raises:
            LedgerUnusable: the database cannot be used, the ledger is closed, or another program serves.
        """

        def fenced(run: Run) -> T:
            if self._fence is not None and not run(statements.IS_HELD, fence=self._fence):
                raise LedgerUnusable(
                    f"Another program runs the bridges of {self._agent} by now. This one writes nothing more."
                )
            return work(run)

        return await self._tried(self._database.write, fenced)

    async def _tried(self, ask: Any, work: Callable[[Run], T]) -> T:
        if self._is_closed:
            raise LedgerUnusable(f"The ledger of {self._agent} is closed.")

        def whole(connection: Connection) -> T:
            def run(statement: str, /, **values: object) -> list[Any]:
                found = connection.execute(statement.encode(), {"agent": self._agent, **values})
                return found.fetchall() if found.description is not None else []

            return work(run)

        try:
            result: T = await ask(whole)
        except DatabaseError as error:
            raise LedgerUnusable(str(error)) from error
        return result


class PostgresPeople:
    """The people of a ledger."""

    def __init__(self, rows: LedgerRows) -> None:
        self._rows = rows

    async def role(self, who: Who) -> str:
        """What a sender was made."""
        found = await self._rows.read(statements.ROLE, **_named(who))
        return str(found[0][0]) if found else ""

    async def ask(
        self, who: Who, code: str, *, now_ms: int, since_ms: int, most: int, gives_way_ms: int = 0
    ) -> bool:
        """Keeps a code, unless its sender asks already, or too many do who asked after `gives_way_ms`."""
        named = _named(who)

        def work(run: Run) -> bool:
            run(statements.LOCK_PEOPLE)
            run(statements.FORGET_ASKING, since_ms=since_ms)
            asking = run(statements.ASKING_OF_ACCOUNT, channel=who[0], account=who[1])
            if (who[2],) in asking:
                return False
            if len(asking) >= most and not run(
                statements.GIVE_WAY, channel=who[0], account=who[1], gives_way_ms=gives_way_ms
            ):
                return False
            run(statements.ASK, **named, code=code, at_ms=now_ms)
            return True

        return await self._rows.write(work)

    async def asking(self, since_ms: int) -> tuple[StoredPerson, ...]:
        """Who asks to be let in."""
        return tuple(
            StoredPerson(*row) for row in await self._rows.read(statements.ASKING, since_ms=since_ms)
        )

    async def known(self) -> tuple[StoredPerson, ...]:
        """Who was let in."""
        return tuple(StoredPerson(*row) for row in await self._rows.read(statements.KNOWN))

    async def approve(self, code: str, role: str, *, now_ms: int, since_ms: int) -> Who | None:
        """Lets in who has a code."""

        def work(run: Run) -> Who | None:
            run(statements.LOCK_PEOPLE)
            who = _found(run, code, since_ms)
            run(statements.USE_CODE, code=code)
            if who is not None:
                run(statements.LET_IN, **_named(who), role=role, at_ms=now_ms)
            return who

        return await self._rows.write(work)

    async def deny(self, code: str, *, since_ms: int) -> Who | None:
        """Takes a code from who has it."""

        def work(run: Run) -> Who | None:
            run(statements.LOCK_PEOPLE)
            who = _found(run, code, since_ms)
            run(statements.DENY_CODE, code=code)
            return who

        return await self._rows.write(work)

    async def revoke(self, channel: str, sender_id: str) -> bool:
        """Takes back that a person was let in."""
        return bool(await self._rows.run(statements.REVOKE, channel=channel, sender_id=sender_id))


def _named(who: Who) -> dict[str, str]:
    return {"channel": who[0], "account": who[1], "sender_id": who[2]}


def _found(run: Run, code: str, since_ms: int) -> Who | None:
    found: list[Who] = run(statements.FIND_CODE, code=code, since_ms=since_ms)
    return found[0] if found else None


class PostgresJobs:
    """The jobs of a ledger."""

    def __init__(self, rows: LedgerRows) -> None:
        self._rows = rows

    async def add(self, job: StoredJob, *, made_ms: int, most: int) -> bool:
        """Keeps a job unless its agent has too many."""

        def work(run: Run) -> bool:
            run(statements.LOCK_JOBS)
            [(count,)] = run(statements.COUNT_JOBS, answered_by=job.agent_id)
            if count >= most:
                return False
            run(
                statements.ADD_JOB,
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
        """The jobs of an agent."""
        return await self._found(statements.JOBS_OF, answered_by=agent_id)

    async def due(self, at_ms: int) -> tuple[StoredJob, ...]:
        """The jobs that are due."""
        return await self._found(statements.JOBS_DUE, at_ms=at_ms)

    async def recurring(self, after_ms: int) -> tuple[StoredJob, ...]:
        """The jobs that are due later, and again."""
        return await self._found(statements.JOBS_RECURRING, at_ms=after_ms)

    async def next_due_ms(self) -> int | None:
        """When the next job is due."""
        [(due_ms,)] = await self._rows.read(statements.NEXT_DUE)
        return None if due_ms is None else int(due_ms)

    async def remove(self, job_id: str) -> bool:
        """Removes a job."""
        return bool(await self._rows.run(statements.REMOVE_JOB, id=job_id))

    async def move(self, moved: JobMoved) -> None:
        """Sets when a job is due next."""
        await self._rows.write(lambda run: write_along(run, moved))

    async def last_beat_ms(self, agent_id: str, now_ms: int) -> int:
        """When an agent last had a heartbeat."""

        def work(run: Run) -> int:
            run(statements.FIRST_BEAT, answered_by=agent_id, at_ms=now_ms)
            [(at_ms,)] = run(statements.LAST_BEAT, answered_by=agent_id)
            return int(at_ms)

        return await self._rows.write(work)

    async def _found(self, statement: str, **values: object) -> tuple[StoredJob, ...]:
        return tuple(StoredJob(*row) for row in await self._rows.read(statement, **values))


def write_along(run: Run, along: Along) -> None:
    """Writes it within a transaction. Raises `JobChanged`."""
    if isinstance(along, Beaten):
        run(statements.BEATEN, answered_by=along.agent_id, at_ms=along.at_ms)
        return
    job = {"id": along.job_id, "before_ms": along.before_ms}
    if along.due_ms is None and not along.problem:
        changed = run(statements.END_JOB, **job)
    else:
        changed = run(statements.MOVE_JOB, **job, due_ms=along.due_ms, problem=along.problem)
    if not changed:
        raise JobChanged(f"The job {along.job_id} was changed meanwhile.")


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


class PostgresTables:
    """Those of one agent."""

    def __init__(self, rows: LedgerRows) -> None:
        self._rows = rows
        self.people = PostgresPeople(rows)
        self.jobs = PostgresJobs(rows)

    async def close(self) -> None:
        """Takes nothing more; the database stays open for others of the process."""
        self._rows.close()

    async def owner_chats(self, agent_id: str) -> tuple[Inbound, ...]:
        """Where the owner wrote to an agent in private."""
        rows = await self._rows.read(statements.OWNER_CHATS, answered_by=agent_id)
        return tuple(inbound_from_json(text) for (text,) in rows)

    async def put_statuses(self, statuses: Sequence[StoredStatus]) -> None:
        """Keeps how all bridges are."""

        def work(run: Run) -> None:
            run(statements.FORGET_BRIDGES)
            for status in statuses:
                run(statements.PUT_BRIDGE, **status._asdict())

        await self._rows.write(work)

    async def statuses(self) -> tuple[StoredStatus, ...]:
        """What was last kept of the bridges."""
        return tuple(StoredStatus(*row) for row in await self._rows.read(statements.BRIDGES))

    async def choices(self) -> Mapping[tuple[str, str], str]:
        """What was chosen."""
        return {(key, name): value for key, name, value in await self._rows.read(statements.CHOICES)}

    async def put_choice(self, session_key: str, name: str, value: str) -> None:
        """Keeps a choice, or forgets it."""
        if value:
            await self._rows.run(statements.PUT_CHOICE, session_key=session_key, name=name, value=value)
        else:
            await self._rows.run(statements.FORGET_CHOICE, session_key=session_key, name=name)

    async def not_done(self) -> dict[str, int]:
        """How much is not done, by state."""
        return dict(await self._rows.read(statements.NOT_DONE))
