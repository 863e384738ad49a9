"""When jobs and heartbeats are due: cron expressions, times, spans and active hours.

Cron expressions have five fields and use the clock of the owner's time zone. A time that the zone skips in
spring is the moment of the change. Of a time that occurs twice in autumn the first counts, but a `*` in the
hour matches both.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta

from nacre.record import Record
from nacre.runtime.settings.sections.channels import ActiveHours, HeartbeatSettings

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SPAN = re.compile(r"(?:in\s+)?((?:\d+\s*[mhdw]\s*)+)", re.IGNORECASE)
_PIECE = re.compile(r"(\d+)\s*([mhdw])", re.IGNORECASE)
AT_USAGE = "Write a time in the owner's time zone such as 2026-11-23T09:00, or a span such as 20m or 1h30m."
CRON_FIELDS = 5
_DAY_MINUTES = 24 * 60


class InvalidCron(ValueError):
    """An expression is not a cron expression, or it never matches. The text says which."""


class InvalidTime(ValueError):
    """The time of a job is invalid or past. The text says how to write it."""


class JobTimes(Record):
    """When a job is due next, and its cron expression; that is empty if the job runs once."""

    due: datetime
    rule: str = ""


def parse_times(*, cron: str = "", at: str = "", now: datetime) -> JobTimes:
    """The times of a job: a cron expression, or a time or a span from `now` for a job that runs once.

    `now` is in the owner's time zone.

    Raises:
        InvalidTime: not exactly one of both is given, or it is invalid or past.
    """
    if bool(cron.strip()) == bool(at.strip()):
        raise InvalidTime("Give either cron, for a recurring job, or at, for a job that runs once.")
    if cron.strip():
        rule = " ".join(cron.split()).upper()
        try:
            return JobTimes(due=next_run(rule, now), rule=rule)
        except InvalidCron as error:
            raise InvalidTime(str(error)) from error
    due = _parse_moment(at.strip(), now)
    if due.astimezone(UTC) <= now.astimezone(UTC):
        raise InvalidTime(f"{format_moment(due)} is past; it is now {format_moment(now)}.")
    return JobTimes(due=due)


def format_moment(moment: datetime) -> str:
    """A time for people, in its own time zone."""
    return f"{moment:%a %Y-%m-%d %H:%M} {moment.tzname()}"


def _parse_moment(text: str, now: datetime) -> datetime:
    try:
        if span := _SPAN.fullmatch(text):
            pieces = _PIECE.findall(span[1])
            later = sum((timedelta(**{_UNITS[unit.lower()]: int(n)}) for n, unit in pieces), timedelta())
            return (now.astimezone(UTC) + later).astimezone(now.tzinfo)
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=now.tzinfo)
        # The round trip moves a time that the zone skips to the hour after it.
        return moment.astimezone(UTC).astimezone(now.tzinfo)
    except (ValueError, OverflowError) as error:
        raise InvalidTime(f"{text!r} is not a time. {AT_USAGE}") from error


def next_run(expression: str, after: datetime) -> datetime:
    """The first time after `after` that an expression matches, in the time zone of `after`.

    Raises:
        InvalidCron: it is not a cron expression, or it never matches.
    """
    from cronsim import CronSim, CronSimError

    if len(expression.split()) != CRON_FIELDS:
        raise InvalidCron(
            f"{expression!r} is not a cron expression: it needs {CRON_FIELDS} fields, as in "
            "'0 9 * * MON-FRI' (minute, hour, day, month, day of the week)."
        )
    try:
        runs = CronSim(expression.upper(), after)
        while (run := next(runs)).astimezone(UTC) <= after.astimezone(UTC):
            pass  # in the hour that occurs twice it may return the first one again
    except CronSimError as error:
        raise InvalidCron(f"{expression!r} is not a cron expression: {error}.") from error
    except StopIteration as error:
        raise InvalidCron(f"{expression!r} names a day that never occurs.") from error
    return run.astimezone(UTC).astimezone(after.tzinfo)


def count_runs(expression: str, first: datetime, end: datetime, *, limit: int = 1_000) -> int:
    """How many runs there are from `first`, which counts, to `end`; at most `limit`. Raises as `next_run`."""
    count, run = 1, first
    while count < limit and (run := next_run(expression, run)).astimezone(UTC) <= end.astimezone(UTC):
        count += 1
    return count


def is_active(hours: ActiveHours, now: datetime) -> bool:
    """Whether `now` is within the active hours, by the clock of its time zone."""
    start, end, at = _minutes(hours.start), _minutes(hours.end), now.hour * 60 + now.minute
    if start == end:
        return True
    return start <= at < end if start < end else at >= start or at < end


def next_heartbeat(settings: HeartbeatSettings, last: datetime) -> datetime | None:
    """When the heartbeat after the one at `last` is due, in the same zone; `None` if they are off."""
    if not settings.every_seconds:
        return None
    due = (last.astimezone(UTC) + timedelta(seconds=settings.every_seconds)).astimezone(last.tzinfo)
    return due if is_active(settings.active_hours, due) else _next_start(settings.active_hours, due)


def _next_start(hours: ActiveHours, due: datetime) -> datetime:
    minutes = _minutes(hours.start) % _DAY_MINUTES
    at = time(minutes // 60, minutes % 60)
    days = (due.date() + timedelta(days=offset) for offset in range(3))
    # The round trip turns a start that the zone skips that day into the moment of the change.
    starts = (datetime.combine(day, at, due.tzinfo).astimezone(UTC) for day in days)
    return min(start for start in starts if start > due.astimezone(UTC)).astimezone(due.tzinfo)


def _minutes(text: str) -> int:
    hour, _, minute = text.partition(":")
    return int(hour) * 60 + int(minute)
