"""Reads the day limits of a search: "2026-02-10", "last March", "vor zwei Wochen".

All limits are inclusive. Notes without a day are outside of every limit but `as_of`: what stands on a page
without days may have been known on that day.
"""

from __future__ import annotations

import re
from datetime import date

from nacre.memory.contracts.errors import DayUnknown
from nacre.memory.contracts.records import Day
from nacre.memory.text.days.query_dates import DayRange, named_days
from nacre.record import Record

_YEAR = re.compile(r"[12]\d{3}")
_ANY_DAY = date(2000, 6, 15)


class DayLimits(Record):
    """The first and the last day, and the day on which the question is asked.

    With `undated`, notes without a day are searched too.
    """

    after: date | None
    before: date | None
    today: date
    undated: bool = False

    @property
    def sentence(self) -> str:
        """Which notes were searched; empty without limits."""
        if self.after is None and self.before is None:
            return ""
        since = f"from {self.after.isoformat()}" if self.after else ""
        until = f"until {self.before.isoformat()}" if self.before else ""
        days = " ".join(filter(None, (since, until)))
        if self.undated:
            return f"Only notes {days} were searched, and notes without a day, which may be newer."
        return f"Only notes {days} were searched; notes without a day were left out."


def day_limits(
    *, after: Day | None = None, before: Day | None = None, as_of: Day | None = None, today: date
) -> DayLimits:
    """Reads limits. For a span, `after` means its first day, `before` and `as_of` its last one.

    `as_of` leaves out later notes, but alone not those without a day, and words such as "yesterday" count
    from it.

    Raises:
        DayUnknown: a text does not name exactly one day or span.
    """
    if as_of is not None:
        today = _span(as_of, today).last
    last = _span(before, today).last if before is not None else None
    if as_of is not None:
        last = min(last, today) if last else today
    first = _span(after, today).first if after is not None else None
    undated = as_of is not None and after is None and before is None
    return DayLimits(after=first, before=last, today=today, undated=undated)


def checked_day(text: str) -> str:
    """Returns the text if it names a day on any date. Raises `DayUnknown` if it does not."""
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
