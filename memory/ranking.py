"""From candidates to an ordered, explained list: fusion, threshold, decay, diversity. Pure decisions.

The order of these is a decision: the least score is applied before decay, so that an old exact hit can sink
but not vanish, and neither depends on how many results were asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from nacre.memory.cosine_scale import DEFAULT_SCALE, CosineScale
from nacre.memory.decay import chunk_decay
from nacre.memory.diversity import mmr_order
from nacre.memory.evidence import Finder, rarity
from nacre.memory.fusion import Asked, Candidate, fuse, seed_scores
from nacre.memory.lexical import MatchQuery
from nacre.memory.query_dates import DayRange
from nacre.memory.records import Chunk, HitExplanation
from nacre.memory.settings import HybridSettings
from nacre.memory.snippet import cut_snippet
from nacre.memory.store import Scored

DIVERSE_POOL = 60
"""How many of the best candidates diversity chooses from."""

_WEIGHING_POOL = 11


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """What both lists found, and what the chunks say. `ages` are seconds since the file last changed."""

    words: Sequence[Scored]
    nearest: Sequence[Scored]
    cosines: Mapping[int, float]
    chunks: Mapping[int, Chunk]
    chunk_count: int
    ages: Mapping[int, float]


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What the list is made for."""

    query: MatchQuery | None
    today: date
    days: tuple[DayRange, ...] = ()
    legible: float = 1.0
    scale: CosineScale = DEFAULT_SCALE
    max_results: int
    min_score: float


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """A chunk in its place, with its score and how it came about."""

    chunk: Chunk
    explanation: HitExplanation


@dataclass(frozen=True, kw_only=True)
class _Placed:
    item: Candidate
    fused: float
    decay: float
    mmr_rank: int | None = None

    @property
    def final(self) -> float:
        return self.fused * self.decay


def rank(found: Candidates, wanted: Wanted, settings: HybridSettings) -> list[Ranked]:
    """The best chunks, at most `max_results`, highest score first."""
    candidates = _candidates(found)
    asked = Asked(
        query=wanted.query,
        days=wanted.days,
        chunk_count=found.chunk_count,
        legible=wanted.legible,
        scale=wanted.scale,
        vector_weight=settings.vector_weight,
        text_weight=settings.text_weight,
    )
    fused = (seed_scores if settings.fusion == "seed" else fuse)(candidates, asked)
    placed = [
        _Placed(item=item, fused=score, decay=_decay(item, found, wanted, settings))
        for item in candidates
        if (score := fused[item.chunk_id]) >= wanted.min_score
    ]
    placed.sort(key=_best_first)
    if settings.mmr.enabled:
        placed = _diverse(placed[:DIVERSE_POOL], settings.mmr.lambda_, wanted.max_results)
    return [_ranked(place) for place in placed[: wanted.max_results]]


def snippets(ranked: Sequence[Ranked], found: Candidates, query: MatchQuery | None) -> list[str]:
    """What to show of each chunk."""
    if query is None:
        return [cut_snippet(item.chunk.text, None, ()) for item in ranked]
    finder = Finder(query)
    first = [
        found.chunks[item.chunk_id] for item in found.words[:_WEIGHING_POOL] if item.chunk_id in found.chunks
    ]
    weights = rarity([finder.look(chunk.text) for chunk in first], len(finder.terms))
    return [cut_snippet(item.chunk.text, finder, weights) for item in ranked]


def _candidates(found: Candidates) -> list[Candidate]:
    words = {item.chunk_id: (place, item.score) for place, item in enumerate(found.words, start=1)}
    nearest = {item.chunk_id: place for place, item in enumerate(found.nearest, start=1)}
    result = []
    for chunk_id in dict.fromkeys((*words, *nearest)):
        chunk = found.chunks.get(chunk_id)
        if chunk is None:
            continue
        lexical_rank, lexical_score = words.get(chunk_id, (None, None))
        result.append(
            Candidate(
                chunk_id=chunk_id,
                chunk=chunk,
                lexical_rank=lexical_rank,
                lexical_score=lexical_score,
                vector_rank=nearest.get(chunk_id),
                cosine=found.cosines.get(chunk_id),
            )
        )
    return result


def _decay(item: Candidate, found: Candidates, wanted: Wanted, settings: HybridSettings) -> float:
    if not settings.temporal_decay.enabled:
        return 1.0
    return chunk_decay(
        item.chunk,
        today=wanted.today,
        half_life_days=settings.temporal_decay.half_life_days,
        modified_seconds_ago=found.ages.get(item.chunk_id),
    )


def _diverse(placed: Sequence[_Placed], lambda_: float, max_results: int) -> list[_Placed]:
    """The first `max_results` that diversity picks, again by score, as the published example shows them."""
    order = mmr_order([place.item.chunk.text for place in placed], [place.final for place in placed], lambda_)
    picked = [replace(placed[at], mmr_rank=rank_) for rank_, at in enumerate(order[:max_results], start=1)]
    return sorted(picked, key=_best_first)


def _best_first(place: _Placed) -> tuple[float, str, int]:
    return (-place.final, place.item.chunk.path, place.item.chunk.ordinal)


def _ranked(place: _Placed) -> Ranked:
    item = place.item
    explanation = HitExplanation(
        lexical_rank=item.lexical_rank,
        lexical_score=item.lexical_score,
        vector_rank=item.vector_rank,
        cosine=item.cosine,
        fused=place.fused,
        decay_factor=place.decay,
        mmr_rank=place.mmr_rank,
        final=place.final,
    )
    return Ranked(chunk=item.chunk, explanation=explanation)
