"""Words that say nothing about a subject, and words for days, in a handful of languages, lower-case.

They stand in `words.json`, which is read once, when a query or a text is first looked at. Lists of stop words
are only used on the query's side: the index keeps every word, so that an exact phrase can still be found.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

_DATA = json.loads(Path(__file__).with_name("words.json").read_bytes())

_STOP_WORDS = {name: frozenset(" ".join(lines).split()) for name, lines in _DATA["stop words"].items()}
ENGLISH, CHINESE = _STOP_WORDS["english"], _STOP_WORDS.pop("chinese")
CHINESE_PARTICLES = frozenset(_DATA["particles"]["chinese"])
"""Characters that mostly stand beside a word and not in one."""
JAPANESE_OR_CHINESE = frozenset(_DATA["particles"]["japanese or chinese"])

MONTHS = {name: number for number, names in enumerate(_DATA["months"], 1) for name in names.split()}
"""Month name → 1…12."""
WEEKDAYS = {name: number for number, names in enumerate(_DATA["weekdays"]) for name in names.split()}
"""Weekday name → 0 (Monday) … 6."""
DAY_WORDS = {word: int(days) for days, words in _DATA["days"].items() for word in words}
"""A word for one day → days from today."""
PERIOD_WORDS = {
    word: (unit, int(offset))
    for unit, offsets in _DATA["periods"].items()
    for offset, words in offsets.items()
    for word in words
}
"""Words for a calendar period → its unit and how many of them from the current one."""
UNITS = {word: unit for unit, words in _DATA["units"].items() for word in words.split()}
"""A unit as written → `day`, `week`, `month` or `year`."""


def stop_words_for(words: Collection[str]) -> frozenset[str]:
    """The list that fits a query of lower-case `words`: that of the language with most words in it.

    English, the first, wins a tie, because its words are the ones that other languages' lists would eat
    (`die`, `was`, `per`).
    """
    return max(_STOP_WORDS.values(), key=lambda stop_words: sum(word in stop_words for word in words))
