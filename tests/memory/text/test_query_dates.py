"""Which days a question names."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given, strategies as st

from nacre.memory.text.query_dates import DayRange, closeness, named_days

TODAY = date(2026, 11, 20)  # a Friday


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("what did I do yesterday?", "2026-11-19", "2026-11-19"),
        ("the day before yesterday", "2026-11-18", "2026-11-18"),
        ("on 2026-02-10", "2026-02-10", "2026-02-10"),
        ("am 10.02.2026", "2026-02-10", "2026-02-10"),
        ("on 5 May 2023", "2023-05-05", "2023-05-05"),
        ("May 5th, 2023", "2023-05-05", "2023-05-05"),
        ("on December 3", "2025-12-03", "2025-12-03"),
        ("in May 2023", "2023-05-01", "2023-05-31"),
        ("last March", "2026-03-01", "2026-03-31"),
        ("last November", "2025-11-01", "2025-11-30"),
        ("three days ago", "2026-11-17", "2026-11-17"),
        ("2 weeks ago", "2026-11-02", "2026-11-08"),
        ("last week", "2026-11-09", "2026-11-15"),
        ("last month", "2026-10-01", "2026-10-31"),
        ("last Friday", "2026-11-13", "2026-11-13"),
        ("in 2022", "2022-01-01", "2022-12-31"),
        ("vor 3 Tagen", "2026-11-17", "2026-11-17"),
        ("gestern", "2026-11-19", "2026-11-19"),
        ("il y a 2 semaines", "2026-11-02", "2026-11-08"),
        ("上周讨论了什么", "2026-11-09", "2026-11-15"),
        ("2023年5月7日", "2023-05-07", "2023-05-07"),
        ("3天前", "2026-11-17", "2026-11-17"),
        ("先月の旅行", "2026-10-01", "2026-10-31"),
    ],
)
def test_days_are_read_in_many_shapes(text: str, first: str, last: str) -> None:
    """Words and numbers for a day, week, month or year become its days."""
    assert named_days(text, TODAY) == (
        DayRange(first=date.fromisoformat(first), last=date.fromisoformat(last)),
    )


@pytest.mark.parametrize(
    "text", ["may I go?", "march on the town", "2023-13-45", "99999 days ago", "room 2022"]
)
def test_what_is_no_date_is_passed_over(text: str) -> None:
    """Modal verbs, impossible days and bare numbers name nothing."""
    assert named_days(text, TODAY) == ()


@given(st.text(max_size=60), st.dates())
def test_no_text_and_no_day_is_too_odd(text: str, today: date) -> None:
    """Reading never fails, and each range runs forward."""
    assert all(days.first <= days.last for days in named_days(text, today))


def test_a_day_is_close_when_it_is_named_or_just_after() -> None:
    """Inside counts fully, the two days after a named day half, the rest and undated chunks nothing."""
    named = named_days("on 2026-02-10", TODAY)
    assert closeness(date(2026, 2, 10), named) == 1.0
    assert closeness(date(2026, 2, 12), named) == 0.5
    assert closeness(date(2026, 2, 9), named) == 0.0
    assert closeness(None, named) == 0.0
    assert closeness(date(2026, 2, 10), ()) == 0.0


def test_a_year_says_less_than_a_month() -> None:
    """A wide range lifts less."""
    assert closeness(date(2022, 5, 5), named_days("in 2022", TODAY)) == 0.5
