"""Words of languages that inflect the end of a word: what stays of one is asked for, whatever follows. Pure.

A store stems English. For other languages the beginning of a word stands for its forms, and for the
compounds that begin with it: so "Termin" finds "Termine" and "Terminplan". It costs the index nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection

from nacre.memory.text.forms.words import ENGLISH, stop_words_for

_INFLECTED = re.compile(
    "[a-z\u00df-\u024f\u0370-\u03ff\u0400-\u052f\u0531-\u058f\u0620-\u064a\u0671-\u06d3\u10a0-\u10ff\u1e00-\u1fff]{4,}"
)
_SHORT_ENDED = re.compile("[\u0370-\u03ff\u0400-\u052f\u0531-\u058f\u10a0-\u10ff]{4,5}")
_LEAST_LETTERS = 4
_KEPT = 0.6


def is_inflected(words: Collection[str]) -> bool:
    """Whether a question of these lower-case words shows that it is in another language than English."""
    return stop_words_for(words) is not ENGLISH or not all(map(str.isascii, words))


def beginning(word: str) -> str:
    """The part of a lower-case word that stays in its other forms; empty for words that are cut in no way.

    Six tenths of the word and four letters at least. Where nearly every short word ends in a vowel of its
    case, as in Greek and Russian, one letter less than the word.
    """
    if not _INFLECTED.fullmatch(word):
        return ""
    if _SHORT_ENDED.fullmatch(word):
        return word[:-1]
    return word[: max(_LEAST_LETTERS, math.ceil(_KEPT * len(word)))]
