"""The tool `schedule`: the model creates, lists and removes jobs of its chat.

A job belongs to the chat in which it was requested. Its answer goes there and nowhere else, it sees what that
chat sees, and it has the rights of who requested it, so nothing private can be scheduled into a group. If the
model had read other people's words, the job is stored as theirs and comes back as a quote.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from nacre.bridges.contracts.bridge import place_of
from nacre.bridges.schedule.times import InvalidTime, format_moment, parse_times
from nacre.bridges.schedule.timetable import Job, Timetable, TooManyJobs
from nacre.runtime.contracts.clock import Clock, NewId
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.tools.function import FunctionTool, ToolContext, tool
from nacre.runtime.tools.session_sources import FOREIGN_MARK
from nacre.runtime.tools.toolbox import ToolFailed

CurrentMessage: TypeAlias = Callable[[str], Inbound | None]
"""The message that is being answered in a session."""

_DESCRIPTION = (
    "Creates, lists and removes scheduled jobs and reminders of this chat. When a job is due, you receive "
    "its text as a message in this chat, and your answer is sent here. Put everything that you will need "
    "into the text, and for whom it is."
)


class ScheduleTools:
    """The `schedule` tools of several agents. They wait until `open` is called with the open gateway's
    parts.
    """

    def __init__(self, *, now: Clock, new_id: NewId) -> None:
        self._now = now
        self._new_id = new_id
        self._is_open = asyncio.Event()
        self._timetable: Timetable | None = None
        self._current_message: CurrentMessage = lambda _key: None

    def open(self, timetable: Timetable, current_message: CurrentMessage) -> None:
        """Lets the tools run from now on."""
        self._timetable, self._current_message = timetable, current_message
        self._is_open.set()

    def tool(self, agent_id: str) -> FunctionTool[..., Any]:
        @tool(name="schedule", description=_DESCRIPTION, chats=("private", "group"))
        async def schedule(
            context: ToolContext,
            action: Literal["add", "list", "remove"],
            text: Annotated[str, Field(description="what to do or say when the job is due; for add")] = "",
            cron: Annotated[
                str,
                Field(description="for a recurring job: five fields, such as '0 9 * * MON-FRI'"),
            ] = "",
            at: Annotated[
                str,
                Field(
                    description="to run once: '2026-11-23T09:00' in the owner's time zone, or '20m', '1h30m'"
                ),
            ] = "",
            job_id: Annotated[str, Field(description="which job; for remove")] = "",
        ) -> str:
            await self._is_open.wait()
            asker = self._current_message(context.chat.session_key)
            if asker is None or self._timetable is None:
                raise ToolFailed("Jobs can be created only in a chat, and this is not a chat.")
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
            jobs = _ChatJobs(self._timetable, agent_id, asker, is_private=context.chat.policy.is_private)
            if action == "list":
                return await jobs.list()
            if asker.is_owner is not True:
                raise ToolFailed("Only the owner may create and remove jobs. Tell whoever asked.")
            if action == "remove":
                return await jobs.remove(job_id)
            # In a group nothing counts as the owner's word anyway.
            sources = context.chat.sources if context.chat.policy.is_private else None
            said_by = await sources.other_authors(text) if sources is not None else ""
            return await jobs.add(text, cron, at, said_by, now=self._now, new_id=self._new_id)

        return schedule


class _ChatJobs:
    """The jobs of an agent that a chat may see and change: its own, or all in the owner's private chat."""

    def __init__(self, timetable: Timetable, agent_id: str, asker: Inbound, *, is_private: bool) -> None:
        self._timetable = timetable
        self._agent_id = agent_id
        self._asker = asker
        self._is_private = is_private

    async def add(self, text: str, cron: str, at: str, said_by: str, *, now: Clock, new_id: NewId) -> str:
        if not text.strip():
            raise ToolFailed("The text is empty. Write what to do when the job is due.")
        try:
            times = parse_times(cron=cron, at=at, now=now())
            job = await self._timetable.add(
                self._agent_id, self._asker, text.strip(), times, new_id, said_by=said_by
            )
        except (InvalidTime, TooManyJobs) as error:
            raise ToolFailed(str(error)) from error
        return f"Scheduled as {job_line(job)}"

    async def list(self) -> str:
        lines = [job_line(job) for job in await self._visible()]
        return "\n".join(lines) or "There are no jobs."

    async def remove(self, job_id: str) -> str:
        wanted = job_id.strip().lower()
        for job in await self._visible():
            if job.id == wanted and await self._timetable.tables.jobs.remove(job.id):
                return f"Removed: {job_line(job)}"
        raise ToolFailed(f"There is no job {job_id!r} in this chat. List the jobs to see their ids.")

    async def _visible(self) -> tuple[Job, ...]:
        jobs = await self._timetable.jobs(self._agent_id)
        here = place_of(self._asker)
        return tuple(job for job in jobs if self._is_private or place_of(job.asker) == here)


def job_line(job: Job) -> str:
    """A job in one line. It says if the text may be other people's wish, as always in a group."""
    when = format_moment(job.due) if job.due is not None else "never"
    rule = f" ({job.rule})" if job.rule else ""
    problem = f" [{job.problem}]" if job.problem else ""
    names = ", ".join(quote.said_by for quote in job.asker.quoted)
    is_others = names or job.asker.chat_kind != "direct"
    mark = f" [{f'words of {names}; ' if names else ''}{FOREIGN_MARK}]" if is_others else ""
    asker = job.asker
    where = f"in the {asker.chat_kind} chat {asker.chat_name or asker.chat_id} of {asker.channel}"
    return f"{job.id}: {when}{rule}, {where}: {' '.join(job.text.split())}{mark}{problem}"
