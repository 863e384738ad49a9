"""Runs what is due: scheduled jobs and heartbeats.

A due job becomes a message in the ledger in the same transaction that reschedules the job. A kill therefore
leaves the job either due or taken, and a taken job is answered once, like any message.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Literal, Protocol, TypeAlias

from nacre.bridges.schedule.times import (
    InvalidCron,
    count_runs,
    format_moment,
    is_active,
    next_heartbeat,
    next_run,
)
from nacre.bridges.schedule.timetable import Job, Timetable, rescheduled
from nacre.closing import stop_tasks
from nacre.runtime.agent.agent import Agent
from nacre.runtime.commands.wording import shortened
from nacre.runtime.contracts.clock import Clock, Sleep, epoch_ms
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.ledger.records import Along, JobChanged

log = logging.getLogger(__name__)

CHECK_SECONDS = 20.0
"""The longest time between checks: a terminal may add a job, and a machine may sleep."""
LATE_SECONDS = 300.0
"""A job that is later than this was missed."""
SHOWN_CHARS = 160
_LATE = ", late: the program was not running then"

Reach: TypeAlias = Literal["open", "away", "elsewhere", "refused"]
"""Whether a chat can be written to: yes, not while its bridge is missing, by another program that runs the
bridge, or not with the sender's rights."""


class Chats(Protocol):
    """The methods of `Gateway` that a timekeeper calls."""

    async def reach(self, asker: Inbound, agent_id: str) -> Reach: ...
    async def submit(self, inbound: Inbound, agent_id: str, *, along: Along) -> None: ...
    async def tell(self, asker: Inbound, text: str, *, along: Along) -> None: ...
    def is_busy_in(self, inbound: Inbound, agent_id: str) -> bool: ...


class Timekeeper:
    """Runs the jobs and heartbeats of a gateway's agents."""

    def __init__(
        self, chats: Chats, timetable: Timetable, agents: Iterable[Agent], *, now: Clock, sleep: Sleep
    ) -> None:
        self._chats = chats
        self._timetable = timetable
        self._agents = tuple(agents)
        self._now = now
        self._sleep = sleep
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts to run what is due, now and from now on."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stops. Due jobs stay due."""
        await stop_tasks(self._task)

    async def realign(self) -> None:
        """Recomputes when recurring jobs are due, because the owner's time zone may have changed."""
        now = self._now()
        for job in await self._timetable.recurring():
            due = _following(job, now)
            if due is not None and job.due is not None and epoch_ms(due) != epoch_ms(job.due):
                await self._timetable.reschedule(job, due)

    async def run_due(self) -> None:
        """Runs the jobs and heartbeats that are due now."""
        for job in await self._timetable.due():
            try:
                await self._run_job(job)
            except JobChanged:
                log.info("the job %s was changed while it was due", job.id)
        for agent in self._agents:
            try:
                await self._run_heartbeat(agent)
            except JobChanged as error:
                log.info("%s", error)

    async def _run(self) -> None:
        is_aligned = False
        while True:
            wait_seconds = CHECK_SECONDS
            try:
                if not is_aligned:
                    await self.realign()
                    is_aligned = True
                await self.run_due()
                due = await self._timetable.next_due()
                if due is not None and (ahead_ms := epoch_ms(due) - epoch_ms(self._now())) > 0:
                    wait_seconds = min(wait_seconds, ahead_ms / 1000)
            except Exception:
                log.exception("due jobs could not be run; the next attempt is in %g s", wait_seconds)
            await self._sleep(wait_seconds)

    async def _run_job(self, job: Job) -> None:
        now, due = self._now(), job.due
        assert due is not None, "it is due"
        reach = await self._chats.reach(job.asker, job.agent_id)
        if reach in ("away", "elsewhere"):
            return  # it runs, late, when the bridge is back; or the other program runs it
        is_late = epoch_ms(now) - epoch_ms(due) > LATE_SECONDS * 1000
        following = _following(job, now if is_late else due)
        if reach == "refused":
            problem = (
                f"not run on {format_moment(due)}: its creator no longer has the right to, "
                "or its agent no longer exists"
            )
            log.warning("the job %s was %s", job.id, problem)
            await self._timetable.reschedule(job, following, problem=problem)
            return
        if is_late and job.rule:
            text, count = shortened(job.text, SHOWN_CHARS), count_runs(job.rule, due, now)
            times = f"on {format_moment(due)}" if count == 1 else f"{count} times since {format_moment(due)}"
            again = f" The next run is on {format_moment(following)}." if following is not None else ""
            text = f"⏰ While I was not running, this job was due {times} and was not run: “{text}”.{again}"
            await self._chats.tell(job.asker, text, along=rescheduled(job, following))
            return
        head = f"[Job {job.id}, due {format_moment(due)}{_LATE if is_late else ''}]"
        text = head if job.asker.quoted else f"{head}\n{job.text}"
        message_id = f"job-{job.id}-{epoch_ms(due)}"
        inbound = replace(job.asker, text=text, message_id=message_id, trigger="schedule")
        await self._chats.submit(inbound, job.agent_id, along=rescheduled(job, following))

    async def _run_heartbeat(self, agent: Agent) -> None:
        """Runs an agent's heartbeat if it is due and the owner's chat is idle."""
        settings, now = agent.settings.agent.heartbeat, self._now()
        if not settings.every_seconds:
            return
        last = await self._timetable.last_heartbeat(agent.id)
        # If the clock was set back, the agent must not be silent until the old time.
        is_ahead = epoch_ms(last) - epoch_ms(now) > settings.every_seconds * 1000
        due = now if is_ahead else next_heartbeat(settings, last)
        if due is None or due.astimezone(UTC) > now.astimezone(UTC):
            return
        if not is_active(settings.active_hours, now):
            return
        for chat in await self._timetable.tables.owner_chats(agent.id, target=settings.target):
            reach = await self._chats.reach(chat, agent.id)
            if reach in ("away", "refused"):
                continue
            if reach == "open" and not self._chats.is_busy_in(chat, agent.id):
                inbound = replace(chat, message_id=f"heartbeat-{epoch_ms(now)}", trigger="heartbeat")
                done = self._timetable.heartbeat_done(agent.id, last)
                await self._chats.submit(inbound, agent.id, along=done)
            return


def _following(job: Job, after: datetime) -> datetime | None:
    try:
        return next_run(job.rule, after) if job.rule else None
    except InvalidCron:
        return None  # its last possible day has passed
