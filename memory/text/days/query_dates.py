"""Ranges of days, and those that a query names: "yesterday", "2026-02-10", 上周, "vor zwei Wochen", "летом".

The ranges never filter anything. They only raise chunks of these days, because "the trip in May" may have
been noted in June. The last part of this file reads Chinese, Japanese and Korean, which have no spaces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import date, timedelta
from functools import cache, cached_property, lru_cache
from typing import NamedTuple, TypeAlias

from nacre.memory.text.days.day_words import (
    DAY_WORDS,
    LANGUAGES,
    LAST,
    MONTHS,
    PERIOD_WORDS,
    WEEKDAYS,
    Language,
)
from nacre.record import Record


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


_Read: TypeAlias = Callable[["re.Match[str]", date], "DayRange | None"]

_TOKEN = re.compile(r"[^\W\d_]+")


@cache
def _unspaced() -> re.Pattern[str]:
    return re.compile(r"[\u0e00-\u0eff\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff]")


class _Reader(Record):
    """A pattern and its meaning, only used for texts with one of `words`, or with a digit.

    Patterns are compiled on first use, because a short command needs few of them.
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
    """The ranges that `text` names, in order without repeats; impossible dates are skipped.

    A day, month or season without a year is the latest one that is not after `today`.
    """
    return days_and_rest(text, today)[0]


def days_and_rest(text: str, today: date) -> tuple[tuple[DayRange, ...], str]:
    """The ranges that `text` names, and the text in lower case without the words that name them."""
    rest, found = text.lower().replace("\u2019", "'"), []
    tokens, has_digit = set(_TOKEN.findall(rest)), any(char.isdigit() for char in rest)
    patterns = [] if rest.isascii() or not _unspaced().search(rest) else list(_cjk_readers())
    if has_digit or not _TELLING.isdisjoint(tokens):
        found_here = (reader for reader in _readers() if reader.may_find(tokens, has_digit=has_digit))
        patterns += [(reader.compiled, reader.read) for reader in found_here]
    for pattern, read in patterns:
        for match in pattern.finditer(rest):
            days = read(match, today)
            if days is not None:
                found.append((match.start(), days))
                rest = rest[: match.start()] + " " * (match.end() - match.start()) + rest[match.end() :]
    return tuple(dict.fromkeys(days for _, days in sorted(found))), rest


def with_dates(text: str, today: date) -> str:
    """The text with the date behind each word for a day relative to `today`: "yesterday (2026-03-13)".

    Words for today, for more than a day ("last week") and for a weekday alone ("on Friday", which may be the
    next one) are left alone, and so is a word with a parenthesis behind it.
    """
    lower = text.lower().replace("\u2019", "'")
    if len(lower) != len(text):
        return text  # the positions of some letters are lost in lower case
    found: dict[int, tuple[int, date]] = {}
    for reader in _relative_readers():
        for match in reader.compiled.finditer(lower):
            days = None if text[slice(*match.span())] == "Morgen" else reader.read(match, today)
            is_free = not any(
                start < match.end() and match.start() < end for start, (end, _) in found.items()
            )
            if is_free and days is not None and days.days == 1 and days.first != today:
                found[match.start()] = (match.end(), days.first)
    for end, day in sorted(found.values(), reverse=True):
        if not re.match(r"\s*[(\uff08]", text[end:]):
            text = f"{text[:end]} ({day.isoformat()}){text[end:]}"
    return text


def without_dates(text: str) -> str:
    """The text without what `with_dates` put into it."""
    return re.sub(r" \(\d{4}-\d\d-\d\d\)", "", text)


@lru_cache(maxsize=1)
def _relative_readers() -> tuple[_Reader, ...]:
    last, weekdays = _joined(LAST), _joined(_spaced(WEEKDAYS))
    days = [word for word in _spaced(DAY_WORDS) if word != "hier"]  # which is "here" in German and Dutch
    agos = (reader for language in LANGUAGES for reader in _ago_readers(language))
    return (
        *agos,
        _Reader(pattern=_CJK_AGO, read=_cjk_ago),
        _Reader(pattern=rf"\b(?:{_joined(days)})\b", read=_named_day),
        _Reader(pattern=_cjk_joined(DAY_WORDS), read=_named_day),
        # German writes "tomorrow" small and "morning" with a capital.
        _Reader(pattern=r"(?<!heute )(?<!gestern )\bmorgen\b", read=lambda _match, today: shifted(today, 1)),
        _Reader(pattern=rf"\b(?:{last})\s+(?P<weekday>{weekdays})\b", read=_weekday),
        _Reader(pattern=rf"\b(?P<weekday>{weekdays})\s+(?:{last})\b", read=_weekday),
    )


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
    return rf"\b(?:(?:{_joined(words)})(?:(?<=')|[\s-]+))"


def _telling(phrases: Collection[str]) -> frozenset[str]:
    # A text without the longest word of a phrase does not have the phrase.
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
"""In scripts with spaces, a text without one of these words and without a digit names no day."""
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_M = r"(?P<month>\d{1,2})"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th|\.|º|er)?"
_BEFORE_YEAR = "in|of|since|during|for|year|en|em|im jahr|nel|в|w|dans|depuis|desde|seit"
_OF = r"(?:of|de|del|di|van)"


@lru_cache(maxsize=1)
def _readers() -> tuple[_Reader, ...]:
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
        _Reader(pattern=rf"\b(?:{_joined(periods)})\b", read=_named_period, words=_telling(periods)),
        _Reader(pattern=rf"\b(?:{_joined(days)})\b", read=_named_day, words=_telling(days)),
        _Reader(pattern=rf"\b(?P<weekday>{weekdays})s?\b", read=_weekday, words=_WEEKDAY_FORMS),
        _Reader(pattern=rf"\b(?:{_BEFORE_YEAR})\s+{_YEAR}\b", read=_year_alone),
    )


def _of_language(language: Language) -> Iterable[_Reader]:
    # By language, so that no word is read as one of another language.
    months = frozenset(language.months)
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
    yield from _ago_readers(language)


def _ago_readers(language: Language) -> Iterable[_Reader]:
    units = frozenset(language.units)
    for form in language.ago:
        counted = rf"(?P<count>\d{{1,3}}|{_joined(language.numbers)})\s+(?P<unit>{_joined(units)})"
        before, after = (_joined([part]) for part in form.split("{}"))
        pattern = rf"\b{before}{counted}{after}\b"
        yield _Reader(pattern=pattern, read=_ago(language), words=units)


_CJK_DIGITS = {char: number for number, char in enumerate("一二三四五六七八九", 1)} | {"两": 2, "兩": 2}
_KOREAN_COUNTS = "한 두 세 네 다섯 여섯 일곱 여덟 아홉 열"
_KOREAN = {word: number for number, word in enumerate(_KOREAN_COUNTS.split(), 1)}
_CJK_UNITS = {
    "day": ("天", "日", "일"),
    "week": ("周间", "週間", "週", "周", "个星期", "個星期", "星期", "个礼拜", "주일", "주"),
    "month": ("个月", "個月", "ヶ月", "か月", "カ月", "ヵ月", "箇月", "개월", "달", "月"),
    "year": ("年", "년"),
}
_CJK_UNIT_OF = {word: unit for unit, words in _CJK_UNITS.items() for word in words}
_CJK_YEARS_BACK = {word: -offset for word, (unit, offset) in PERIOD_WORDS.items() if unit == "year"}
_CJK_SEASONS = {
    word: month for language in LANGUAGES if not language.months for word, month in language.seasons.items()
}


def number_of(text: str) -> int | None:
    """A number up to 99 in digits, Chinese characters or Korean words; `None` for anything else."""
    if text.isdecimal():
        return int(text)
    if text in _KOREAN:
        return _KOREAN[text]
    tens, ten, ones = text.rpartition("十")
    if any(part and part not in _CJK_DIGITS for part in (tens, ones)):
        return None
    return (_CJK_DIGITS[tens] if tens else 1) * 10 * bool(ten) + (_CJK_DIGITS[ones] if ones else 0) or None


def _cjk_full_date(match: re.Match[str], today: date) -> DayRange | None:
    month = number_of(match["month"]) if match["month"] else None
    day = number_of(match["day"]) if match["day"] else None
    if match["year"]:
        year = int(match["year"])
    elif match["back"]:
        year = today.year - _CJK_YEARS_BACK["".join(match["back"].split())]
    elif month is None:
        return None
    else:
        has_begun = (month, day or 1) <= (today.month, today.day)
        year = today.year - (not has_begun)
    if month is None:
        return month_of(year, 1, months=12)
    return month_of(year, month) if day is None else single(date_or_none(year, month, day))


def _cjk_ago(match: re.Match[str], today: date) -> DayRange | None:
    number = number_of(match["count"])
    return None if number is None else period_at(today, _CJK_UNIT_OF[match["unit"]], -number)


def _cjk_season(match: re.Match[str], today: date) -> DayRange | None:
    back, year = match["back"], match["year"]
    if back:
        year = today.year - _CJK_YEARS_BACK["".join(back.split())]
    has_ended = bool(match["last"])
    return season_of(
        today, _CJK_SEASONS[match["season"]], year=int(year) if year else None, has_ended=has_ended
    )


def _cjk_weekday(match: re.Match[str], today: date) -> DayRange | None:
    weekday = WEEKDAYS[match["weekday"]]
    if match["last"]:
        return weekday_at(today, weekday, -1)
    return shifted(today, -((today.weekday() - weekday) % 7 or 7))


def _named_period(match: re.Match[str], today: date) -> DayRange | None:
    return period_at(today, *PERIOD_WORDS[" ".join(match[0].split())])


def _named_day(match: re.Match[str], today: date) -> DayRange | None:
    return shifted(today, DAY_WORDS[" ".join(match[0].split())])


def _cjk_joined(words: Iterable[str]) -> str:
    own = [word for word in words if word[0] >= "\u1100"]
    return "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in sorted(own, key=len, reverse=True))


_CJK_NUMBER = r"(?:\d{1,3}|[一二三四五六七八九十]{1,3})"
_CJK_COUNT = rf"(?P<count>\d{{1,3}}|[一二两兩三四五六七八九十]{{1,3}}|{_cjk_joined(_KOREAN)})"
_CJK_AGO = rf"{_CJK_COUNT}\s?(?P<unit>{_cjk_joined(_CJK_UNIT_OF)})\s?(?:以|之)?[前전]"
_CJK_YEAR = rf"(?:(?<!\d)(?P<year>(?:19|20)\d\d)\s?[年년]|(?P<back>{_cjk_joined(_CJK_YEARS_BACK)}))"
_CJK_LONG_SEASONS = [word for word in _CJK_SEASONS if len(word) > 1]
"""Shorter ones are also in names and other words."""


@lru_cache(maxsize=1)
def _cjk_readers() -> tuple[tuple[re.Pattern[str], _Read], ...]:
    readers: tuple[tuple[str, _Read], ...] = (
        (_CJK_AGO, _cjk_ago),
        (
            rf"(?:{_CJK_YEAR}|(?P<last>지난|上个|上個|この前の))\s?の?\s?(?P<season>{_cjk_joined(_CJK_SEASONS)})",
            _cjk_season,
        ),
        (
            rf"{_CJK_YEAR}(?:\s?の?\s?(?P<month>{_CJK_NUMBER})\s?[月월](?:\s?(?P<day>{_CJK_NUMBER})\s?[日号號일])?)?",
            _cjk_full_date,
        ),
        (
            rf"(?P<month>{_CJK_NUMBER})\s?[月월](?![曜間])(?:\s?(?P<day>{_CJK_NUMBER})\s?[日号號일])?"
            "(?P<year>)(?P<back>)",
            _cjk_full_date,
        ),
        (
            rf"(?P<last>上个?|上個|先週の?|지난\s?주\s?|저번\s?주\s?)?(?P<weekday>{_cjk_joined(WEEKDAYS)})",
            _cjk_weekday,
        ),
        (rf"(?:{_cjk_joined(PERIOD_WORDS)})", _named_period),
        (rf"(?:{_cjk_joined(DAY_WORDS)})", _named_day),
        (rf"(?P<season>{_cjk_joined(_CJK_LONG_SEASONS)})(?P<year>)(?P<back>)(?P<last>)", _cjk_season),
    )
    return tuple((re.compile(pattern), read) for pattern, read in readers)
