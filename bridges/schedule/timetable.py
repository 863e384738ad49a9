"""What is to be done without being asked, on disk: jobs, and when each agent last had a heartbeat.

It lies in the ledger's file, so that a message and the job that made it change in one step, and a terminal
can look at it and change it beside the program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from nacre.bridges.contracts.errors import BridgeError
from nacre.bridges.ledger.database import Connection, Database, open_database
from nacre.bridges.ledger.schema import MIGRATIONS
from nacre.bridges.ledger.stored_inbound import asker_to_json, inbound_from_json
from nacre.bridges.schedule.when import When
from nacre.runtime.contracts.clock import Clock, epoch_ms, stored_moment
from nacre.runtime.contracts.ids import NewId
from nacre.runtime.contracts.inbound import Inbound

ID_CHARS = 8
MOST_JOBS = 100
"""So many an agent may have."""


class TooManyJobs(BridgeError):
    """An agent has as many jobs as it may have."""


class JobChanged(BridgeError):
    """A job was removed or changed while it was looked at; it is looked at again."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What `asker`, a message without words, asked to be done: there, by their rights, by this agent.

    `rule` is a cron expression, empty for once. Without `due` it does not come any more, and `problem` says
    why.
    """

    id: str
    agent_id: str
    asker: Inbound
    text: str
    rule: str
    due: datetime | None
    problem: str = ""


class Timetable:
    """That of a state folder."""

    def __init__(self, database: Database, *, now: Clock) -> None:
        self._database = database
        self._now = now

    @classmethod
    def open(cls, path: Path, *, now: Clock) -> Self:
        """That of a ledger's file, for a terminal. Close it with `close`. Raises `LedgerUnusable`."""
        return cls(open_database(path, MIGRATIONS, now=now())[0], now=now)

    @property
    def database(self) -> Database:
        """The file."""
        return self._database

    async def close(self) -> None:
        """Closes a file that `open` opened."""
        await self._database.close()

    async def add(self, agent_id: str, asker: Inbound, text: str, when: When, new_id: NewId) -> Job:
        """Puts a job on disk.

        Raises:
            TooManyJobs: the agent has `MOST_JOBS`.
        """
        job_id = new_id().replace("-", "")[-ID_CHARS:].lower()
        row = (job_id, agent_id, asker_to_json(asker), text, when.rule, epoch_ms(self._now()))

        def work(db: Connection) -> None:
            if db.execute("SELECT count(*) FROM jobs WHERE agent = ?", (agent_id,)).get >= MOST_JOBS:
                raise TooManyJobs(f"There are {MOST_JOBS} jobs already. Remove one first.")
            db.execute(
                "INSERT INTO jobs (id, agent, asker, text, rule, made_ms, due_ms) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (*row, epoch_ms(when.due)),
            )

        await self._database.write(work)
        return Job(id=job_id, agent_id=agent_id, asker=asker, text=text, rule=when.rule, due=when.due)

    async def jobs(self, agent_id: str) -> tuple[Job, ...]:
        """The jobs of an agent, those that are due first in front."""
        return await self._found("WHERE agent = ? ORDER BY due_ms IS NULL, due_ms, made_ms", agent_id)

    async def due(self) -> tuple[Job, ...]:
        """The jobs of all agents that are due now, in their order."""
        return await self._found("WHERE due_ms <= ? ORDER BY due_ms, made_ms", epoch_ms(self._now()))

    async def recurring(self) -> tuple[Job, ...]:
        """The jobs of all agents that are due later, and again."""
        return await self._found("WHERE due_ms > ? AND rule <> ''", epoch_ms(self._now()))

    async def next_due(self) -> datetime | None:
        """When the next job is due; `None` when none is."""
        due_ms: Any = await self._database.write(lambda db: db.execute("SELECT min(due_ms) FROM jobs").get)
        return None if due_ms is None else self._moment(due_ms)

    async def remove(self, job_id: str) -> bool:
        """Removes a job; whether there was one."""
        delete = "DELETE FROM jobs WHERE id = ? RETURNING 1"
        return bool(await self._database.write(lambda db: db.execute(delete, (job_id,)).fetchall()))

    async def put_off(self, job: Job, due: datetime | None, *, problem: str = "") -> None:
        """Sets when a job is due next, or why it is not any more; one that changed stays as it is."""
        try:
            await self._database.write(moved(job, due, problem=problem))
        except JobChanged:
            return

    async def last_beat(self, agent_id: str) -> datetime:
        """When an agent last had a heartbeat; they begin now where it never had one."""
        now_ms = epoch_ms(self._now())

        def work(db: Connection) -> int:
            db.execute("INSERT OR IGNORE INTO heartbeats VALUES (?, ?)", (agent_id, now_ms))
            return int(db.execute("SELECT at_ms FROM heartbeats WHERE agent = ?", (agent_id,)).get)

        return self._moment(await self._database.write(work))

    def beaten(self, agent_id: str) -> Callable[[Connection], None]:
        """Notes, within a transaction, that an agent has a heartbeat now."""
        row = (agent_id, epoch_ms(self._now()))
        return lambda db: _only(db, "INSERT OR REPLACE INTO heartbeats VALUES (?, ?)", row)

    async def _found(self, behind: str, value: str | int) -> tuple[Job, ...]:
        query = f"SELECT id, agent, asker, text, rule, due_ms, problem FROM jobs {behind}"
        rows: list[Any] = await self._database.write(lambda db: db.execute(query, (value,)).fetchall())
        return tuple(
            Job(
                id=job_id,
                agent_id=agent_id,
                asker=inbound_from_json(asker),
                text=text,
                rule=rule,
                due=None if due_ms is None else self._moment(due_ms),
                problem=problem,
            )
            for job_id, agent_id, asker, text, rule, due_ms, problem in rows
        )

    def _moment(self, at_ms: int) -> datetime:
        return stored_moment(at_ms, self._now().tzinfo) or self._now()


def moved(job: Job, due: datetime | None, *, problem: str = "") -> Callable[[Connection], None]:
    """Sets, within a transaction, when a job is due next; one that came once and is done is gone.

    What it gives raises `JobChanged` where the job is not as it was read.
    """
    before_ms = None if job.due is None else epoch_ms(job.due)

    def work(db: Connection) -> None:
        if due is None and not problem:
            db.execute("DELETE FROM jobs WHERE id = ? AND due_ms IS ?", (job.id, before_ms))
        else:
            row = (None if due is None else epoch_ms(due), problem, job.id, before_ms)
            db.execute("UPDATE jobs SET due_ms = ?, problem = ? WHERE id = ? AND due_ms IS ?", row)
        if not db.changes():
            raise JobChanged(f"The job {job.id} was changed meanwhile.")

    return work


def _only(db: Connection, statement: str, row: tuple[Any, ...]) -> None:
    db.execute(statement, row)
