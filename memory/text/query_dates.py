"""The days that a query names: "yesterday", "last March", "2026-02-10", 上周, "vor 3 Tagen".

A pure function of the words and of `today`. It never filters anything: the ranges only lift chunks of
these days, because "the trip in May" may have been written down in June.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, timedelta

from nacre.memory.text.words import DAY_WORDS, MONTHS, PERIOD_WORDS, UNITS, WEEKDAYS


@dataclass(frozen=True, kw_only=True, order=True)
class DayRange:
    """Days from `first` to `last`, both included."""

    first: date
    last: date

    @property
    def days(self) -> int:
        """How many days the range has; 1 for a single day."""
        return (self.last - self.first).days + 1


_Reader = Callable[[re.Match[str], date], "DayRange | None"]


def named_days(text: str, today: date) -> tuple[DayRange, ...]:
    """The ranges that `text` names, in reading order without repeats; impossible dates are passed over.

    A day or month without a year is the latest one that is not after `today`.
    """
    rest, found = text.lower(), []
    for pattern, read in _READERS:
        for match in pattern.finditer(rest):
            days = read(match, today)
            if days is not None:
                found.append((match.start(), days))
                rest = rest[: match.start()] + " " * (match.end() - match.start()) + rest[match.end() :]
    return tuple(dict.fromkeys(days for _, days in sorted(found)))


def closeness(day: date | None, ranges: tuple[DayRange, ...]) -> float:
    """How well a chunk's `day` fits the ranges, 0…1: 1 inside one, half just after it, where it is told.

    A wide range says less than a single day, so a year counts half.
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


def _date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _single(day: date | None) -> DayRange | None:
    return None if day is None else DayRange(first=day, last=day)


def _month_of(year: int, month: int) -> DayRange | None:
    first = _date(year, month, 1)
    if first is None or (after := _date(year + month // 12, month % 12 + 1, 1)) is None:
        return None
    return DayRange(first=first, last=after - timedelta(days=1))


def _year_of(year: int) -> DayRange:
    return DayRange(first=date(year, 1, 1), last=date(year, 12, 31))


def _week_of(day: date) -> DayRange:
    monday = day - timedelta(days=day.weekday())
    return DayRange(first=monday, last=monday + timedelta(days=6))


def _numbers(match: re.Match[str], _: date) -> DayRange | None:
    return _single(_date(int(match["year"]), int(match["month"]), int(match["day"])))


def _year_and_month(match: re.Match[str], _: date) -> DayRange | None:
    return _month_of(int(match["year"]), int(match["month"]))


def _month_number(match: re.Match[str]) -> int:
    name = match["month"]
    return int(name) if name.isdigit() else MONTHS[name]


def _day_and_month(match: re.Match[str], today: date) -> DayRange | None:
    month, day = _month_number(match), int(match["day"])
    if match["year"]:
        return _single(_date(int(match["year"]), month, day))
    candidates = (_date(today.year - back, month, day) for back in range(9))
    return _single(next((found for found in candidates if found and found <= today), None))


def _month_alone(match: re.Match[str], today: date) -> DayRange | None:
    month = _month_number(match)
    if match["year"]:
        return _month_of(int(match["year"]), month)
    return _month_of(today.year - (month > today.month), month)


def _last_month_named(match: re.Match[str], today: date) -> DayRange | None:
    month = _month_number(match)
    return _month_of(today.year - (month >= today.month), month)


def _year_alone(match: re.Match[str], _: date) -> DayRange | None:
    return _year_of(int(match["year"]))


def _day_word(match: re.Match[str], today: date) -> DayRange | None:
    return _shifted(today, DAY_WORDS[match[0]])


def _weekday(match: re.Match[str], today: date) -> DayRange | None:
    back = (today.weekday() - WEEKDAYS[match["weekday"]]) % 7
    return _shifted(today, -(back or 7))


def _period(match: re.Match[str], today: date) -> DayRange | None:
    unit, offset = PERIOD_WORDS[" ".join(match[0].split())]
    return _period_at(today, unit, offset)


def _ago(match: re.Match[str], today: date) -> DayRange | None:
    words = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
    count = match["count"]
    number = int(count) if count.isdigit() else words.get(count, 1)
    unit = UNITS[match["unit"]]
    return _shifted(today, -number) if unit == "day" else _period_at(today, unit, -number)


def _shifted(today: date, days: int) -> DayRange | None:
    try:
        return _single(today + timedelta(days=days))
    except OverflowError:
        return None


def _period_at(today: date, unit: str, offset: int) -> DayRange | None:
    if unit == "week":
        shifted = _shifted(today, 7 * offset)
        return None if shifted is None else _week_of(shifted.first)
    if unit == "month":
        months = today.year * 12 + today.month - 1 + offset
        return _month_of(months // 12, months % 12 + 1)
    return _year_of(today.year + offset) if 1 <= today.year + offset <= 9998 else None


def _alternatives(words: Iterable[str]) -> str:
    spaced = [word for word in words if word[0] < "\u0590"]
    unspaced = [word for word in words if word[0] >= "\u0590"]
    return rf"\b(?:{_joined(spaced)})\b|{_joined(unspaced)}"


def _joined(words: Iterable[str]) -> str:
    longest_first = sorted(words, key=len, reverse=True)
    return "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in longest_first)


def _compile(*readers: tuple[str, _Reader]) -> tuple[tuple[re.Pattern[str], _Reader], ...]:
    return tuple((re.compile(pattern), read) for pattern, read in readers)


_MONTH, _WEEKDAY, _UNIT = _joined(MONTHS), _joined(WEEKDAYS), _joined(UNITS)
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th|\.|º|er)?"
_COUNT = r"(?P<count>\d{1,3}|an?|one|two|three|four|five|six|ein(?:em|er)?|un[ea]?)"
_IN = r"(?:in|during|im|en|since|until|by|of|this|early|late|mid)"

# Tried in this order; what one reader took is blank for the next.
_READERS = _compile(
    (rf"(?<!\d){_YEAR}[-/.](?P<month>\d{{1,2}})[-/.](?P<day>\d{{1,2}})(?!\d)", _numbers),
    (rf"(?<!\d)(?P<day>\d{{1,2}})\.\s?(?P<month>\d{{1,2}})\.\s?{_YEAR}(?!\d)", _numbers),
    (rf"{_YEAR}\s?年\s?(?P<month>\d{{1,2}})\s?月\s?(?P<day>\d{{1,2}})\s?[日号號]", _numbers),
    (rf"{_YEAR}\s?年\s?(?P<month>\d{{1,2}})\s?月", _year_and_month),
    (rf"{_YEAR}\s?年", _year_alone),
    (r"(?P<month>\d{1,2})\s?月\s?(?P<day>\d{1,2})\s?[日号號](?P<year>)", _day_and_month),
    (rf"(?<!\d){_YEAR}-(?P<month>\d\d)(?![\d-])", _year_and_month),
    (
        rf"\b{_DAY}(?:\s+(?:of|de|di))?\s+(?P<month>{_MONTH})\b\.?,?(?:\s+(?:de\s+)?{_YEAR}\b)?",
        _day_and_month,
    ),
    (rf"\b(?P<month>{_MONTH})\b\.?\s+{_DAY}\b(?!:),?(?:\s+{_YEAR}\b)?", _day_and_month),
    (rf"\b(?:last|past|letzten|vergangenen)\s+(?P<month>{_MONTH})\b", _last_month_named),
    (rf"\b(?P<month>{_MONTH})\b\.?,?\s+(?:of\s+|de\s+)?{_YEAR}\b", _month_alone),
    (rf"\b{_IN}[\s-](?P<month>{_MONTH})\b(?P<year>)", _month_alone),
    (rf"\b{_COUNT}\s+(?P<unit>{_UNIT})\s+ago\b", _ago),
    (rf"\b(?:vor|il y a|hace)\s+{_COUNT}\s+(?P<unit>{_UNIT})\b", _ago),
    (r"(?P<count>\d{1,3})\s?(?:个|個)?(?P<unit>天|日|周|週間|星期|月|ヶ月|か月|年)(?:以)?前", _ago),
    (_alternatives(PERIOD_WORDS), _period),
    (_alternatives(DAY_WORDS), _day_word),
    (rf"\b(?:(?:on|last|past|this|am|letzten)\s+)?(?P<weekday>{_WEEKDAY})s?\b", _weekday),
    (rf"\b(?:in|of|since|during|for|year|en|im jahr)\s+{_YEAR}\b", _year_alone),
)
