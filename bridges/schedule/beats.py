"""When the next heartbeat is: so long behind the last one, within the active hours. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

from nacre.runtime.settings.sections.channels import ActiveHours, HeartbeatSettings

_WHOLE_DAY_MINUTES = 24 * 60


def is_active(hours: ActiveHours, now: datetime) -> bool:
    """Whether `now`, by the clock of its zone, lies within the active hours."""
    start, end, at = _minutes(hours.start), _minutes(hours.end), now.hour * 60 + now.minute
    if start == end:
        return True
    return start <= at < end if start < end else at >= start or at < end


def next_beat(settings: HeartbeatSettings, last: datetime) -> datetime | None:
    """When the heartbeat behind the one at `last` is due, in the same zone; `None` where there are none."""
    if not settings.every_seconds:
        return None
    due = (last.astimezone(UTC) + timedelta(seconds=settings.every_seconds)).astimezone(last.tzinfo)
    return due if is_active(settings.active_hours, due) else _next_start(settings.active_hours, due)


def _next_start(hours: ActiveHours, due: datetime) -> datetime:
    minutes = _minutes(hours.start) % _WHOLE_DAY_MINUTES
    at = time(minutes // 60, minutes % 60)
    days = (due.date() + timedelta(days=offset) for offset in range(3))
    # There and back: a start that the zone skips that day is the moment of the jump.
    starts = (datetime.combine(day, at, due.tzinfo).astimezone(UTC) for day in days)
    return min(start for start in starts if start > due.astimezone(UTC)).astimezone(due.tzinfo)


def _minutes(text: str) -> int:
    hour, _, minute = text.partition(":")
    return int(hour) * 60 + int(minute)
