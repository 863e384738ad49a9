"""The days that a search is limited to, as they are typed: "2026-02-10", "last March", "vor zwei Wochen".

All limits are inclusive. Notes without a day lie outside of every limit, which `told` says.
"""

from __future__ import annotations

import re
from datetime import date
from typing import TypeAlias

from nacre.memory.contracts.errors import DayUnknown
from nacre.memory.text.days.query_dates import named_days
from nacre.memory.text.days.ranges import DayRange
from nacre.record import Record

Day: TypeAlias = date | str

_YEAR = re.compile(r"[12]\d{3}")
_ANY_DAY = date(2000, 6, 15)


class DayLimits(Record):
    """The first and the last day, and the day that the question is asked on."""

    after: date | None
    before: date | None
    today: date

    @property
    def told(self) -> str:
        """What was searched, as a sentence; empty without limits."""
        if self.after is None and self.before is None:
            return ""
        since = f"from {self.after.isoformat()}" if self.after else ""
        until = f"until {self.before.isoformat()}" if self.before else ""
        days = " ".join(filter(None, (since, until)))
        return f"Only notes {days} were searched; notes without a day were left out."


def day_limits(
    *, after: Day | None = None, before: Day | None = None, as_of: Day | None = None, today: date
) -> DayLimits:
    """Reads the limits. Of a span, `after` means its first day, `before` and `as_of` its last.

    `as_of` asks as on that day: later notes are left out, and words such as "yesterday" count from it.

    Raises:
        DayUnknown: a text names no day, or several.
    """
    if as_of is not None:
        today = _span(as_of, today).last
    last = _span(before, today).last if before is not None else None
    if as_of is not None:
        last = min(last, today) if last else today
    return DayLimits(after=_span(after, today).first if after is not None else None, before=last, today=today)


def checked_day(text: str) -> str:
    """The same text, if it names a day, whatever day is today.

    Raises:
        DayUnknown: it names no day, or several.
    """
    _span(text, _ANY_DAY)
    return text


def _span(day: Day, today: date) -> DayRange:
    if isinstance(day, date):
        return DayRange(first=day, last=day)
    text = day.strip()
    if _YEAR.fullmatch(text):
        return DayRange(first=date(int(text), 1, 1), last=date(int(text), 12, 31))
    named = named_days(text, today)
    if len(named) != 1:
        raise DayUnknown(
            f"{day!r} names {'several days' if named else 'no day'}. Write one as YYYY-MM-DD, or in words: "
            '"yesterday", "last March", "two weeks ago".'
        )
    return named[0]
