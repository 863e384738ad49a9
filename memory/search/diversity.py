"""Diversity among hits, off by default: maximal marginal relevance (Carbonell and Goldstein, 1998).

Texts are compared by the Jaccard index of their words, or of character pairs in scripts without spaces.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise

from nacre.memory.contracts.records import Chunk
from nacre.memory.search.ranking import Ranked

_WORDS = re.compile(r"\w+")

DIVERSE_POOL = 60
"""The number of the best candidates from which diversity chooses."""


def diverse(
    ranked: Sequence[Ranked], chunks: Mapping[int, Chunk], lambda_: float, count: int
) -> list[Ranked]:
    """The `count` chunks that diversity picks first, sorted by score as in the published example."""
    pool = ranked[:DIVERSE_POOL]
    texts = [chunks[item.chunk_id].text for item in pool]
    order = mmr_order(texts, [item.explanation.final for item in pool], lambda_)
    places = {at: place for place, at in enumerate(order[:count], start=1)}
    return [
        replace(item, explanation=replace(item.explanation, mmr_rank=places[at]))
        for at, item in enumerate(pool)
        if at in places
    ]


@cache  # needed only when diversity is on
def _unspaced() -> re.Pattern[str]:
    return re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2,}")


def word_set(text: str) -> frozenset[str]:
    """The distinct lower-case words of a text; runs of an unspaced script as overlapping pairs."""
    text = text.lower() if text.isascii() else unicodedata.normalize("NFC", text).lower()
    words: set[str] = set()
    for run in _unspaced().findall(text):
        words.update(left + right for left, right in pairwise(run))
    words.update(_WORDS.findall(_unspaced().sub(" ", text)))
    return frozenset(words)


def jaccard(left: frozenset[str], right: frozenset[str]) -> float:
    """Shared words divided by all words; 1 for two empty sets."""
    if not left and not right:
        return 1.0
    shared = len(left & right)
    return shared / (len(left) + len(right) - shared)


def mmr_score(relevance: float, likeness: float, lambda_: float) -> float:
    """`λ · relevance − (1 − λ) · likeness`."""
    return lambda_ * relevance - (1 - lambda_) * likeness


def mmr_order(texts: Sequence[str], scores: Sequence[float], lambda_: float) -> list[int]:
    """All positions in the order in which MMR picks them; ties go to the higher score.

    Relevance is the score itself: if it were stretched to 0…1, the published example (`.92 .89 .85 .78`)
    would keep its near-duplicate. `lambda_` is clamped; NaN counts as 0.7.
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
