"""Scheduled jobs and the times of the last heartbeats, in the ledger.

There, a job and the message that it becomes change in one transaction, and a terminal can read and change
jobs while the program runs.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from nacre.bridges.contracts.errors import BridgeError
from nacre.bridges.schedule.times import JobTimes, format_moment, next_heartbeat
from nacre.record import Record
from nacre.runtime.contracts.clock import Clock, NewId, epoch_ms, stored_moment
from nacre.runtime.contracts.inbound import Inbound, Quoted
from nacre.runtime.ledger.records import (
    HeartbeatRan,
    JobChanged,
    JobMoved,
    StoredJob,
    inbound_from_json,
    inbound_to_json,
)
from nacre.runtime.ledger.tables import LedgerTables
from nacre.runtime.settings.sections.channels import HeartbeatSettings

ID_CHARS = 8
MAX_JOBS = 100
"""How many jobs an agent may have."""


class TooManyJobs(BridgeError):
    """An agent already has the most jobs that it may have."""


class Job(Record):
    """A job that `asker`, a message without text, requested: for the same chat, with the same rights, of this
    agent.

    If the text may be other people's wish, it is also in `asker.quoted`, so that the model reads it as their
    words. `rule` is a cron expression, empty for a job that runs once. A job without `due` no longer
    runs; `problem` says why.
    """

    id: str
    agent_id: str
    asker: Inbound
    text: str
    rule: str
    due: datetime | None
    problem: str = ""


class Timetable:
    """The timetable in a ledger."""

    def __init__(self, tables: LedgerTables, *, now: Clock) -> None:
        self.tables = tables
        self._rows = tables.jobs
        self._now = now

    async def add(
        self, agent_id: str, asker: Inbound, text: str, times: JobTimes, new_id: NewId, *, said_by: str = ""
    ) -> Job:
        """Stores a job. `said_by` names other people whose wish the text may be.

        Raises:
            TooManyJobs: the agent has `MAX_JOBS`.
        """
        job_id, due_ms = new_id().replace("-", "")[-ID_CHARS:].lower(), epoch_ms(times.due)
        quoted = (Quoted(text=text, kind="quote", said_by=said_by),) if said_by else ()
        asker = replace(asker, text="", attachments=(), quoted=quoted)
        row = StoredJob(job_id, agent_id, inbound_to_json(asker), text, times.rule, due_ms)
        if not await self._rows.add(row, made_ms=epoch_ms(self._now()), most=MAX_JOBS):
            raise TooManyJobs(f"There are {MAX_JOBS} jobs already. Remove one first.")
        return Job(id=job_id, agent_id=agent_id, asker=asker, text=text, rule=times.rule, due=times.due)

    async def jobs(self, agent_id: str) -> tuple[Job, ...]:
        """The jobs of an agent, the next one due first."""
        return self._read(await self._rows.of_agent(agent_id))

    async def due(self) -> tuple[Job, ...]:
        """The jobs of all agents that are due now, the earliest first."""
        return self._read(await self._rows.due(epoch_ms(self._now())))

    async def recurring(self) -> tuple[Job, ...]:
        """The recurring jobs of all agents that are due later."""
        return self._read(await self._rows.recurring(epoch_ms(self._now())))

    async def next_due(self) -> datetime | None:
        """When the next job is due; `None` if there is none."""
        due_ms = await self._rows.next_due_ms()
        return None if due_ms is None else self._moment(due_ms)

    async def reschedule(self, job: Job, due: datetime | None, *, problem: str = "") -> None:
        """Sets when a job is due next, or why it is no longer due, unless it changed meanwhile."""
        try:
            await self._rows.move(rescheduled(job, due, problem=problem))
        except JobChanged:
            return

    async def last_heartbeat(self, agent_id: str) -> datetime:
        """The time of an agent's last heartbeat. An agent that never had one starts now."""
        return self._moment(await self._rows.last_beat_ms(agent_id, epoch_ms(self._now())))

    def heartbeat_done(self, agent_id: str, last: datetime) -> HeartbeatRan:
        """The row that records a heartbeat of an agent now, unless there was one since `last`."""
        return HeartbeatRan(agent_id=agent_id, at_ms=epoch_ms(self._now()), before_ms=epoch_ms(last))

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


def rescheduled(job: Job, due: datetime | None, *, problem: str = "") -> JobMoved:
    """The row that makes a job due at `due`. A job that ran once is removed.

    Writing it raises `JobChanged` if the job has changed since it was read.
    """
    return JobMoved(
        job_id=job.id,
        before_ms=None if job.due is None else epoch_ms(job.due),
        due_ms=None if due is None else epoch_ms(due),
        problem=problem,
    )


async def upcoming_lines(
    timetable: Timetable, agent_id: str, settings: HeartbeatSettings, now: datetime
) -> tuple[str, str]:
    """Two lines for people about an agent's next heartbeat and next job."""
    due = next_heartbeat(settings, await timetable.last_heartbeat(agent_id))
    if due is None:
        heartbeat = "off"
    elif not await timetable.tables.owner_chats(agent_id, target=settings.target):
        heartbeat = "when the owner has written in private"
    else:
        heartbeat = format_moment(max(due, now))
    jobs = [(job.id, job.due) for job in await timetable.jobs(agent_id) if job.due is not None]
    next_job = "⏰ Jobs: none"
    if jobs:
        more = f" · {len(jobs)} jobs" if len(jobs) > 1 else ""
        next_job = f"⏰ Next job: {jobs[0][0]}, {format_moment(jobs[0][1])}{more}"
    return f"💓 Next heartbeat: {heartbeat}", next_job
