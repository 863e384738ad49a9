"""Ranges of days, and those at a distance from today."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import NamedTuple


class DayRange(NamedTuple):
    """The days from `first` to `last`, inclusive."""

    first: date
    last: date

    @property
    def days(self) -> int:
        return (self.last - self.first).days + 1


def closeness(day: date | None, ranges: tuple[DayRange, ...]) -> float:
    """How well a chunk's day fits the ranges: 1 inside a range, and half shortly after it, when it is
    reported.

    Long ranges count half, because they say less.
    """
    if day is None:
        return 0.0
    return max((_fit(day, days) for days in ranges), default=0.0)


def _fit(day: date, days: DayRange) -> float:
    weight = 1.0 if days.days <= 31 else 0.5
    if days.first <= day <= days.last:
        return weight
    slack = 2 if days.days == 1 else 7
    return weight / 2 if 0 < (day - days.last).days <= slack else 0.0


def day_phrases(days: Sequence[DayRange]) -> Iterator[str]:
    """The ranges as the titles of chunks have them: ISO days up to a week, otherwise the month or the
    year."""
    for span in days:
        if span.days <= 7:
            yield from ((span.first + timedelta(days=at)).isoformat() for at in range(span.days))
        else:
            yield span.first.isoformat()[: 7 if span.days <= 31 else 4]


def date_or_none(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def single(day: date | None) -> DayRange | None:
    return None if day is None else DayRange(first=day, last=day)


def shifted(today: date, days: int) -> DayRange | None:
    try:
        return single(today + timedelta(days=days))
    except OverflowError:
        return None


def month_of(year: int, month: int, *, months: int = 1) -> DayRange | None:
    """The range of `months` months from a month (1 to 12)."""
    behind = year * 12 + month - 1 + months
    first, after = date_or_none(year, month, 1), date_or_none(behind // 12, behind % 12 + 1, 1)
    return None if first is None or after is None else DayRange(first=first, last=after - timedelta(days=1))


def season_of(today: date, first_month: int, *, year: int | None = None, has_ended: bool) -> DayRange | None:
    """Three months from `first_month` in a year, or the latest season that has first_day or ended by
    today."""
    if year is not None:
        return month_of(year, first_month, months=3)
    latest = (month_of(today.year - back, first_month, months=3) for back in range(3))
    return next((days for days in latest if days and (days.last if has_ended else days.first) <= today), None)


def period_at(today: date, unit: str, offset: int) -> DayRange | None:
    """The day, week, month, year or weekend at a distance from the current one.

    The current weekend means the previous one until Saturday, because questions are about the past.
    """
    match unit:
        case "day":
            return shifted(today, offset)
        case "week":
            return _days_of_week(today, offset, first=0, days=7)
        case "weekend":
            comes = offset == 0 and today.weekday() < 5
            return _days_of_week(today, offset - comes, first=5, days=2)
        case "month":
            months = today.year * 12 + today.month - 1 + offset
            return month_of(months // 12, months % 12 + 1)
        case _:
            return month_of(today.year + offset, 1, months=12)


def weekday_at(today: date, weekday: int, weeks: int) -> DayRange | None:
    """A weekday (0 is Monday) of the week at a distance of `weeks`."""
    return _days_of_week(today, weeks, first=weekday, days=1)


def _days_of_week(today: date, weeks: int, *, first: int, days: int) -> DayRange | None:
    try:
        first_day = today + timedelta(days=7 * weeks + first - today.weekday())
        return DayRange(first=first_day, last=first_day + timedelta(days=days - 1))
    except OverflowError:
        return None
