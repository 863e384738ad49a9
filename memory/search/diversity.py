"""Maximal marginal relevance: the next result is relevant and unlike those already chosen.

After Carbonell and Goldstein, 1998. Likeness is the Jaccard index of the texts' words, or of character pairs
in scripts without spaces. Off unless a setting asks for it. Pure.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise

_WORDS = re.compile(r"\w+")
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2,}")


def word_set(text: str) -> frozenset[str]:
    """The distinct words of `text`, lower-case; runs of an unspaced script as overlapping pairs."""
    text = text.lower() if text.isascii() else unicodedata.normalize("NFC", text).lower()
    words: set[str] = set()
    for run in _UNSPACED.findall(text):
        words.update(left + right for left, right in pairwise(run))
    words.update(_WORDS.findall(_UNSPACED.sub(" ", text)))
    return frozenset(words)


def jaccard(left: frozenset[str], right: frozenset[str]) -> float:
    """Shared words over all words, 0…1; two empty sets are alike."""
    if not left and not right:
        return 1.0
    shared = len(left & right)
    return shared / (len(left) + len(right) - shared)


def mmr_score(relevance: float, likeness: float, lambda_: float) -> float:
    """`λ · relevance − (1 − λ) · likeness`."""
    return lambda_ * relevance - (1 - lambda_) * likeness


def mmr_order(texts: Sequence[str], scores: Sequence[float], lambda_: float) -> list[int]:
    """All positions, in the order in which MMR picks them; ties go to the higher score.

    Relevance is the score itself: stretched to 0…1 first, the published example (`.92 .89 .85 .78`) would
    keep its near-duplicate. `lambda_` is clamped; not a number counts as 0.7.
    """
    lambda_ = 0.7 if math.isnan(lambda_) else min(1.0, max(0.0, lambda_))
    words = [word_set(text) for text in texts]
    left = sorted(range(len(texts)), key=lambda at: -scores[at])
    picked: list[int] = []
    likeness = [0.0] * len(texts)
    while left:
        best = max(left, key=lambda at: (mmr_score(scores[at], likeness[at], lambda_), scores[at]))
        left.remove(best)
        picked.append(best)
        for at in left:
            likeness[at] = max(likeness[at], jaccard(words[at], words[best]))
    return picked
