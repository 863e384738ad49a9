"""When a job is due, as people and models write it. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from nacre.bridges.schedule.cron import CronUnreadable, next_run
from nacre.record import Record

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SPAN = re.compile(r"(?:in\s+)?((?:\d+\s*[mhdw]\s*)+)", re.IGNORECASE)
_PIECE = re.compile(r"(\d+)\s*([mhdw])", re.IGNORECASE)
AT_USAGE = "Write a time of the owner's zone such as 2026-11-23T09:00, or a span such as 20m or 1h30m."


class WhenUnreadable(ValueError):
    """When a job is due cannot be read, or is past; the text says how it is written."""


class When(Record):
    """The next time that a job is due, and the cron expression of the times behind it; empty is once."""

    due: datetime
    rule: str = ""


def read_when(*, cron: str = "", at: str = "", now: datetime) -> When:
    """When a job is due: by a cron expression, or once at a time or behind a span.

    `now` carries the owner's zone.

    Raises:
        WhenUnreadable: neither or both are given, or one that cannot be read or is past.
    """
    if bool(cron.strip()) == bool(at.strip()):
        raise WhenUnreadable("Give either cron, for a job that comes again, or at, for one that comes once.")
    if cron.strip():
        rule = " ".join(cron.split()).upper()
        try:
            return When(due=next_run(rule, now), rule=rule)
        except CronUnreadable as error:
            raise WhenUnreadable(str(error)) from error
    due = _moment(at.strip(), now)
    if due.astimezone(UTC) <= now.astimezone(UTC):
        raise WhenUnreadable(f"{shown(due)} is past; it is {shown(now)} now.")
    return When(due=due)


def shown(moment: datetime) -> str:
    """A time as people read it, in its own zone."""
    return f"{moment:%a %Y-%m-%d %H:%M} {moment.tzname()}"


def _moment(text: str, now: datetime) -> datetime:
    try:
        if span := _SPAN.fullmatch(text):
            pieces = _PIECE.findall(span[1])
            later = sum((timedelta(**{_UNITS[unit.lower()]: int(n)}) for n, unit in pieces), timedelta())
            return (now.astimezone(UTC) + later).astimezone(now.tzinfo)
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=now.tzinfo)
        # There and back: an hour that the zone skips becomes the one behind it.
        return moment.astimezone(UTC).astimezone(now.tzinfo)
    except (ValueError, OverflowError) as error:
        raise WhenUnreadable(f"{text!r} is no time. {AT_USAGE}") from error
