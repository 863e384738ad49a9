"""The days that a query names: "yesterday", "last March", "2026-02-10", 上周, "vor zwei Wochen", "летом".

A pure function of the words and of `today`. It never filters anything: the ranges only lift chunks of
these days, because "the trip in May" may have been written down in June.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from datetime import date
from functools import cache, cached_property, lru_cache
from typing import TypeAlias

from nacre.memory.text.days.day_words import (
    DAY_WORDS,
    LANGUAGES,
    LAST,
    MONTHS,
    PERIOD_WORDS,
    WEEKDAYS,
    Language,
)
from nacre.memory.text.days.ranges import (
    DayRange,
    date_or_none,
    month_of,
    period_at,
    season_of,
    shifted,
    single,
)
from nacre.memory.text.days.unspaced import named_day, named_period, unspaced_readers
from nacre.record import Record

_Read: TypeAlias = Callable[["re.Match[str]", date], "DayRange | None"]

_TOKEN = re.compile(r"[^\W\d_]+")


@cache
def _unspaced() -> re.Pattern[str]:
    return re.compile(r"[\u0e00-\u0eff\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff]")


class _Reader(Record):
    """A pattern and what it means; it is tried only on texts with one of `words`, or with a digit.

    Compiling them all would cost each short-lived command more than it needs.
    """

    pattern: str
    read: _Read
    words: frozenset[str] = frozenset()

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        return re.compile(self.pattern)

    def may_find(self, tokens: set[str], *, has_digit: bool) -> bool:
        return not self.words.isdisjoint(tokens) if self.words else has_digit


def named_days(text: str, today: date) -> tuple[DayRange, ...]:
    """The ranges that `text` names, in reading order without repeats; impossible dates are passed over.

    A day, month or season without a year is the latest one that is not after `today`.
    """
    rest, found = text.lower().replace("\u2019", "'"), []
    tokens, has_digit = set(_TOKEN.findall(rest)), any(char.isdigit() for char in rest)
    patterns = [] if rest.isascii() or not _unspaced().search(rest) else list(unspaced_readers())
    if has_digit or not _TELLING.isdisjoint(tokens):
        found_here = (reader for reader in _readers() if reader.may_find(tokens, has_digit=has_digit))
        patterns += [(reader.compiled, reader.read) for reader in found_here]
    for pattern, read in patterns:
        for match in pattern.finditer(rest):
            days = read(match, today)
            if days is not None:
                found.append((match.start(), days))
                rest = rest[: match.start()] + " " * (match.end() - match.start()) + rest[match.end() :]
    return tuple(dict.fromkeys(days for _, days in sorted(found)))


def _numbers(match: re.Match[str], _: date) -> DayRange | None:
    return single(date_or_none(int(match["year"]), int(match["month"]), int(match["day"])))


def _year_and_month(match: re.Match[str], _: date) -> DayRange | None:
    return month_of(int(match["year"]), int(match["month"]))


def _day_and_month(match: re.Match[str], today: date) -> DayRange | None:
    month, day = MONTHS[match["month"]], int(match["day"])
    if match["year"]:
        return single(date_or_none(int(match["year"]), month, day))
    candidates = (date_or_none(today.year - back, month, day) for back in range(9))
    return single(next((found for found in candidates if found and found <= today), None))


def _month_and_year(match: re.Match[str], _: date) -> DayRange | None:
    return month_of(int(match["year"]), MONTHS[match["month"]])


def _month_alone(match: re.Match[str], today: date) -> DayRange | None:
    month = MONTHS[match["month"]]
    return month_of(today.year - (month > today.month), month)


def _last_month_named(match: re.Match[str], today: date) -> DayRange | None:
    month = MONTHS[match["month"]]
    return month_of(today.year - (month >= today.month), month)


def _year_alone(match: re.Match[str], _: date) -> DayRange | None:
    return month_of(int(match["year"]), 1, months=12)


def _weekday(match: re.Match[str], today: date) -> DayRange | None:
    back = (today.weekday() - WEEKDAYS[match["weekday"]]) % 7
    return shifted(today, -(back or 7))


def _ago(language: Language) -> _Read:
    def read(match: re.Match[str], today: date) -> DayRange | None:
        count = " ".join(match["count"].split())
        number = int(count) if count.isdigit() else language.numbers[count]
        return period_at(today, language.units[match["unit"]], -number)

    return read


def _season(language: Language, *, has_ended: bool) -> _Read:
    months = {**language.seasons, **language.alone}

    def read(match: re.Match[str], today: date) -> DayRange | None:
        year = match.groupdict().get("year")
        first_month = months[match["season"]]
        return season_of(today, first_month, year=int(year) if year else None, has_ended=has_ended)

    return read


def _joined(words: Iterable[str]) -> str:
    longest_first = sorted(words, key=len, reverse=True)
    return "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in longest_first)


def _before(words: Iterable[str]) -> str:
    """One of these words and what parts it from the next: nothing behind an apostrophe."""
    return rf"\b(?:(?:{_joined(words)})(?:(?<=')|[\s-]+))"


def _telling(phrases: Collection[str]) -> frozenset[str]:
    """The longest word of each phrase: a text without it does not have the phrase."""
    return frozenset(max(found, key=len) for phrase in phrases if (found := _TOKEN.findall(phrase)))


def _month_forms(language: Language) -> frozenset[str]:
    return frozenset(f"{month}{end}" for month in language.months for end in ("", *language.after_month))


def _spaced(words: Collection[str]) -> list[str]:
    return [word for word in words if not _unspaced().match(word)]


_WEEKDAY_FORMS = frozenset(form for word in _telling(WEEKDAYS) for form in (word, f"{word}s"))
_TELLING = _telling([*PERIOD_WORDS, *DAY_WORDS]).union(
    _WEEKDAY_FORMS,
    *map(_month_forms, LANGUAGES),
    *({*language.seasons, *language.alone, *language.units} for language in LANGUAGES),
)
"""A text without one of these words, and without a digit, names no day in a script with spaces."""
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_M = r"(?P<month>\d{1,2})"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th|\.|º|er)?"
_BEFORE_YEAR = "in|of|since|during|for|year|en|em|im jahr|nel|в|w|dans|depuis|desde|seit"
_OF = r"(?:of|de|del|di|van)"


@lru_cache(maxsize=1)
def _readers() -> tuple[_Reader, ...]:
    """All readers for scripts with spaces, in the order in which they are tried."""
    months, weekdays = _joined(MONTHS), _joined(_spaced(WEEKDAYS))
    last, names = _joined(LAST), frozenset(MONTHS)
    periods, days = _spaced(PERIOD_WORDS), _spaced(DAY_WORDS)
    dated = (
        (
            rf"\b{_DAY}(?:\s+{_OF})?\s+(?P<month>{months})\b\.?,?(?:\s+(?:{_OF}\s+)?{_YEAR}\b)?",
            _day_and_month,
        ),
        (rf"\b(?P<month>{months})\b\.?\s+{_DAY}\b(?!:),?(?:\s+{_YEAR}\b)?", _day_and_month),
        (rf"\b(?:{last})\s+(?P<month>{months})\b", _last_month_named),
        (rf"\b(?P<month>{months})\s+(?:{last})\b", _last_month_named),
        (rf"\b(?P<month>{months})\b\.?,?\s+(?:{_OF}\s+)?{_YEAR}\b", _month_and_year),
    )
    return (
        _Reader(pattern=rf"(?<!\d){_YEAR}[-/.]{_M}[-/.](?P<day>\d{{1,2}})(?!\d)", read=_numbers),
        _Reader(pattern=rf"(?<!\d)(?P<day>\d{{1,2}})\.\s?{_M}\.\s?{_YEAR}(?!\d)", read=_numbers),
        _Reader(pattern=rf"(?<!\d){_YEAR}-(?P<month>\d\d)(?![\d-])", read=_year_and_month),
        *(_Reader(pattern=pattern, read=read, words=names) for pattern, read in dated),
        *(reader for language in LANGUAGES for reader in _of_language(language)),
        _Reader(pattern=rf"\b(?:{_joined(periods)})\b", read=named_period, words=_telling(periods)),
        _Reader(pattern=rf"\b(?:{_joined(days)})\b", read=named_day, words=_telling(days)),
        _Reader(
            pattern=rf"\b(?P<weekday>{weekdays})s?\b",
            read=_weekday,
            words=_WEEKDAY_FORMS,
        ),
        _Reader(pattern=rf"\b(?:{_BEFORE_YEAR})\s+{_YEAR}\b", read=_year_alone),
    )


def _of_language(language: Language) -> Iterable[_Reader]:
    """What one language says in its own words, so that no word is read as another language's."""
    months, units = frozenset(language.months), frozenset(language.units)
    if months and language.before_month:
        pattern = rf"{_before(language.before_month)}(?P<month>{_joined(months)})\b"
        yield _Reader(pattern=pattern, read=_month_alone, words=months)
    if language.after_month:
        endings = _joined(language.after_month)
        pattern = rf"\b(?P<month>{_joined(months)})(?:{endings})\b"
        yield _Reader(pattern=pattern, read=_month_alone, words=_month_forms(language))
    if language.before_season:
        seasons = _joined(language.seasons)
        named, last = rf"(?P<season>{seasons})", _joined(language.last)
        words = _telling(language.seasons)
        for pattern, has_ended in (
            (rf"\b{named}\s+(?:{_OF}\s+)?{_YEAR}\b", False),
            (rf"\b(?:{last})\s+{named}\b", True),
            (rf"\b{named}\s+(?:{last})\b", True),
            (rf"{_before(language.before_season)}{named}\b", False),
        ):
            yield _Reader(pattern=pattern, read=_season(language, has_ended=has_ended), words=words)
    if language.alone:
        pattern = rf"\b(?P<season>{_joined(language.alone)})\b"
        read = _season(language, has_ended=False)
        yield _Reader(pattern=pattern, read=read, words=frozenset(language.alone))
    for form in language.ago:
        counted = rf"(?P<count>\d{{1,3}}|{_joined(language.numbers)})\s+(?P<unit>{_joined(units)})"
        before, after = (_joined([part]) for part in form.split("{}"))
        pattern = rf"\b{before}{counted}{after}\b"
        yield _Reader(pattern=pattern, read=_ago(language), words=units)
