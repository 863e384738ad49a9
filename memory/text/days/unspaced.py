"""Days in Chinese, Japanese and Korean, which part no words by spaces. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import date
from functools import lru_cache
from typing import TypeAlias

from nacre.memory.text.days.day_words import DAY_WORDS, LANGUAGES, PERIOD_WORDS, WEEKDAYS
from nacre.memory.text.days.ranges import (
    DayRange,
    date_or_none,
    month_of,
    period_at,
    season_of,
    shifted,
    single,
    weekday_at,
)

_Read: TypeAlias = Callable[["re.Match[str]", date], "DayRange | None"]

_DIGITS = {char: number for number, char in enumerate("一二三四五六七八九", 1)} | {"两": 2, "兩": 2}
_KOREAN_COUNTS = "한 두 세 네 다섯 여섯 일곱 여덟 아홉 열"
_KOREAN = {word: number for number, word in enumerate(_KOREAN_COUNTS.split(), 1)}
_UNITS = {
    "day": ("天", "日", "일"),
    "week": ("周间", "週間", "週", "周", "个星期", "個星期", "星期", "个礼拜", "주일", "주"),
    "month": ("个月", "個月", "ヶ月", "か月", "カ月", "ヵ月", "箇月", "개월", "달", "月"),
    "year": ("年", "년"),
}
_UNIT_OF = {word: unit for unit, words in _UNITS.items() for word in words}
_YEARS_BACK = {word: -offset for word, (unit, offset) in PERIOD_WORDS.items() if unit == "year"}
_SEASONS = {
    word: month for language in LANGUAGES if not language.months for word, month in language.seasons.items()
}


def number_of(text: str) -> int | None:
    """A number up to 99 in digits, in Chinese characters or in Korean words; `None` for anything else."""
    if text.isdecimal():
        return int(text)
    if text in _KOREAN:
        return _KOREAN[text]
    tens, ten, ones = text.rpartition("十")
    if any(part and part not in _DIGITS for part in (tens, ones)):
        return None
    return (_DIGITS[tens] if tens else 1) * 10 * bool(ten) + (_DIGITS[ones] if ones else 0) or None


def _full_date(match: re.Match[str], today: date) -> DayRange | None:
    """A day, month or year: with its year, one counted back from this one, or the latest that has begun."""
    month = number_of(match["month"]) if match["month"] else None
    day = number_of(match["day"]) if match["day"] else None
    if match["year"]:
        year = int(match["year"])
    elif match["back"]:
        year = today.year - _YEARS_BACK["".join(match["back"].split())]
    elif month is None:
        return None
    else:
        has_begun = (month, day or 1) <= (today.month, today.day)
        year = today.year - (not has_begun)
    if month is None:
        return month_of(year, 1, months=12)
    return month_of(year, month) if day is None else single(date_or_none(year, month, day))


def _ago(match: re.Match[str], today: date) -> DayRange | None:
    number = number_of(match["count"])
    return None if number is None else period_at(today, _UNIT_OF[match["unit"]], -number)


def _season(match: re.Match[str], today: date) -> DayRange | None:
    back, year = match["back"], match["year"]
    if back:
        year = today.year - _YEARS_BACK["".join(back.split())]
    has_ended = bool(match["last"])
    return season_of(today, _SEASONS[match["season"]], year=int(year) if year else None, has_ended=has_ended)


def _weekday(match: re.Match[str], today: date) -> DayRange | None:
    weekday = WEEKDAYS[match["weekday"]]
    if match["last"]:
        return weekday_at(today, weekday, -1)
    return shifted(today, -((today.weekday() - weekday) % 7 or 7))


def named_period(match: re.Match[str], today: date) -> DayRange | None:
    """The week, month, year or weekend of a match of `PERIOD_WORDS`."""
    return period_at(today, *PERIOD_WORDS[" ".join(match[0].split())])


def named_day(match: re.Match[str], today: date) -> DayRange | None:
    """The day of a match of `DAY_WORDS`."""
    return shifted(today, DAY_WORDS[" ".join(match[0].split())])


def _joined(words: Iterable[str]) -> str:
    own = [word for word in words if word[0] >= "\u1100"]
    return "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in sorted(own, key=len, reverse=True))


_NUMBER = r"(?:\d{1,3}|[一二三四五六七八九十]{1,3})"
_COUNT = rf"(?P<count>\d{{1,3}}|[一二两兩三四五六七八九十]{{1,3}}|{_joined(_KOREAN)})"
_YEAR = rf"(?:(?<!\d)(?P<year>(?:19|20)\d\d)\s?[年년]|(?P<back>{_joined(_YEARS_BACK)}))"
_LONG_SEASONS = [word for word in _SEASONS if len(word) > 1]
"""The shorter ones stand in names and other words, too."""


@lru_cache(maxsize=1)
def unspaced_readers() -> tuple[tuple[re.Pattern[str], _Read], ...]:
    """Patterns and what each says of a day, in the order in which they are tried; made on the first call."""
    readers: tuple[tuple[str, _Read], ...] = (
        (rf"{_COUNT}\s?(?P<unit>{_joined(_UNIT_OF)})\s?(?:以|之)?[前전]", _ago),
        (
            rf"(?:{_YEAR}|(?P<last>지난|上个|上個|この前の))\s?の?\s?(?P<season>{_joined(_SEASONS)})",
            _season,
        ),
        (
            rf"{_YEAR}(?:\s?の?\s?(?P<month>{_NUMBER})\s?[月월](?:\s?(?P<day>{_NUMBER})\s?[日号號일])?)?",
            _full_date,
        ),
        (
            rf"(?P<month>{_NUMBER})\s?[月월](?![曜間])(?:\s?(?P<day>{_NUMBER})\s?[日号號일])?"
            "(?P<year>)(?P<back>)",
            _full_date,
        ),
        (
            rf"(?P<last>上个?|上個|先週の?|지난\s?주\s?|저번\s?주\s?)?(?P<weekday>{_joined(WEEKDAYS)})",
            _weekday,
        ),
        (rf"(?:{_joined(PERIOD_WORDS)})", named_period),
        (rf"(?:{_joined(DAY_WORDS)})", named_day),
        (rf"(?P<season>{_joined(_LONG_SEASONS)})(?P<year>)(?P<back>)(?P<last>)", _season),
    )
    return tuple((re.compile(pattern), read) for pattern, read in readers)
