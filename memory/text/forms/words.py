"""Words that say nothing about a subject, and small words that say what is so, lower-case.

They stand in `words.json`, which is read once, when a query or a text is first looked at. Lists of stop words
are only used on the query's side: the index keeps every word, so that an exact phrase can still be found.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path

_DATA = json.loads(Path(__file__).with_name("words.json").read_bytes())

NAMED_STOP_WORDS = {name: frozenset(" ".join(lines).split()) for name, lines in _DATA["stop words"].items()}
"""The list of each language that writes words with spaces, by its English name in small letters."""
ENGLISH, CHINESE = NAMED_STOP_WORDS["english"], NAMED_STOP_WORDS.pop("chinese")
CHINESE_PARTICLES = frozenset(_DATA["particles"]["chinese"])
"""Characters that mostly stand beside a word and not in one."""
JAPANESE_OR_CHINESE = frozenset(_DATA["particles"]["japanese or chinese"])


def claim_words(kind: str) -> frozenset[str]:
    """The words of all languages that say what a line claims; `kind` is one of the table's: "is", "not" …"""
    languages: Mapping[str, str] = _DATA["claims"][kind]
    return frozenset(word for words in languages.values() for word in words.split(", "))


def stop_words_for(words: Collection[str]) -> frozenset[str]:
    """The list that fits a query of lower-case `words`: that of the language with most words in it.

    English, the first, wins a tie, because its words are the ones that other languages' lists would eat
    (`die`, `was`, `per`).
    """
    return max(NAMED_STOP_WORDS.values(), key=lambda stop_words: sum(word in stop_words for word in words))
