"""What is to be done without being asked, in the ledger: jobs, and when each agent last had a heartbeat.

It lies there, so that a message and the job that made it change in one step, and a terminal
can look at it and change it beside the program.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from nacre.bridges.contracts.errors import BridgeError
from nacre.bridges.schedule.when import When
from nacre.record import Record
from nacre.runtime.contracts.clock import Clock, epoch_ms, stored_moment
from nacre.runtime.contracts.ids import NewId
from nacre.runtime.contracts.inbound import Inbound, Quoted
from nacre.runtime.ledger.ledger import LedgerTables
from nacre.runtime.ledger.records import (
    Beaten,
    JobChanged,
    JobMoved,
    StoredJob,
    inbound_from_json,
    inbound_to_json,
)

ID_CHARS = 8
MOST_JOBS = 100
"""So many an agent may have."""


class TooManyJobs(BridgeError):
    """An agent has as many jobs as it may have."""


class Job(Record):
    """What `asker`, a message without a text, asked to be done: there, by their rights, by this agent.

    Where the text may be the wish of others, it stands in `asker.quoted`, too, so that a model reads it as
    their words when the job is due. `rule` is a cron expression, empty for once. Without `due` it does not
    come any more, and `problem` says why.
    """

    id: str
    agent_id: str
    asker: Inbound
    text: str
    rule: str
    due: datetime | None
    problem: str = ""


class Timetable:
    """That of a ledger."""

    def __init__(self, tables: LedgerTables, *, now: Clock) -> None:
        self.tables = tables
        """Where it is kept."""
        self._rows = tables.jobs
        self._now = now

    async def add(
        self, agent_id: str, asker: Inbound, text: str, when: When, new_id: NewId, *, said_by: str = ""
    ) -> Job:
        """Keeps a job. `said_by` names others whose wish the text may be; it is empty for the asker's own.

        Raises:
            TooManyJobs: the agent has `MOST_JOBS`.
        """
        job_id, due_ms = new_id().replace("-", "")[-ID_CHARS:].lower(), epoch_ms(when.due)
        quoted = (Quoted(text=text, kind="quote", said_by=said_by),) if said_by else ()
        asker = replace(asker, text="", attachments=(), quoted=quoted)
        row = StoredJob(job_id, agent_id, inbound_to_json(asker), text, when.rule, due_ms)
        if not await self._rows.add(row, made_ms=epoch_ms(self._now()), most=MOST_JOBS):
            raise TooManyJobs(f"There are {MOST_JOBS} jobs already. Remove one first.")
        return Job(id=job_id, agent_id=agent_id, asker=asker, text=text, rule=when.rule, due=when.due)

    async def jobs(self, agent_id: str) -> tuple[Job, ...]:
        """The jobs of an agent, those that are due first in front."""
        return self._read(await self._rows.of_agent(agent_id))

    async def due(self) -> tuple[Job, ...]:
        """The jobs of all agents that are due now, in their order."""
        return self._read(await self._rows.due(epoch_ms(self._now())))

    async def recurring(self) -> tuple[Job, ...]:
        """The jobs of all agents that are due later, and again."""
        return self._read(await self._rows.recurring(epoch_ms(self._now())))

    async def next_due(self) -> datetime | None:
        """When the next job is due; `None` when none is."""
        due_ms = await self._rows.next_due_ms()
        return None if due_ms is None else self._moment(due_ms)

    async def remove(self, job_id: str) -> bool:
        """Removes a job; whether there was one."""
        return await self._rows.remove(job_id)

    async def put_off(self, job: Job, due: datetime | None, *, problem: str = "") -> None:
        """Sets when a job is due next, or why it is not any more; one that changed stays as it is."""
        try:
            await self._rows.move(moved(job, due, problem=problem))
        except JobChanged:
            return

    async def last_beat(self, agent_id: str) -> datetime:
        """When an agent last had a heartbeat; they begin now where it never had one."""
        return self._moment(await self._rows.last_beat_ms(agent_id, epoch_ms(self._now())))

    def beaten(self, agent_id: str) -> Beaten:
        """What is written when an agent has a heartbeat now."""
        return Beaten(agent_id=agent_id, at_ms=epoch_ms(self._now()))

    def _read(self, rows: tuple[StoredJob, ...]) -> tuple[Job, ...]:
        return tuple(
            Job(
                id=row.job_id,
                agent_id=row.agent_id,
                asker=inbound_from_json(row.asker),
                text=row.text,
                rule=row.rule,
                due=None if row.due_ms is None else self._moment(row.due_ms),
                problem=row.problem,
            )
            for row in rows
        )

    def _moment(self, at_ms: int) -> datetime:
        return stored_moment(at_ms, self._now().tzinfo) or self._now()


def moved(job: Job, due: datetime | None, *, problem: str = "") -> JobMoved:
    """What is written when a job is due next at `due`; one that came once and is done is gone.

    Whoever writes it gets `JobChanged` where the job is not as it was read.
    """
    return JobMoved(
        job_id=job.id,
        before_ms=None if job.due is None else epoch_ms(job.due),
        due_ms=None if due is None else epoch_ms(due),
        problem=problem,
    )
