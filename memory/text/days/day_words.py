"""Words for days, months, seasons and spans of time in several languages, lower-case.

`day_words.json` is read once, for the first question or text. Its lists are separated by spaces; `_` is a
space within an entry.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nacre.record import Record

_SEASON_BEGINS = {"spring": 3, "summer": 6, "autumn": 9, "winter": 12}
"""The first month of each season, as meteorologists of the northern hemisphere define it."""


class Language(Record):
    """The words of one language. `months`, `weekdays` and `seasons` map to numbers.

    A season maps to its first month; `alone` has forms of seasons that include "in". `ago` are patterns
    around a number and a unit, such as `{} ago`. `before_month` are words, and `after_month` endings, that
    make a date of the name of a month; `before_season` are words that do so for a season.
    """

    months: Mapping[str, int]
    weekdays: Mapping[str, int]
    seasons: Mapping[str, int]
    alone: Mapping[str, int]
    units: Mapping[str, str]
    numbers: Mapping[str, int]
    ago: tuple[str, ...]
    last: tuple[str, ...]
    before_month: tuple[str, ...]
    after_month: tuple[str, ...]
    before_season: tuple[str, ...]


def _numbered(lists: list[str], first: int) -> dict[str, int]:
    return {word: number for number, names in enumerate(lists, first) for word in _words(names)}


def _words(names: str) -> Iterator[str]:
    return (name.replace("_", " ") for name in names.split())


def _seasons(names: Mapping[str, str]) -> dict[str, int]:
    return {word: _SEASON_BEGINS[season] for season, words in names.items() for word in _words(words)}


def _language(data: Mapping[str, Any]) -> Language:
    before_month = tuple(_words(data.get("in", "")))
    return Language(
        months=_numbered(data.get("months", []), 1),
        weekdays=_numbered(data["weekdays"], 0),
        seasons=_seasons(data["seasons"]),
        alone=_seasons(data.get("seasons alone", {})),
        units={word: unit for unit, words in data.get("units", {}).items() for word in _words(words)},
        numbers=_numbered(data.get("numbers", []), 1),
        ago=tuple(data.get("ago", ())),
        last=tuple(_words(data.get("last", ""))),
        before_month=before_month,
        after_month=tuple(data.get("after month", ())),
        before_season=(*before_month, *_words(data.get("the", ""))),
    )


_DATA: Mapping[str, Any] = json.loads(Path(__file__).with_name("day_words.json").read_bytes())

LANGUAGES = tuple(_language(data) for data in _DATA.values())
MONTHS = {name: number for language in LANGUAGES for name, number in language.months.items()}
"""Month name → 1…12."""
WEEKDAYS = {name: number for language in LANGUAGES for name, number in language.weekdays.items()}
"""Weekday name → 0 (Monday) … 6."""
LAST = frozenset(word for language in LANGUAGES for word in language.last)
"""Words that mean "last" with a month, weekday or season."""
DAY_WORDS = {
    word: int(days) for data in _DATA.values() for days, words in data["days"].items() for word in words
}
"""A word for one day → days from today."""
PERIOD_WORDS = {
    word: (unit, int(offset))
    for data in _DATA.values()
    for unit, offsets in data["periods"].items()
    for offset, words in offsets.items()
    for word in words
}
"""Words for a week, month, year or weekend → the unit, and its distance from the current one."""
