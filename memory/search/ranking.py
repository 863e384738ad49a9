"""From candidates to an ordered, explained list: fusion, threshold, decay, diversity. Pure decisions.

A `minScore` that somebody set is compared with the score that is shown, after decay. The usual one only asks
whether anything fits, before decay, so that an old exact hit can sink but not vanish. Neither depends on how
many results were asked for. Decay is off unless a setting asks for it, because it buries old facts
(docs/recall.md): a dated note counts half after each half-life, and what is kept on purpose never fades.
Diversity is maximal marginal relevance (Carbonell and Goldstein, 1998), with the Jaccard index of the texts'
words, or of character pairs in scripts without spaces; off unless asked for.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from functools import cache
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

from nacre.memory.contracts.records import Chunk, ChunkPlace, HitExplanation
from nacre.memory.contracts.store import Scores
from nacre.memory.search.scoring import (
    LEAST_SHARE,
    USUAL_MIN_SCORE,
    Asked,
    Candidates,
    fuse,
    seed_scores,
)
from nacre.record import Record

if TYPE_CHECKING:
    from nacre.memory.contracts.settings import HybridSettings, TemporalDecaySettings

_DATED = re.compile(r"(?:^|/)memory/(?:.*\D)??(\d{4})-(\d{2})-(\d{2})(?!\d)[^/]*\.md$")
_EVERGREEN = re.compile(r"(?:MEMORY|memory)\.md$|memory/")
_WORDS = re.compile(r"\w+")

DIVERSE_POOL = 60
"""How many of the best candidates diversity chooses from."""


class Ranked(Record):
    """A chunk in its place, with its score and how it came about."""

    chunk_id: int
    explanation: HitExplanation


def rank(
    found: Candidates,
    asked: Asked,
    settings: HybridSettings,
    *,
    count: int,
    min_score: float | None,
    now: datetime,
) -> list[Ranked]:
    """The best `count` chunks that are good enough, with those that tie with the last, best first.

    Each has to reach `min_score` with the score that is shown. Without one, the best has to reach
    `USUAL_MIN_SCORE` before decay, and those behind it come along; by the seeds' formula each has to reach
    it.
    """
    fused = seed_scores(found, asked) if settings.fusion == "seed" else fuse(found, asked)
    decays = _decays(found, settings.temporal_decay, now)
    if min_score is None:
        best = max(fused.values(), default=0.0)
        literal = settings.fusion == "seed" or best < USUAL_MIN_SCORE
        # With decay, what stands far behind may be first: it is newer.
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
        )
        for chunk_id in takewhile(lambda chunk_id: final[chunk_id] >= last, order)
    ]


def best_of(lists: Sequence[Sequence[Ranked]], count: int) -> tuple[list[Ranked], dict[int, int]]:
    """The best `count` of several wordings' lists, with those that tie with the last; which list has each.

    A chunk has the best score that a wording gives it: a wording that fits nothing must not take away from
    one that fits.
    """
    best: dict[int, tuple[float, int, Ranked]] = {}
    for number, ranked in enumerate(lists):
        for item in ranked:
            known = best.get(item.chunk_id)
            if known is None or item.explanation.final > known[0]:
                best[item.chunk_id] = (item.explanation.final, number, item)
    order = sorted(best.values(), key=lambda entry: -entry[0])
    last = order[:count][-1][0] if order else 0.0
    kept = list(takewhile(lambda entry: entry[0] >= last, order))
    return [item for _, _, item in kept], {item.chunk_id: number for _, number, item in kept}


def placed(ranked: Sequence[Ranked], chunks: Mapping[int, Chunk]) -> list[Ranked]:
    """The same in an order that does not depend on the index: of equals, by path and place in the file."""

    def best_first(item: Ranked) -> tuple[float, str, int]:
        chunk = chunks[item.chunk_id]
        return (-item.explanation.final, chunk.path, chunk.ordinal)

    return sorted(ranked, key=best_first)


def diverse(
    ranked: Sequence[Ranked], chunks: Mapping[int, Chunk], lambda_: float, count: int
) -> list[Ranked]:
    """The `count` that diversity picks first, again by score, as the published example shows them."""
    pool = ranked[:DIVERSE_POOL]
    texts = [chunks[item.chunk_id].text for item in pool]
    order = mmr_order(texts, [item.explanation.final for item in pool], lambda_)
    places = {at: place for place, at in enumerate(order[:count], start=1)}
    return [
        replace(item, explanation=replace(item.explanation, mmr_rank=places[at]))
        for at, item in enumerate(pool)
        if at in places
    ]


def _decays(found: Candidates, settings: TemporalDecaySettings, now: datetime) -> dict[int, float]:
    """The factor of each chunk; empty when decay is off."""
    if not settings.enabled:
        return {}
    return {
        chunk_id: chunk_decay(place, now=now, half_life_days=settings.half_life_days)
        for chunk_id, place in found.places.items()
    }


def _ranks(scores: Scores) -> dict[int, int]:
    return {chunk_id: place for place, chunk_id in enumerate(scores, start=1)}


def decay_factor(age_days: float, half_life_days: float) -> float:
    """`exp(−ln 2 / half-life · age)`: 1 today and for days to come, 0.5 after one half-life.

    A half-life that is not a positive number switches decay off.
    """
    if not (math.isfinite(half_life_days) and half_life_days > 0) or not math.isfinite(age_days):
        return 1.0
    return math.exp(-math.log(2) / half_life_days * max(0.0, age_days))


def note_day(path: str) -> date | None:
    """The day that a daily log's path names: `memory/2026-02-10.md`, `memory/2026-02/2026-02-10-standup.md`.

    An impossible day, or digits that run on, make it an ordinary file.
    """
    match = _DATED.search(path.replace("\\", "/").removeprefix("./"))
    if match is None:
        return None
    try:
        return date(*map(int, match.groups()))
    except ValueError:
        return None


def is_evergreen(place: ChunkPlace) -> bool:
    """Curated memory and undated files under `memory/`, which never fade."""
    path = place.path.replace("\\", "/").removeprefix("./")
    return place.source == "memory" and note_day(path) is None and _EVERGREEN.match(path) is not None


def chunk_decay(place: ChunkPlace, *, now: datetime, half_life_days: float) -> float:
    """The factor for one chunk: by the day in its path, else by its file's last change; 1 if evergreen."""
    day = note_day(place.path)
    if day is not None:
        return decay_factor((now.date() - day).days, half_life_days)
    if is_evergreen(place):
        return 1.0
    seconds = now.timestamp() - place.changed_at_ns / 1e9
    return decay_factor(seconds / 86_400, half_life_days)


@cache  # diversity alone asks for it, and is off unless set
def _unspaced() -> re.Pattern[str]:
    return re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2,}")


def word_set(text: str) -> frozenset[str]:
    """The distinct words of `text`, lower-case; runs of an unspaced script as overlapping pairs."""
    text = text.lower() if text.isascii() else unicodedata.normalize("NFC", text).lower()
    words: set[str] = set()
    for run in _unspaced().findall(text):
        words.update(left + right for left, right in pairwise(run))
    words.update(_WORDS.findall(_unspaced().sub(" ", text)))
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
