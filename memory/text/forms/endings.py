"""Prefix search for languages that inflect the end of a word.

Stores stem English. In other languages, a query searches for the beginning of a word, which finds its forms
and compounds: "Termin" finds "Termine" and "Terminplan". The index needs nothing for this.
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
    """Whether these lower-case words show that a question is not in English."""
    return stop_words_for(words) is not ENGLISH or not all(map(str.isascii, words))


def beginning(word: str) -> str:
    """The beginning of a lower-case word that its other forms share; empty if it is not shortened.

    It has six tenths of the word and at least four letters. Short words in Greek, Russian and similar
    scripts, whose last letter marks the case, lose one letter.
    """
    if not _INFLECTED.fullmatch(word):
        return ""
    if _SHORT_ENDED.fullmatch(word):
        return word[:-1]
    return word[: max(_LEAST_LETTERS, math.ceil(_KEPT * len(word)))]
