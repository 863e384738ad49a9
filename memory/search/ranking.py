"""From candidates to an ordered, explained list: fusion, threshold, decay and diversity.

A `minScore` that is set applies to the final score, after decay. The default one only decides, before decay,
whether anything fits, so that an old exact hit can sink but not vanish. Neither depends on the requested
number of results. Decay is off by default, because it buries old facts (docs/engineering/recall.md): a dated
note counts half after each half-life, and curated notes never decay.

Diversity, off by default, is maximal marginal relevance (Carbonell and Goldstein, 1998). It compares texts by
the Jaccard index of their words, or of character pairs in scripts without spaces.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from nacre.memory.contracts.records import Chunk, ChunkPlace, HitExplanation
from nacre.memory.contracts.store import Scores
from nacre.memory.search.scoring import (
    EXAMINED,
    LEAST_SHARE,
    USUAL_MIN_SCORE,
    Candidates,
    QueryFacts,
    fuse,
    seed_scores,
)
from nacre.record import Record

if TYPE_CHECKING:
    from nacre.memory.contracts.settings import HybridSettings

_DATED = re.compile(r"(?:^|/)memory/(?:.*\D)??(\d{4})-(\d{2})-(\d{2})(?!\d)[^/]*\.md$")
_EVERGREEN = re.compile(r"(?:MEMORY|memory)\.md$|memory/")
_WORDS = re.compile(r"\w+")

DIVERSE_POOL = 60
"""The number of the best candidates from which diversity chooses."""


class Ranked(Record):
    """A chunk with its score, how the score came about, and how `related` it is to the question."""

    chunk_id: int
    explanation: HitExplanation
    related: float | None = None


def rank(
    found: Candidates,
    facts: QueryFacts,
    settings: HybridSettings,
    *,
    count: int,
    min_score: float | None,
    now: datetime,
) -> list[Ranked]:
    """The best `count` chunks that are good enough, those that tie with the last one, and the nearest.

    They are in order, the best first. What is near by vector may correct a better one.
    Each final score must reach `min_score`. Without one, only the best must reach `USUAL_MIN_SCORE`, before
    decay; with the original formula, each must.
    """
    fused = seed_scores(found, facts) if settings.fusion == "seed" else fuse(found, facts)
    decays: dict[int, float] = {}
    if settings.temporal_decay.enabled:
        half_life_days = settings.temporal_decay.half_life_days
        decays = {
            chunk_id: chunk_decay(place, now=now, half_life_days=half_life_days)
            for chunk_id, place in found.places.items()
        }
    if min_score is None:
        best = max(fused.values(), default=0.0)
        literal = settings.fusion == "seed" or best < USUAL_MIN_SCORE
        # With decay, a chunk far behind may come first because it is newer.
        least = USUAL_MIN_SCORE if literal else 0.0 if decays else LEAST_SHARE * best
        fused = {chunk_id: score for chunk_id, score in fused.items() if score >= least}
    final = {chunk_id: score * decays.get(chunk_id, 1.0) for chunk_id, score in fused.items()}
    if min_score is not None:
        final = {chunk_id: score for chunk_id, score in final.items() if score >= min_score}
    order = sorted(final, key=final.__getitem__, reverse=True)
    last = final[order[:count][-1]] if order else 0.0
    in_words, in_vectors = _ranks(found.words), _ranks(found.nearest)
    return [
        Ranked(
            chunk_id=chunk_id,
            explanation=HitExplanation(
                lexical_rank=in_words.get(chunk_id),
                lexical_score=found.words.get(chunk_id),
                vector_rank=in_vectors.get(chunk_id),
                cosine=found.cosines.get(chunk_id),
                fused=fused[chunk_id],
                decay_factor=decays.get(chunk_id, 1.0),
                mmr_rank=None,
                final=final[chunk_id],
            ),
            related=found.related.get(chunk_id),
        )
        for chunk_id in order
        if final[chunk_id] >= last or _is_near(in_vectors.get(chunk_id))
    ]


def best_of(lists: Sequence[Sequence[Ranked]], count: int) -> tuple[list[Ranked], dict[int, int]]:
    """The best `count` of several wordings' lists, ties with the last and what is near, and the list of each.

    A chunk gets its best score, because a wording that fits nothing must not weaken one that fits.
    """
    best: dict[int, tuple[float, int, Ranked]] = {}
    for number, ranked in enumerate(lists):
        for item in ranked:
            known = best.get(item.chunk_id)
            if known is None or item.explanation.final > known[0]:
                best[item.chunk_id] = (item.explanation.final, number, item)
    order = sorted(best.values(), key=lambda entry: -entry[0])
    last = order[:count][-1][0] if order else 0.0
    kept = [entry for entry in order if entry[0] >= last or _is_near(entry[2].explanation.vector_rank)]
    return [item for _, _, item in kept], {item.chunk_id: number for _, number, item in kept}


def placed(ranked: Sequence[Ranked], chunks: Mapping[int, Chunk]) -> list[Ranked]:
    """Sorts ties by path and place in the file, so that the order does not depend on the index."""

    def best_first(item: Ranked) -> tuple[float, str, int]:
        chunk = chunks[item.chunk_id]
        return (-item.explanation.final, chunk.path, chunk.ordinal)

    return sorted(ranked, key=best_first)


def _is_near(vector_rank: int | None) -> bool:
    return vector_rank is not None and vector_rank <= EXAMINED


def _ranks(scores: Scores) -> dict[int, int]:
    return {chunk_id: place for place, chunk_id in enumerate(scores, start=1)}


def decay_factor(age_days: float, half_life_days: float) -> float:
    """`exp(−ln 2 / half-life · age)`: 1 for today and later days, 0.5 after one half-life.

    The factor is 1 if the half-life is not a positive number.
    """
    if not (math.isfinite(half_life_days) and half_life_days > 0) or not math.isfinite(age_days):
        return 1.0
    return math.exp(-math.log(2) / half_life_days * max(0.0, age_days))


def note_day(path: str) -> date | None:
    """The day in the path of a daily log, such as `memory/2026-02/2026-02-10-standup.md`, or `None`."""
    match = _DATED.search(path.replace("\\", "/").removeprefix("./"))
    if match is None:
        return None
    try:
        return date(*map(int, match.groups()))
    except ValueError:
        return None


def is_evergreen(place: ChunkPlace) -> bool:
    """Whether a chunk never decays: it is in curated memory or in an undated file under `memory/`."""
    path = place.path.replace("\\", "/").removeprefix("./")
    return place.source == "memory" and note_day(path) is None and _EVERGREEN.match(path) is not None


def chunk_decay(place: ChunkPlace, *, now: datetime, half_life_days: float) -> float:
    """The decay factor of a chunk, by the day in its path or its file's last change; 1 if evergreen."""
    day = note_day(place.path)
    if day is not None:
        return decay_factor((now.date() - day).days, half_life_days)
    if is_evergreen(place):
        return 1.0
    seconds = now.timestamp() - place.changed_at_ns / 1e9
    return decay_factor(seconds / 86_400, half_life_days)


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
