"""Two lists, words and vectors, become one score between 0 and 1 for each chunk.

`fuse` is what wins on the evaluation sets (docs/recall.md): shares of the best value on either side, mixed by
how much of the query the words explain, times how sure the search is of itself. `seed_scores` is the literal
formula of the first description, kept because owners may depend on it. Pure arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nacre.memory.cosine_scale import DEFAULT_SCALE, CosineScale
from nacre.memory.evidence import Finder, TextEvidence, best_line_share, rarity, share
from nacre.memory.lexical import MatchQuery
from nacre.memory.query_dates import DayRange, closeness
from nacre.memory.records import Chunk

EVIDENCE_POOL = 20
"""How many of the best lexical candidates are read line by line."""
EXACT_FLOOR = 0.6
"""The least score of a chunk that has an identifier or a quoted phrase of the query, word for word."""
_LINE_WEIGHT = 0.4
_DATE_WEIGHT = 0.25
_SPREAD_RANK = 10
_WORDS_NEEDED = 2.3
_MEANING_NEEDED = 2.6
_FEW_CHUNKS = 30
_WORD_AMONG_FEW = 0.8


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A chunk that one list or both proposed. Ranks count from 1; `lexical_score` is −bm25."""

    chunk_id: int
    chunk: Chunk
    lexical_rank: int | None = None
    lexical_score: float | None = None
    vector_rank: int | None = None
    cosine: float | None = None


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the candidates are weighed against.

    `query` is `None` when words were not searched. `chunk_count` is the size of the index; `legible` the
    share of the query that the embedder can read; weights sum to 1, and the seeds' 0.7 and 0.3 stand for the
    measured mix.
    """

    query: MatchQuery | None
    days: tuple[DayRange, ...] = ()
    chunk_count: int
    legible: float = 1.0
    scale: CosineScale = DEFAULT_SCALE
    vector_weight: float = 0.7
    text_weight: float = 0.3


def fuse(candidates: Sequence[Candidate], asked: Asked) -> dict[int, float]:
    """The score of each candidate by chunk id, 0…1, whatever the number of results asked for."""
    if not candidates:
        return {}
    finder = Finder(asked.query) if asked.query is not None else None
    evidence = look_at(candidates, finder)
    weights = rarity(list(evidence.values()), len(finder.terms) if finder else 0)
    top = max((item.lexical_score or 0.0 for item in candidates), default=0.0)
    covered = max((share(item.terms, weights) for item in list(evidence.values())[:6]), default=0.0)
    related = {
        item.chunk_id: asked.scale.relatedness(item.cosine) for item in candidates if item.cosine is not None
    }
    mix = vector_share(covered, sorted(related.values(), reverse=True), asked, words=top > 0)
    nearest = max(related.values(), default=0.0)
    fits = {item.chunk_id: closeness(item.chunk.date, asked.days) for item in candidates}
    mixed: dict[int, float] = {}
    for item in candidates:
        words = 0.0
        if item.lexical_score and top > 0:
            found = evidence.get(item.chunk_id)
            line = best_line_share(found, weights) if found else 0.0
            words = (item.lexical_score / top + _LINE_WEIGHT * line) / (1 + _LINE_WEIGHT)
        meaning = related.get(item.chunk_id, 0.0) / nearest if nearest else 0.0
        mixed[item.chunk_id] = (1 - mix) * words + mix * meaning + _DATE_WEIGHT * fits[item.chunk_id]
    matched = max((len(item.terms) for item in list(evidence.values())[:6]), default=0)
    strength = lexical_strength(top, asked.chunk_count, matched) if asked.query is not None else None
    sure = confidence(strength, covered, nearest if related else None, asked.legible)
    sure = max(sure, 0.6 * max(fits.values()))
    best = max(mixed.values()) or 1.0
    scores = {chunk_id: sure * math.sqrt(value / best) for chunk_id, value in mixed.items()}
    for chunk_id, found in evidence.items():
        if found.exact:
            scores[chunk_id] = EXACT_FLOOR + (1 - EXACT_FLOOR) * scores[chunk_id]
    return scores


def look_at(candidates: Sequence[Candidate], finder: Finder | None) -> Mapping[int, TextEvidence]:
    """The lines of the best lexical candidates, by chunk id, best candidate first."""
    if finder is None:
        return {}
    ranked = sorted(
        (item for item in candidates if item.lexical_rank), key=lambda item: item.lexical_rank or 0
    )
    return {item.chunk_id: finder.look(item.chunk.text) for item in ranked[:EVIDENCE_POOL]}


def vector_share(covered: float, related: Sequence[float], asked: Asked, *, words: bool) -> float:
    """How much of the mix vectors get, 0…1.

    More when the words explain little of the query, less when the cosines hardly differ, or when the model
    cannot read the query's script. `related` is in falling order.
    """
    if not related or asked.vector_weight <= 0:
        return 0.0
    if not words or asked.text_weight <= 0:
        return 1.0
    spread = related[0] - related[min(_SPREAD_RANK, len(related) - 1)]
    measured = (0.6 - 0.3 * covered) * min(1.0, spread / 0.12) * (0.25 + 0.75 * asked.legible)
    odds = measured / (1 - measured) * (asked.vector_weight / asked.text_weight) / (0.7 / 0.3)
    return odds / (1 + odds)


def lexical_strength(top: float, chunk_count: int, matched_terms: int) -> float:
    """The best −bm25 in units of one word that stands in a single chunk.

    Among a few chunks bm25 is nearly 0 for any word, since each stands in a good part of them; the
    `matched_terms` of the best chunk are counted there instead.
    """
    among_few = max(0.0, 1 - chunk_count / _FEW_CHUNKS)
    return max(top / math.log(chunk_count + 2), among_few * _WORD_AMONG_FEW * matched_terms)


def confidence(strength: float | None, covered: float, nearest: float | None, legible: float) -> float:
    """How sure it is, 0…1, that the best candidate has to do with the query at all.

    A logistic curve fitted on answerable queries against queries put to the wrong memory (docs/recall.md).
    `strength` is `None` when words were not searched, `nearest`, the best relatedness, without vectors.
    """
    meaning = 8.0 * (nearest or 0.0) - _MEANING_NEEDED
    if strength is None:
        return _logistic(meaning)
    words = 1.8 * strength + 2.0 * covered - _WORDS_NEEDED
    if nearest is None:
        return _logistic(words)
    # What the words alone would show stays shown: meaning adds to it, and only steadies what is weaker.
    return _logistic(max(words, (1 - 0.4 * legible) * words + 0.6 * legible * meaning))


def seed_scores(candidates: Sequence[Candidate], asked: Asked) -> dict[int, float]:
    """The first description's formula: `vectorWeight · cosine + textWeight · 1 / (1 + max(0, bm25))`.

    FTS5's bm25 is never positive, so every lexical hit gets 1 for its words. When one list did not take part
    at all, the other has the whole weight.
    """
    has_words = any(item.lexical_score is not None for item in candidates)
    has_vectors = any(item.cosine is not None for item in candidates)
    vector_weight = asked.vector_weight if has_words else 1.0
    text_weight = asked.text_weight if has_vectors else 1.0
    return {
        item.chunk_id: vector_weight * (item.cosine or 0.0)
        + (text_weight * seed_text_score(-item.lexical_score) if item.lexical_score is not None else 0.0)
        for item in candidates
    }


def seed_text_score(bm25: float) -> float:
    """`1 / (1 + max(0, bm25))`; a number that is not finite counts as 999."""
    return 1 / (1 + max(0.0, bm25 if math.isfinite(bm25) else 999.0))


def _logistic(value: float) -> float:
    return 1 / (1 + math.exp(-min(60.0, max(-60.0, value))))
