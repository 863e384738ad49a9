"""The days that a search is limited to."""

from __future__ import annotations

from datetime import date

import pytest

from nacre.memory.contracts.errors import DayUnknown
from nacre.memory.text.days.day_limits import checked_day, day_limits

TODAY = date(2026, 2, 18)


def test_days_and_words_are_read() -> None:
    """ISO days, spans in several languages, years; `after` takes a span's first day, `before` its last."""
    limits = day_limits(after="last month", before="2026-02-10", today=TODAY)
    assert (limits.after, limits.before) == (date(2026, 1, 1), date(2026, 2, 10))
    assert day_limits(after="vor zwei Wochen", today=TODAY).after == date(2026, 2, 2)
    assert day_limits(before="2025", today=TODAY).before == date(2025, 12, 31)
    assert day_limits(before=date(2026, 1, 3), today=TODAY).before == date(2026, 1, 3)


def test_a_question_can_be_asked_as_on_a_day() -> None:
    """Later notes are left out, and words for days count from it."""
    limits = day_limits(after="yesterday", as_of="2026-01-20", today=TODAY)
    assert (limits.after, limits.before, limits.today) == (
        date(2026, 1, 19),
        date(2026, 1, 20),
        date(2026, 1, 20),
    )
    assert day_limits(before="2026-01-02", as_of="2026-01-20", today=TODAY).before == date(2026, 1, 2)


def test_a_page_without_days_may_have_been_known() -> None:
    """`as_of` alone keeps notes without a day, and says so; beside another limit they are left out."""
    limits = day_limits(as_of="2026-01-20", today=TODAY)
    assert limits.undated
    assert limits.sentence == (
        "Only notes until 2026-01-20 were searched, and notes without a day, which may be newer."
    )
    assert not day_limits(as_of="2026-01-20", after="2026-01-01", today=TODAY).undated


def test_what_was_left_out_is_told() -> None:
    """The sentence names the days, and the notes without one; without limits there is none."""
    assert day_limits(today=TODAY).sentence == ""
    told = day_limits(after="2026-01-01", before="2026-01-31", today=TODAY).sentence
    assert told == (
        "Only notes from 2026-01-01 until 2026-01-31 were searched; notes without a day were left out."
    )


@pytest.mark.parametrize("text", ["someday", "", "yesterday or last week", "2026-02-31"])
def test_what_names_no_day_is_refused(text: str) -> None:
    """The sentence has the text, and says how days are written."""
    with pytest.raises(DayUnknown, match="YYYY-MM-DD"):
        day_limits(after=text, today=TODAY)
    with pytest.raises(DayUnknown):
        checked_day(text)
