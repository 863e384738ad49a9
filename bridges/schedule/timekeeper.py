"""Does what is due: scheduled jobs, and heartbeats.

A job that is due becomes a message of the ledger in the transaction that moves the job on. So a kill at any
point leaves it either due or taken, and what is taken is answered once, as every message is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Literal, Protocol, TypeAlias

from nacre.bridges.delivery.throttle import Sleep
from nacre.bridges.schedule.beats import is_active, next_beat
from nacre.bridges.schedule.cron import CronUnreadable, next_run, runs_until
from nacre.bridges.schedule.timetable import Job, Timetable, moved
from nacre.bridges.schedule.when import shown
from nacre.runtime.agent.agent import Agent
from nacre.runtime.contracts.clock import Clock, epoch_ms
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.ledger.ledger import owner_chats
from nacre.runtime.ledger.records import Along, JobChanged

log = logging.getLogger(__name__)

LOOK_SECONDS = 20.0
"""How often it looks at least: a terminal may have added a job, and a machine that slept skips no time."""
LATE_SECONDS = 300.0
"""What is later than this was missed."""
SHOWN_CHARS = 160

Reach: TypeAlias = Literal["open", "away", "refused"]
"""Whether somebody can be told something: yes, not while their bridge is not here, not with these rights."""


class Chats(Protocol):
    """What a timekeeper needs of a gateway."""

    async def reach(self, asker: Inbound, agent_id: str) -> Reach:
        """Whether `asker` can be told something now, by this agent and with the rights that they had."""
        ...

    async def submit(self, inbound: Inbound, agent_id: str, *, along: Along) -> None:
        """Has a message answered that no bridge brought, and writes `along` with it."""
        ...

    async def tell(self, asker: Inbound, text: str, *, along: Along) -> None:
        """Tells `asker` a text that no model wrote, and writes `along` with it."""
        ...

    def is_busy_in(self, inbound: Inbound, agent_id: str) -> bool:
        """Whether a turn runs, or messages wait, in the session of a message."""
        ...


class Timekeeper:
    """That of one gateway, for its agents."""

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
        """Looks from now on, again and again."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Looks no more. What is due stays due."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def realign(self) -> None:
        """Reckons anew when recurring jobs are due: the owner may live in another zone since."""
        now = self._now()
        for job in await self._timetable.recurring():
            due = _following(job, now)
            if due is not None and job.due is not None and epoch_ms(due) != epoch_ms(job.due):
                await self._timetable.put_off(job, due)

    async def look(self) -> None:
        """Does what is due now."""
        for job in await self._timetable.due():
            try:
                await self._do(job)
            except JobChanged:
                log.info("the job %s was changed while it was due", job.id)
        for agent in self._agents:
            await self._beat(agent)

    async def _run(self) -> None:
        is_aligned = False
        while True:
            wait_seconds = LOOK_SECONDS
            try:
                if not is_aligned:
                    await self.realign()
                    is_aligned = True
                await self.look()
                due = await self._timetable.next_due()
                if due is not None and due > self._now():
                    wait_seconds = min(wait_seconds, (due - self._now()).total_seconds())
            except Exception:
                # What is due stays due, and the program has other things to do than to end over it.
                log.exception("what is due could not be looked at; it is tried again")
            await self._sleep(wait_seconds)

    async def _do(self, job: Job) -> None:
        now, due = self._now(), job.due
        assert due is not None, "it is due"
        reach = await self._chats.reach(job.asker, job.agent_id)
        if reach == "away":
            return  # it is late when the bridge is back
        is_late = (now - due).total_seconds() > LATE_SECONDS
        following = _following(job, now if is_late else due)
        if reach == "refused":
            problem = f"not done on {shown(due)}: whoever asked for it may not any more, or its agent is gone"
            log.warning("the job %s was %s", job.id, problem)
            await self._timetable.put_off(job, following, problem=problem)
            return
        if is_late and job.rule:
            count = runs_until(job.rule, due, now)
            text = _missed_text(job, due, count, following)
            await self._chats.tell(job.asker, text, along=moved(job, following))
            return
        head = f"[Job {job.id}, due {shown(due)}{_LATE if is_late else ''}]"
        text = head if job.asker.quoted else f"{head}\n{job.text}"
        message_id = f"job-{job.id}-{epoch_ms(due)}"
        inbound = replace(job.asker, text=text, message_id=message_id, trigger="schedule")
        await self._chats.submit(inbound, job.agent_id, along=moved(job, following))

    async def _beat(self, agent: Agent) -> None:
        """The heartbeat of an agent, where it is due and its owner's chat idle."""
        settings, now = agent.settings.agent.heartbeat, self._now()
        if not settings.every_seconds:
            return
        due = next_beat(settings, await self._timetable.last_beat(agent.id))
        if due is None or due.astimezone(UTC) > now.astimezone(UTC):
            return
        if not is_active(settings.active_hours, now):
            return
        for chat in await owner_chats(self._timetable.tables, agent.id, target=settings.target):
            if await self._chats.reach(chat, agent.id) != "open":
                continue
            if not self._chats.is_busy_in(chat, agent.id):
                inbound = replace(chat, message_id=f"heartbeat-{epoch_ms(now)}", trigger="heartbeat")
                await self._chats.submit(inbound, agent.id, along=self._timetable.beaten(agent.id))
            return


_LATE = ", late: the program was not running then"


def _following(job: Job, after: datetime) -> datetime | None:
    """When a job is due behind `after`; `None` for one that comes once."""
    try:
        return next_run(job.rule, after) if job.rule else None
    except CronUnreadable:
        return None  # it named a day of a calendar that is over


def _missed_text(job: Job, due: datetime, count: int, following: datetime | None) -> str:
    """What is told of runs that nobody was there for."""
    words = " ".join(job.text.split())
    words = words if len(words) <= SHOWN_CHARS else f"{words[: SHOWN_CHARS - 1].rstrip()}…"
    times = f"on {shown(due)}" if count == 1 else f"{count} times since {shown(due)}"
    again = f" It comes again on {shown(following)}." if following is not None else ""
    return f"⏰ While I was not running, this job was due {times} and was not done: “{words}”.{again}"
