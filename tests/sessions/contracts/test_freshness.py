"""When a session is over: by the owner's clock, by silence, by the settings; in every zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, strategies as st

from nacre.sessions.contracts.keys import (
    NextReset,
    ResetCause,
    ResetPolicy,
    ResetRule,
    due_reset,
    next_boundary,
    next_reset,
    reset_policy,
    session_type,
)

BERLIN = ZoneInfo("Europe/Berlin")
DAILY = ResetPolicy(at_hour=4, idle_minutes=None)
ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/St_Johns",
    "America/Sao_Paulo",
    "Asia/Kolkata",
    "Asia/Shanghai",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Pacific/Chatham",
    "Africa/Casablanca",
    "Atlantic/Azores",
)


def at(text: str, zone: ZoneInfo = BERLIN) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=zone)


def due(policy: ResetPolicy, started: str, said: str, now: str) -> ResetCause | None:
    return due_reset(policy, started_at=at(started), last_said_at=at(said), now=at(now))


@pytest.mark.parametrize(
    ("started", "said", "now", "cause"),
    [
        ("2026-03-14 03:00", "2026-03-14 03:00", "2026-03-14 05:00", "daily"),
        ("2026-03-13 03:30", "2026-03-13 03:30", "2026-03-14 03:00", "daily"),
        ("2026-03-14 04:00", "2026-03-14 04:00", "2026-03-15 03:59", None),
        ("2026-03-14 03:59", "2026-03-14 03:59", "2026-03-14 04:28", None),
        ("2026-03-14 03:59", "2026-03-14 03:59", "2026-03-14 04:29", "daily"),
        ("2026-03-10 12:00", "2026-03-14 11:40", "2026-03-14 12:00", None),
        ("2026-03-10 12:00", "2026-03-14 11:30", "2026-03-14 12:00", "daily"),
        ("2026-03-15 12:00", "2026-03-15 12:00", "2026-03-14 12:00", None),
    ],
)
@pytest.mark.covers("A5-6", "A5-7")
def test_a_day_ends_at_four_but_not_in_a_conversation(
    started: str, said: str, now: str, cause: str | None
) -> None:
    """The hour comes once a day, a pause of less than half an hour is no end, a clock set back neither."""
    assert due(DAILY, started, said, now) == cause


@pytest.mark.parametrize(
    ("said", "now", "cause"),
    [
        ("2026-03-14 04:45", "2026-03-14 05:30", "idle"),
        ("2026-03-14 05:00", "2026-03-14 05:30", None),
        ("2026-03-14 05:00", "2026-03-14 05:31", "idle"),
        ("2026-03-14 23:50", "2026-03-15 08:00", "idle"),
    ],
)
@pytest.mark.covers("A5-8")
def test_of_two_reasons_the_earlier_one_ends_the_session(said: str, now: str, cause: str | None) -> None:
    """Half an hour of silence comes before the next morning; exactly half an hour is not too long."""
    policy = ResetPolicy(at_hour=4, idle_minutes=30)

    assert due(policy, "2026-03-14 04:40", said, now) == cause


def test_a_pause_has_its_length_when_clocks_are_changed() -> None:
    """From 02:40 in summer to 02:55 in winter are 75 minutes."""
    ended = due_reset(
        ResetPolicy(at_hour=2, idle_minutes=None),
        started_at=at("2026-10-24 12:00"),
        last_said_at=at("2026-10-25 02:40"),
        now=at("2026-10-25 02:55").replace(fold=1),
    )

    assert ended == "daily"


def test_the_morning_may_come_before_the_silence_is_long_enough() -> None:
    """A talk until half past three is over at four, however long `idleMinutes` is."""
    policy = ResetPolicy(at_hour=4, idle_minutes=600)

    assert due(policy, "2026-03-14 01:00", "2026-03-14 03:30", "2026-03-16 12:00") == "daily"


def test_the_next_reset_is_told() -> None:
    """What `/status` shows: the moment and the rule, in the owner's zone; nothing when none is set."""
    policy = ResetPolicy(at_hour=4, idle_minutes=90)
    when = {"started_at": at("2026-03-14 10:00"), "last_said_at": at("2026-03-14 11:00").astimezone(UTC)}

    assert next_reset(DAILY, **when, now=at("2026-03-14 12:00")) == NextReset(
        at=at("2026-03-15 04:00"), cause="daily"
    )
    idle = next_reset(policy, **when, now=at("2026-03-14 12:00"))
    assert idle is not None
    assert (idle.at.strftime("%H:%M %Z"), idle.cause) == ("12:30 CET", "idle")
    assert (
        next_reset(ResetPolicy(at_hour=None, idle_minutes=None), **when, now=at("2026-03-14 12:00")) is None
    )


BASE = ResetRule(mode="daily", at_hour=6)


@pytest.mark.parametrize(
    ("settings", "policy"),
    [
        ({}, (4, None)),
        ({"idle_minutes": 45}, (None, 45)),
        ({"idle_minutes": 45, "base": ResetRule()}, (4, 45)),
        ({"idle_minutes": 45, "by_type": {"group": ResetRule(mode="idle")}}, (4, 45)),
        ({"base": ResetRule(mode="idle")}, (None, 60)),
        ({"base": ResetRule(mode="daily", idle_minutes=30)}, (4, 30)),
        ({"base": ResetRule(mode="none", idle_minutes=30)}, (None, None)),
        ({"base": BASE, "by_type": {"thread": ResetRule(mode="idle", idle_minutes=180)}}, (None, 180)),
        ({"base": BASE, "by_type": {"thread": ResetRule(idle_minutes=180)}}, (6, 180)),
        ({"base": BASE, "by_type": {"group": ResetRule(mode="none")}}, (6, None)),
        ({"base": BASE, "by_channel": {"chat": ResetRule(mode="idle")}}, (None, 60)),
        ({"idle_minutes": 9, "by_channel": {"chat": ResetRule(mode="daily", at_hour=0)}}, (0, None)),
        ({"base": BASE, "by_channel": {"mail": ResetRule(mode="none")}}, (6, None)),
    ],
)
@pytest.mark.covers("A5-10", "A5-11", "A5-12")
def test_the_most_special_rule_wins(
    settings: dict[str, object], policy: tuple[int | None, int | None]
) -> None:
    """A channel's rule stands alone; a kind's goes before the common one field by field; the old key last."""
    found = reset_policy(kind="thread", channel=" Chat", **settings)  # type: ignore[arg-type]

    assert (found.at_hour, found.idle_minutes) == policy


@pytest.mark.parametrize(
    ("kind", "is_direct", "has_thread", "expected"),
    [
        ("main", True, False, "direct"),
        ("other", True, False, "direct"),
        ("other", False, False, "group"),
        ("group", True, False, "group"),
        ("thread", False, False, "thread"),
        ("group", False, True, "thread"),
        ("cron", True, False, None),
        ("subagent", True, False, None),
    ],
)
@pytest.mark.covers("A5-9", "A5-18")
def test_the_sort_of_a_session(kind: str, is_direct: bool, has_thread: bool, expected: str | None) -> None:
    """A thread is known by its key or by its message; a program's session is never reset."""
    assert session_type(kind, is_direct=is_direct, has_thread=has_thread) == expected


@pytest.mark.parametrize(
    ("now", "at_hour", "zone", "expected"),
    [
        # 02:00 to 03:00 does not exist in Berlin on 29 March: the reset is at the jump.
        ("2026-03-29T00:30:00+01:00", 2, "Europe/Berlin", "2026-03-29T03:00:00+02:00"),
        # 02:00 comes twice on 25 October: the first counts, and only it.
        ("2026-10-25T01:30:00+02:00", 2, "Europe/Berlin", "2026-10-25T02:00:00+02:00"),
        ("2026-10-25T02:30:00+02:00", 2, "Europe/Berlin", "2026-10-26T02:00:00+01:00"),
        ("2026-10-25T02:30:00+01:00", 2, "Europe/Berlin", "2026-10-26T02:00:00+01:00"),
        # Apia left out 30 December 2011.
        ("2011-12-29T12:00:00-10:00", 4, "Pacific/Apia", "2011-12-31T04:00:00+14:00"),
    ],
)
def test_an_hour_that_is_missing_or_comes_twice(now: str, at_hour: int, zone: str, expected: str) -> None:
    """The days on which clocks are changed have one reset, like all others."""
    found = next_boundary(datetime.fromisoformat(now).astimezone(ZoneInfo(zone)), at_hour)

    assert found.isoformat() == expected


@given(
    second=st.integers(min_value=946_684_800, max_value=2_000_000_000),
    at_hour=st.integers(min_value=0, max_value=23),
    zone=st.sampled_from(ZONES),
)
@example(second=1_325_246_400, at_hour=4, zone="Pacific/Apia")
@example(second=1_162_098_060, at_hour=0, zone="America/St_Johns")
def test_the_next_boundary_is_the_next_time_a_clock_shows_the_hour(
    second: int, at_hour: int, zone: str
) -> None:
    """Against a clock that is watched minute by minute: no boundary is missed and none is made up."""
    now = datetime.fromtimestamp(second, ZoneInfo(zone))

    found = next_boundary(now, at_hour).astimezone(UTC)

    assert found > now.astimezone(UTC)
    assert found - now.astimezone(UTC) <= timedelta(hours=51)
    before, shown = (found + timedelta(minutes=minutes) for minutes in (-1, 0))
    local_before, local_shown = (moment.astimezone(ZoneInfo(zone)) for moment in (before, shown))
    jumped = local_shown.utcoffset() != local_before.utcoffset()
    assert (local_shown.hour, local_shown.minute) == (at_hour, 0) or jumped
    minute = now.astimezone(UTC).replace(second=0, microsecond=0)
    shows = []
    while (minute := minute + timedelta(minutes=1)) < found:
        wall = minute.astimezone(ZoneInfo(zone))
        if (wall.hour, wall.minute, wall.fold) == (at_hour, 0, 0):
            shows.append(wall)
    assert shows == []


@given(
    started_second=st.integers(min_value=1_000_000_000, max_value=2_000_000_000),
    said_after=st.integers(min_value=0, max_value=400_000),
    now_after=st.integers(min_value=0, max_value=400_000),
    at_hour=st.none() | st.integers(min_value=0, max_value=23),
    idle_minutes=st.none() | st.integers(min_value=1, max_value=5_000),
    zone=st.sampled_from(ZONES),
)
def test_a_session_is_over_exactly_from_its_next_reset_on(
    started_second: int,
    said_after: int,
    now_after: int,
    at_hour: int | None,
    idle_minutes: int | None,
    zone: str,
) -> None:
    """What `/status` says and what happens agree at every moment."""
    policy = ResetPolicy(at_hour=at_hour, idle_minutes=idle_minutes)
    started, said, now = (
        datetime.fromtimestamp(started_second + seconds, ZoneInfo(zone))
        for seconds in (0, said_after, said_after + now_after)
    )

    coming = next_reset(policy, started_at=started, last_said_at=said, now=now)
    cause = due_reset(policy, started_at=started, last_said_at=said, now=now)

    assert (cause is not None) == (coming is not None and coming.at.timestamp() <= now.timestamp())
    assert cause is None or coming is None or cause == coming.cause
