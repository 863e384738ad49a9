"""Scripts that write no spaces: what the index keeps of them, and what a query asks of it.

The index keeps every character and every pair of neighbours, so that nothing has to be cut into words; Latin
words and digits that touch them are words of their own. A query leaves out what says nothing: Chinese words
such as 觉得 or 一下, and pairs across the seam between a particle and a word. Hangul is here too, because its
particles hide the word. Pure text in, text out.
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


@cache  # made when there is such a text: an English search would wait for it, as for the next two
def gram_run() -> re.Pattern[str]:
    """Characters of such scripts that stand together; no ASCII is among them."""
    return re.compile(f"[{_RANGES}]+")


@cache
def _seam() -> re.Pattern[str]:
    return re.compile(f"(?<=[{_RANGES}])(?=[^\\W{_RANGES}]|[#@$])|(?<=[^\\W{_RANGES}])(?=[{_RANGES}])")


@cache
def _chinese_word() -> re.Pattern[str]:
    return re.compile("|".join(sorted(CHINESE, key=lambda word: (-len(word), word))))


def seamed(text: str) -> str:
    """The text with a blank wherever such a script touches another one: 用Python写 has three words."""
    if text.isascii() or not gram_run().search(text):
        return text
    return _seam().sub(" ", text)


def index_grams(text: str) -> Iterator[str]:
    """Every character and every pair of neighbours."""
    for run in gram_run().findall(text):
        yield from run
        yield from _pairs(run)


def query_grams(text: str) -> list[str]:
    """The characters and pairs worth asking for; all pairs when nothing else is left."""
    runs = gram_run().findall(text)
    japanese = _KANA.search(text) is not None
    told: list[str] = []
    for run in runs:
        for word in [run] if japanese else _chinese_word().split(run):
            told += _told(word, alone=len(run) <= _WORD_CHARS)
    return told or [gram for run in runs for gram in _all(run)]


def _told(piece: str, *, alone: bool) -> Iterator[str]:
    """`alone` says that the piece stands in a run as short as a word: 目的 is no particle behind 目."""
    yield from (char for char in piece if char not in JAPANESE_OR_CHINESE)
    for pair in _pairs(piece):
        if alone or CHINESE_PARTICLES.isdisjoint(pair):
            yield pair


def _all(run: str) -> Iterator[str]:
    yield from (run,) if len(run) == 1 else _pairs(run)


def _pairs(run: str) -> Iterator[str]:
    for left, right in pairwise(run):
        yield left + right
