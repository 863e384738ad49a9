"""The tool `schedule`: the model makes, lists and removes jobs of the chat that it is in.

A job belongs to the chat in which it was asked for: its words go there and nowhere else, it sees what that
chat sees, and runs by the rights of who asked. So nothing that is private can be scheduled into a group.
Where words of others were heard, the job is kept as theirs, and comes back as a quote.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field

from nacre.bridges.schedule.timetable import Job, Timetable, TooManyJobs
from nacre.bridges.schedule.when import WhenUnreadable, read_when, shown
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.ids import NewId
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.tools.function import FunctionTool, ToolContext, tool
from nacre.runtime.tools.session_sources import FOREIGN_MARK
from nacre.runtime.tools.toolbox import ToolFailed

Speaking = Callable[[str], Inbound | None]
"""The message that is being answered in a session."""

_DESCRIPTION = (
    "Makes, lists and removes scheduled jobs and reminders of this chat. When a job is due, its text is "
    "given to you as a message, in this chat, and your answer is sent here. Say in the text all that is "
    "needed then, and for whom it is."
)


class ScheduleDesk:
    """Where the tools of several agents are made before their gateway is open, which `opened` hands in."""

    def __init__(self, *, now: Clock, new_id: NewId) -> None:
        self._now = now
        self._new_id = new_id
        self._is_open = asyncio.Event()
        self._timetable: Timetable | None = None
        self._speaking: Speaking = lambda _key: None

    def opened(self, timetable: Timetable, speaking: Speaking) -> None:
        """Begins to serve."""
        self._timetable, self._speaking = timetable, speaking
        self._is_open.set()

    def tool(self, agent_id: str) -> FunctionTool[..., Any]:
        """The tool of one agent."""

        @tool(name="schedule", description=_DESCRIPTION, chats=("private", "group"))
        async def schedule(
            context: ToolContext,
            action: Literal["add", "list", "remove"],
            text: Annotated[str, Field(description="what is to be done or said then; for add")] = "",
            cron: Annotated[
                str,
                Field(description="for a job that comes again: five fields, such as '0 9 * * MON-FRI'"),
            ] = "",
            at: Annotated[
                str,
                Field(description="for once: '2026-11-23T09:00' in the owner's time zone, or '20m', '1h30m'"),
            ] = "",
            job_id: Annotated[str, Field(description="which job; for remove")] = "",
        ) -> str:
            await self._is_open.wait()
            asker = self._speaking(context.chat.session_key)
            if asker is None or self._timetable is None:
                raise ToolFailed("Jobs can be made in a chat alone, and this is none.")
            asker = replace(
                asker,
                text="",
                attachments=(),
                quoted=(),
                message_id="",
                trigger="",
                redelivered=False,
                joined_by=(),
            )
            desk = _Desk(self._timetable, agent_id, asker, is_private=context.chat.policy.is_private)
            if action == "list":
                return await desk.listed()
            if asker.is_owner is not True:
                raise ToolFailed("Only the owner may make and remove jobs. Tell whoever asked.")
            if action == "remove":
                return await desk.remove(job_id)
            # In a group nothing counts as the owner's word anyway.
            sources = context.chat.sources if context.chat.policy.is_private else None
            said_by = await sources.other_authors(text) if sources is not None else ""
            return await desk.add(text, cron, at, said_by, now=self._now, new_id=self._new_id)

        return schedule


class _Desk:
    """The jobs of one agent, as one chat may see and change them: the owner in private has all of them."""

    def __init__(self, timetable: Timetable, agent_id: str, asker: Inbound, *, is_private: bool) -> None:
        self._timetable = timetable
        self._agent_id = agent_id
        self._asker = asker
        self._is_private = is_private

    async def add(self, text: str, cron: str, at: str, said_by: str, *, now: Clock, new_id: NewId) -> str:
        if not text.strip():
            raise ToolFailed("Say in text what is to be done.")
        try:
            when = read_when(cron=cron, at=at, now=now())
            job = await self._timetable.add(
                self._agent_id, self._asker, text.strip(), when, new_id, said_by=said_by
            )
        except (WhenUnreadable, TooManyJobs) as error:
            raise ToolFailed(str(error)) from error
        return f"Scheduled as {job_line(job)}"

    async def listed(self) -> str:
        lines = [job_line(job) for job in await self._seen()]
        return "\n".join(lines) or "There are no jobs."

    async def remove(self, job_id: str) -> str:
        wanted = job_id.strip().lower()
        for job in await self._seen():
            if job.id == wanted and await self._timetable.remove(job.id):
                return f"Removed: {job_line(job)}"
        raise ToolFailed(f"There is no job {job_id!r} here. List them to see which there are.")

    async def _seen(self) -> list[Job]:
        jobs = await self._timetable.jobs(self._agent_id)
        return [job for job in jobs if self._is_private or _place(job.asker) == _place(self._asker)]


def job_line(job: Job) -> str:
    """A job in one line, which says where the text may be the wish of others: in a group it always may."""
    when = shown(job.due) if job.due is not None else "never"
    rule = f" ({job.rule})" if job.rule else ""
    problem = f" [{job.problem}]" if job.problem else ""
    names = ", ".join(quote.said_by for quote in job.asker.quoted)
    is_others = names or job.asker.chat_kind != "direct"
    mark = f" [{f'words of {names}; ' if names else ''}{FOREIGN_MARK}]" if is_others else ""
    return f"{job.id}: {when}{rule}, {_where(job.asker)}: {' '.join(job.text.split())}{mark}{problem}"


def _where(asker: Inbound) -> str:
    name = asker.chat_name or asker.chat_id
    return f"in the {asker.chat_kind} chat {name} of {asker.channel}"


def _place(asker: Inbound) -> tuple[str, ...]:
    return asker.channel, asker.account, asker.chat_id, asker.thread_id
