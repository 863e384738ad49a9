"""When jobs and heartbeats are due: expressions, times and spans, over the days of summer time too."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from nacre.bridges.schedule.times import (
    InvalidCron,
    InvalidTime,
    count_runs,
    is_active,
    next_heartbeat,
    next_run,
    parse_times,
)
from nacre.runtime.settings.sections.channels import ActiveHours, HeartbeatSettings

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 3, 14, 23, 30, tzinfo=BERLIN)


def berlin(text: str, *, fold: int = 0) -> datetime:
    """A moment of Berlin's clock."""
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN, fold=fold)


@pytest.mark.parametrize(
    ("expression", "after", "expected"),
    [
        ("0 9 * * mon-fri", "2026-03-27T12:00", "2026-03-30T09:00:00+02:00"),
        # Summer time begins on the 29th at 02:00: half past two is not there, the jump is.
        ("30 2 * * *", "2026-03-28T12:00", "2026-03-29T03:00:00+02:00"),
        ("30 2 * * *", "2026-03-29T04:00", "2026-03-30T02:30:00+02:00"),
        ("0 9 * * *", "2026-03-28T12:00", "2026-03-29T09:00:00+02:00"),
        # It ends on 25 October at 03:00: half past two comes twice, the first one counts.
        ("30 2 * * *", "2026-10-24T12:00", "2026-10-25T02:30:00+02:00"),
        ("0 9 * * *", "2026-10-24T12:00", "2026-10-25T09:00:00+01:00"),
    ],
)
def test_an_expression_means_the_owners_clock(expression: str, after: str, expected: str) -> None:
    """Weekdays, and the two nights in which the clock changes."""
    assert next_run(expression, berlin(after)).isoformat() == expected


def test_the_hour_that_comes_twice_holds_no_job_of_the_past() -> None:
    """In its second half the first one is over: the next run is tomorrow's."""
    assert (
        next_run("30 2 * * *", berlin("2026-10-25T02:00", fold=1)).isoformat() == "2026-10-26T02:30:00+01:00"
    )
    hourly = berlin("2026-10-25T01:30")
    runs = [hourly := next_run("0 * * * *", hourly) for _ in range(3)]
    assert [run.astimezone(UTC).hour for run in runs] == [0, 1, 2]


@pytest.mark.parametrize(
    "expression", ["", "often", "* * * *", "* * * * * *", "61 * * * *", "0 0 31 2 *", "@daily"]
)
def test_what_is_no_expression_is_told(expression: str) -> None:
    """In a sentence that shows it."""
    with pytest.raises(InvalidCron, match=r"cron expression|never occurs") as caught:
        next_run(expression, NOW)
    assert repr(expression) in str(caught.value)


def test_runs_are_counted_up_to_a_bound() -> None:
    """Every minute for a year stops being counted."""
    assert count_runs("0 9 * * *", berlin("2026-03-01T09:00"), berlin("2026-03-05T12:00")) == 5
    assert count_runs("* * * * *", berlin("2026-03-01T09:00"), berlin("2027-03-01T09:00"), limit=50) == 50


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        ("2026-03-15T09:00", "2026-03-15T09:00:00+01:00"),
        ("2026-03-15 09:00", "2026-03-15T09:00:00+01:00"),
        ("2026-03-15T09:00Z", "2026-03-15T10:00:00+01:00"),
        ("2026-03-29T02:30", "2026-03-29T03:30:00+02:00"),
        ("2026-10-25T02:30", "2026-10-25T02:30:00+02:00"),
        ("20m", "2026-03-14T23:50:00+01:00"),
        ("in 1h30m", "2026-03-15T01:00:00+01:00"),
        ("2w 1d", "2026-03-30T00:30:00+02:00"),
    ],
)
def test_a_time_or_a_span_is_read(at: str, expected: str) -> None:
    """In the owner's zone unless an offset follows; a day of a span has 24 hours."""
    when = parse_times(at=at, now=NOW)

    assert (when.due.isoformat(), when.rule) == (expected, "")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "Give either"),
        ({"at": "20m", "cron": "0 9 * * *"}, "Give either"),
        ({"at": "2026-03-14T23:30"}, "is past"),
        ({"at": "yesterday"}, "is not a time"),
        ({"at": "99999999999999w"}, "is not a time"),
        ({"cron": "often"}, "needs 5 fields"),
    ],
)
def test_what_cannot_be_read_is_told(given: dict[str, str], message: str) -> None:
    """And how it is written."""
    with pytest.raises(InvalidTime, match=message):
        parse_times(**given, now=NOW)


def test_heartbeats_keep_to_the_active_hours() -> None:
    """By day, over midnight, and the whole day."""
    by_day = ActiveHours(start="08:00", end="22:00")
    by_night = ActiveHours(start="22:00", end="06:00")
    hours = [0, 6, 8, 21, 22]
    day = [is_active(by_day, datetime(2026, 3, 14, hour, tzinfo=BERLIN)) for hour in hours]
    night = [is_active(by_night, datetime(2026, 3, 14, hour, tzinfo=BERLIN)) for hour in hours]

    assert day == [False, False, True, True, False]
    assert night == [True, False, False, False, True]
    assert is_active(ActiveHours(), NOW)
    assert is_active(ActiveHours(start="09:00", end="09:00"), NOW)


def test_the_next_heartbeat_waits_for_the_morning() -> None:
    """So long behind the last one, or when the hours begin; 08:00 is 08:00 on the day of the change too."""
    settings = HeartbeatSettings.model_validate(
        {"every": "30m", "activeHours": {"start": "08:00", "end": "22:00"}}
    )

    def following(last: str) -> str:
        due = next_heartbeat(settings, berlin(last))
        assert due is not None
        return due.isoformat()

    assert following("2026-03-14T12:00") == "2026-03-14T12:30:00+01:00"
    assert following("2026-03-14T21:45") == "2026-03-15T08:00:00+01:00"
    assert following("2026-03-28T21:45") == "2026-03-29T08:00:00+02:00"
    assert next_heartbeat(HeartbeatSettings(every="0"), NOW) is None
    assert next_heartbeat(HeartbeatSettings(target="none"), NOW) is None
