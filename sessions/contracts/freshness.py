"""When a session is over by itself: each day at an hour of the owner's, or after a time of silence. Pure.

A session is never cut off in the middle of a conversation: the daily reset waits until nobody has said
anything for `PAUSE_MINUTES`. What counts is what people and the assistant said, not what a program
wrote beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta
from typing import Literal, TypeAlias

from nacre.records.record import Record

ResetMode: TypeAlias = Literal["daily", "idle", "none"]
ResetCause: TypeAlias = Literal["daily", "idle"]
SessionType: TypeAlias = Literal["direct", "group", "thread"]

DEFAULT_AT_HOUR = 4
DEFAULT_IDLE_MINUTES = 60
"""How long `idle` waits where nobody says how long."""
PAUSE_MINUTES = 30
"""A shorter silence is a pause in a conversation, which the daily reset does not cut in two."""

_PROGRAMS = ("cron", "hook", "subagent")


class ResetRule(Record):
    """What the owner said about resets in one place; `None` is not said there."""

    mode: ResetMode | None = None
    at_hour: int | None = None
    idle_minutes: int | None = None


class ResetPolicy(Record):
    """What holds for one session: whichever comes first. `None` is never."""

    at_hour: int | None
    idle_minutes: int | None


class NextReset(Record):
    """When a session will be over if nobody says anything until then, and by which rule."""

    at: datetime
    cause: ResetCause


def session_type(key_kind: str, *, is_direct: bool, has_thread: bool) -> SessionType | None:
    """The sort of session that resets are set for; `None` for a program's, which is never reset.

    `key_kind` is a word of `sessions.keys.key_kind`. A thread of a group is a thread.
    """
    if key_kind in _PROGRAMS:
        return None
    if has_thread or key_kind == "thread":
        return "thread"
    return "direct" if is_direct and key_kind != "group" else "group"


def reset_policy(
    *,
    kind: SessionType,
    channel: str,
    base: ResetRule | None = None,
    by_type: Mapping[SessionType, ResetRule] | None = None,
    by_channel: Mapping[str, ResetRule] | None = None,
    idle_minutes: int | None = None,
) -> ResetPolicy:
    """The rule for a session of this kind on this channel.

    A rule of the channel stands alone. Else the kind's rule goes before `base`, field by field.
    `idle_minutes` is the older setting: alone it means idle resets and no daily one. With nothing said
    the session is reset daily at 04:00.
    """
    of_channel = (by_channel or {}).get(channel.strip().lower())
    own = ResetRule() if of_channel else (by_type or {}).get(kind, ResetRule())
    shared = of_channel or base or ResetRule()
    legacy_idle = None if of_channel else idle_minutes
    nothing_newer = not (of_channel or base or by_type)
    usual: ResetMode = "idle" if nothing_newer and legacy_idle is not None else "daily"
    mode = own.mode or shared.mode or usual
    if mode == "none":
        return ResetPolicy(at_hour=None, idle_minutes=None)
    idle = _first(own.idle_minutes, shared.idle_minutes, legacy_idle)
    if mode == "idle":
        return ResetPolicy(at_hour=None, idle_minutes=DEFAULT_IDLE_MINUTES if idle is None else idle)
    return ResetPolicy(at_hour=_first(own.at_hour, shared.at_hour, DEFAULT_AT_HOUR), idle_minutes=idle)


def due_reset(
    policy: ResetPolicy, *, started_at: datetime, last_said_at: datetime, now: datetime
) -> ResetCause | None:
    """Why a session is over at `now`, or `None` while it goes on; of two reasons the earlier one.

    Three aware moments; `now` carries the owner's zone. `last_said_at` is the newest message's, of a
    person or of the assistant.
    """
    if _is_still_talking(policy, last_said_at, now):
        return None
    over = next_reset(policy, started_at=started_at, last_said_at=last_said_at, now=now)
    return over.cause if over is not None and _utc(over.at) <= _utc(now) else None


def next_reset(
    policy: ResetPolicy, *, started_at: datetime, last_said_at: datetime, now: datetime
) -> NextReset | None:
    """When the session will be over if it stays silent, in the zone of `now`; in the past if it is over."""
    ends = []
    if policy.at_hour is not None:
        boundary = next_boundary(started_at.astimezone(now.tzinfo), policy.at_hour)
        pause_ends = _later(last_said_at, PAUSE_MINUTES, now)
        ends.append(NextReset(at=max(boundary, pause_ends, key=_utc), cause="daily"))
    if policy.idle_minutes is not None:
        # An instant later than the minutes allow, so that exactly so long is not too long.
        idle_ends = _later(last_said_at, policy.idle_minutes, now) + timedelta(milliseconds=1)
        ends.append(NextReset(at=idle_ends, cause="idle"))
    return min(ends, key=lambda end: _utc(end.at), default=None)


def _is_still_talking(policy: ResetPolicy, last_said_at: datetime, now: datetime) -> bool:
    """Whether the last words are too new for either reason, whatever the clock of the owner's zone says."""
    least_minutes = PAUSE_MINUTES
    if policy.idle_minutes is not None:
        least_minutes = min(PAUSE_MINUTES, policy.idle_minutes)
    return now - last_said_at < timedelta(minutes=least_minutes)


def next_boundary(now: datetime, at_hour: int) -> datetime:
    """The first moment after `now` at which a clock in its zone comes to `at_hour`.

    An hour that the zone skips that day (summer time begins) is the moment of the jump; of an hour
    that comes twice the first counts.
    """
    return min((moment for moment in _boundaries(now, at_hour) if _utc(moment) > _utc(now)), key=_utc)


def _boundaries(now: datetime, at_hour: int) -> list[datetime]:
    # Some days are missing from some zones, and a clock can be set back across midnight.
    days = [now.date() + timedelta(days=offset) for offset in range(-3, 4)]
    moments = [datetime.combine(day, time(at_hour), tzinfo=now.tzinfo) for day in days]
    return [moment.astimezone(UTC).astimezone(now.tzinfo) for moment in moments]


def _later(moment: datetime, minutes: int, now: datetime) -> datetime:
    try:
        return (_utc(moment) + timedelta(minutes=minutes)).astimezone(now.tzinfo)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


def _utc(moment: datetime) -> datetime:
    # Two moments of one zone compare by their wall clocks, which is wrong in the hour that comes twice.
    return moment.astimezone(UTC)


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)
