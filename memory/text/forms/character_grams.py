"""Scripts without spaces: what the index stores of them, and what a query searches for.

The index has every character and every pair of neighbors, so that no text needs to be split into words;
adjacent Latin words and digits are separate words. A query leaves out Chinese words that say nothing, such as
觉得 or 一下, and pairs of a particle and a word. Hangul is included, because its particles hide the word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

from nacre.memory.text.forms.words import CHINESE, CHINESE_PARTICLES, JAPANESE_OR_CHINESE

_RANGES = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff\u3005\u3007"
)
_KANA = re.compile("[\u3040-\u30ff]")
_WORD_CHARS = 3


@cache  # as for the next two, English searches do not need it
def gram_run() -> re.Pattern[str]:
    """Matches adjacent characters of such scripts, which are not ASCII."""
    return re.compile(f"[{_RANGES}]+")


@cache
def _seam() -> re.Pattern[str]:
    return re.compile(f"(?<=[{_RANGES}])(?=[^\\W{_RANGES}]|[#@$])|(?<=[^\\W{_RANGES}])(?=[{_RANGES}])")


@cache
def _chinese_word() -> re.Pattern[str]:
    return re.compile("|".join(sorted(CHINESE, key=lambda word: (-len(word), word))))


def seamed(text: str) -> str:
    """Inserts a space wherever such a script touches another one: 用Python写 has three words."""
    if text.isascii() or not gram_run().search(text):
        return text
    return _seam().sub(" ", text)


def index_grams(text: str) -> Iterator[str]:
    """Every character and every pair of neighbors."""
    for run in gram_run().findall(text):
        yield from run
        yield from _pairs(run)


def query_grams(text: str) -> list[str]:
    """The characters and pairs to search for; all pairs if nothing else is left."""
    runs = gram_run().findall(text)
    japanese = _KANA.search(text) is not None
    found: list[str] = []
    for run in runs:
        for word in [run] if japanese else _chinese_word().split(run):
            found += _significant(word, alone=len(run) <= _WORD_CHARS)
    return found or [gram for run in runs for gram in _all(run)]


def _significant(piece: str, *, alone: bool) -> Iterator[str]:
    # A piece `alone` is as short as a word: in 目的, the second character is not a particle.
    yield from (char for char in piece if char not in JAPANESE_OR_CHINESE)
    for pair in _pairs(piece):
        if alone or CHINESE_PARTICLES.isdisjoint(pair):
            yield pair


def _all(run: str) -> Iterator[str]:
    yield from (run,) if len(run) == 1 else _pairs(run)


def _pairs(run: str) -> Iterator[str]:
    for left, right in pairwise(run):
        yield left + right
