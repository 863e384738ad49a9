"""In which languages texts are, as far as their letters and small words tell. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import cache

from nacre.memory.text.forms.words import NAMED_STOP_WORDS

LEAST_SHARE = 0.05
"""A language that fewer of the texts are in is not named: a quote makes no language of the notes."""
_LOOKED_AT_CHARS = 800
_LEAST_SMALL_WORDS = 2
_DENSE = 3
"""So many Latin letters say as much as one character of Chinese, Japanese or Korean."""

_SCRIPTS = {
    "Japanese": "\u3040-\u30ff",
    "Chinese": "\u3400-\u9fff",
    "Korean": "\uac00-\ud7af",
    "Cyrillic": "\u0400-\u04ff",
    "Arabic": "\u0600-\u06ff",
    "Hindi": "\u0900-\u097f",
    "Hebrew": "\u0590-\u05ff",
    "Greek": "\u0370-\u03ff",
    "Thai": "\u0e00-\u0e7f",
    "Latin": "a-zA-Z\u00c0-\u024f",
}
_OF_SCRIPT = {"Latin": set(NAMED_STOP_WORDS) - {"russian"}, "Cyrillic": {"russian"}}


@cache  # a search only reads which languages a pass found
def _patterns() -> dict[str, re.Pattern[str]]:
    return {name: re.compile(f"[{letters}]") for name, letters in _SCRIPTS.items()}


def languages_in(texts: Iterable[str]) -> tuple[str, ...]:
    """The languages of a good part of the texts, by name and in alphabetical order.

    A script stands for its main language where telling them apart is not needed to ask a question.
    """
    counted = Counter(filter(None, map(language_of, texts)))
    least = LEAST_SHARE * counted.total()
    return tuple(sorted(name for name, count in counted.items() if count >= least))


def language_of(text: str) -> str:
    """The language of a text by its English name; empty where it is too short, or none that is known."""
    text = text[:_LOOKED_AT_CHARS]
    letters = {name: len(pattern.findall(text)) for name, pattern in _patterns().items()}
    for dense in ("Japanese", "Chinese", "Korean"):
        letters[dense] *= _DENSE
    if letters["Japanese"] * 5 > letters["Chinese"]:  # kana stand between the characters that both share
        letters["Japanese"] += letters.pop("Chinese")
    script = max(letters, key=letters.__getitem__)
    if not letters[script]:
        return ""
    if script not in _OF_SCRIPT:
        return script
    words = Counter(re.findall(r"[^\W\d_]+", text.lower()))
    small = {
        name: sum(words[word] for word in NAMED_STOP_WORDS[name] if word in words)
        for name in sorted(_OF_SCRIPT[script])
    }
    best = max(small, key=small.__getitem__)
    return best.capitalize() if small[best] >= _LEAST_SMALL_WORDS else ""
