"""The command `nacre admin schedule`: reminders and recurring jobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nacre.cli.invocation import begin, json_option, shared_options, with_ledger
from nacre.cli.nouns import Listing
from nacre.cli.screen.json_text import print_json

if TYPE_CHECKING:
    from nacre.bridges.schedule.timetable import Job, Timetable
    from nacre.cli.invocation import Invocation

T = TypeVar("T")


@click.group("schedule", cls=Listing, noun="admin schedule")
@json_option("Print a JSON array.")
@shared_options
def command(context: click.Context, as_json: bool) -> int:
    """List, create and remove scheduled jobs.

    `nacre serve` runs them.
    """
    from nacre.bridges.schedule.schedule_tool import job_line
    from nacre.cli.screen.plain import one_line

    invocation = begin(context)
    jobs = _with_timetable(invocation, lambda timetable: timetable.jobs(invocation.config.agent_id))
    if as_json:
        return print_json([_json(job) for job in jobs])
    invocation.say(*(one_line(job_line(job)) for job in jobs) if jobs else ("There are no jobs.",))
    return 0


@command.command("add")
@click.argument("text")
@click.option("--cron", default="", metavar="FIELDS", help="Run again at these times: '0 9 * * MON-FRI'.")
@click.option("--at", default="", metavar="TIME", help="Run once: at 2026-12-01T18:00, or after 20m.")
@click.option(
    "--channel", default="last", metavar="NAME", help="Channel of the private chat; default: the last."
)
@json_option("Print the job as a JSON object.")
@shared_options
def add(context: click.Context, text: str, cron: str, at: str, channel: str, as_json: bool) -> int:
    """Have the assistant do TEXT at a time, and report in your private chat."""
    from nacre.bridges.schedule.schedule_tool import job_line
    from nacre.bridges.schedule.times import InvalidTime, parse_times
    from nacre.bridges.schedule.timetable import TooManyJobs
    from nacre.runtime.contracts.clock import owner_zone, random_id, system_clock

    invocation = begin(context)
    zone = owner_zone(invocation.config.settings.agent.user_timezone or None)
    try:
        when = parse_times(cron=cron, at=at, now=system_clock(zone)())
    except InvalidTime as error:
        raise click.UsageError(str(error)) from error
    agent_id = invocation.config.agent_id

    async def added(timetable: Timetable) -> Job | None:
        chats = await timetable.tables.owner_chats(agent_id, target=channel)
        return await timetable.add(agent_id, chats[0], text.strip(), when, random_id) if chats else None

    try:
        job = _with_timetable(invocation, added)
    except TooManyJobs as error:
        raise click.ClickException(str(error)) from error
    if job is None:
        where = "in a chat of `nacre serve`" if channel == "last" else f"on {channel}"
        invocation.warn(
            f"The assistant {agent_id} does not know your private chat. Write to it in private {where} once.",
            tone="error",
        )
        return 1
    if as_json:
        return print_json(_json(job))
    invocation.say(f"Scheduled as {job_line(job)}")
    return 0


@command.command("remove")
@click.argument("job_id", metavar="ID")
@json_option("Print a JSON object.")
@shared_options
def remove(context: click.Context, job_id: str, as_json: bool) -> int:
    """Remove the job ID."""
    invocation = begin(context)
    if not _with_timetable(
        invocation, lambda timetable: timetable.tables.jobs.remove(job_id.strip().lower())
    ):
        invocation.warn(f"There is no job {job_id!r}. `nacre admin schedule` lists them.", tone="error")
        return 1
    if as_json:
        return print_json({"removed": job_id.strip().lower()})
    invocation.say(f"Removed: {job_id}.")
    return 0


def _with_timetable(invocation: Invocation, work: Callable[[Timetable], Awaitable[T]]) -> T:
    from nacre.bridges.schedule.timetable import Timetable

    return with_ledger(invocation, lambda tables, now: work(Timetable(tables, now=now)))


def _json(job: Job) -> dict[str, Any]:
    return {
        "id": job.id,
        "text": job.text,
        "cron": job.rule or None,
        "due": job.due.isoformat() if job.due is not None else None,
        "channel": job.asker.channel,
        "accountId": job.asker.account,
        "chatId": job.asker.chat_id,
        "chatKind": job.asker.chat_kind,
        "problem": job.problem or None,
    }
