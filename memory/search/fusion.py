"""Two lists, words and vectors, become one score between 0 and 1 for each chunk.

`fuse` is what wins on the evaluation sets (docs/recall.md): shares of the best value on either side, mixed by
how much of the query the words explain, times how sure the search is of itself. `seed_scores` is the literal
formula of the first description, kept because owners may depend on it. Pure arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from nacre.memory.contracts.records import ChunkPlace
from nacre.memory.contracts.store import Scores
from nacre.memory.text.days.ranges import DayRange, closeness
from nacre.memory.text.evidence import TextEvidence, best_line_share, rarity, share
from nacre.memory.vectors.cosine_scale import DEFAULT_SCALE, CosineScale

EVIDENCE_POOL = 20
"""How many of the best lexical candidates are read line by line."""
EXACT_FLOOR = 0.6
"""The least score of a chunk that has an identifier or a quoted phrase of the query, word for word."""
QUESTION_SHARE = 0.85
"""What is left of the score of a chunk that asks what the query asks: an answer has fewer of its words."""
FEW_CHUNKS = 30
"""Below this many chunks bm25 takes every word for a frequent one, so matched words are counted as well."""
_LINE_WEIGHT = 0.4
_DATE_WEIGHT = 0.25
_SPREAD_RANK = 10
_WORDS_NEEDED = 2.3
_MEANING_NEEDED = 2.6
_MEANING_LESS_A_DECADE = 0.65
_MANY_CHUNKS = 300
_WORD_AMONG_FEW = 0.8


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """What both lists found: `words`, BM25, and `nearest`, cosines, by chunk id and each best first.

    `cosines` has every candidate's that is known, `evidence` what the best of `words` have of the query, best
    first. `places` says where candidates stand; it may be empty when neither days nor decay ask for it.
    `asking` are those that have words of the query in questions alone.
    """

    words: Scores
    nearest: Scores
    cosines: Scores
    evidence: Mapping[int, TextEvidence]
    places: Mapping[int, ChunkPlace] = field(default_factory=dict)
    asking: frozenset[int] = frozenset()

    @property
    def ids(self) -> Iterable[int]:
        """Every candidate once."""
        return {**self.words, **self.nearest}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the candidates are weighed against.

    `term_count` is how many terms the evidence can have, `None` when words were not asked for. `chunk_count`
    is the size of the index; `legible` the share of the query that the embedder can read; weights sum to 1,
    and the seeds' 0.7 and 0.3 stand for the measured mix.
    """

    term_count: int | None
    days: tuple[DayRange, ...] = ()
    chunk_count: int
    legible: float = 1.0
    scale: CosineScale = DEFAULT_SCALE
    vector_weight: float = 0.7
    text_weight: float = 0.3


def fuse(found: Candidates, asked: Asked) -> dict[int, float]:
    """The score of each candidate by chunk id, 0…1, whatever the number of results asked for."""
    if not found.words and not found.nearest:
        return {}
    evidence = found.evidence
    weights = rarity(evidence.values(), asked.term_count or 0)
    top = max(found.words.values(), default=0.0)
    best_texts = list(evidence.values())[:6]
    covered = max((share(item.terms, weights) for item in best_texts), default=0.0)
    related = {chunk_id: asked.scale.relatedness(cosine) for chunk_id, cosine in found.cosines.items()}
    mix = vector_share(covered, sorted(related.values(), reverse=True), asked, words=top > 0)
    nearest = max(related.values(), default=0.0)
    lines = {chunk_id: best_line_share(item, weights) for chunk_id, item in evidence.items()}
    fits = _fits(found.places, asked.days)
    mixed: dict[int, float] = {}
    for chunk_id in found.ids:
        bm25 = found.words.get(chunk_id)
        words = (bm25 / top + _LINE_WEIGHT * lines.get(chunk_id, 0.0)) / (1 + _LINE_WEIGHT) if bm25 else 0.0
        meaning = related.get(chunk_id, 0.0) / nearest if nearest else 0.0
        mixed[chunk_id] = (1 - mix) * words + mix * meaning + _DATE_WEIGHT * fits.get(chunk_id, 0.0)
    matched = max((len(item.terms) for item in best_texts), default=0)
    strength = lexical_strength(top, asked.chunk_count, matched) if asked.term_count is not None else None
    sure = confidence(strength, covered, nearest if related else None, asked)
    sure = max(sure, 0.6 * max(fits.values(), default=0.0))
    best = max(mixed.values()) or 1.0
    scores = {chunk_id: sure * math.sqrt(value / best) for chunk_id, value in mixed.items()}
    for chunk_id, item in evidence.items():
        if item.exact:
            scores[chunk_id] = EXACT_FLOOR + (1 - EXACT_FLOOR) * scores[chunk_id]
    for chunk_id in found.asking:
        scores[chunk_id] *= QUESTION_SHARE
    return scores


def _fits(places: Mapping[int, ChunkPlace], days: tuple[DayRange, ...]) -> dict[int, float]:
    """How well the chunks' days fit the days that the query names; empty when it names none."""
    if not days:
        return {}
    return {chunk_id: closeness(place.date, days) for chunk_id, place in places.items()}


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
    """The best BM25 in units of one word that stands in a single chunk.

    Among a few chunks bm25 is nearly 0 for any word, since each stands in a good part of them; the
    `matched_terms` of the best chunk are counted there instead.
    """
    among_few = max(0.0, 1 - chunk_count / FEW_CHUNKS)
    return max(top / math.log(chunk_count + 2), among_few * _WORD_AMONG_FEW * matched_terms)


def confidence(strength: float | None, covered: float, nearest: float | None, asked: Asked) -> float:
    """How sure it is, 0…1, that the best candidate has to do with the query at all.

    A logistic curve fitted on answerable queries against queries put to the wrong memory (docs/recall.md).
    `strength` is `None` when words were not searched, `nearest`, the best relatedness, without vectors.
    """
    meaning = 8.0 * (nearest or 0.0) - meaning_needed(asked.chunk_count)
    if strength is None:
        # A question that the model cannot read is near to anything and says nothing.
        return asked.legible * _logistic(meaning)
    words = 1.8 * strength + 2.0 * covered - _WORDS_NEEDED
    if nearest is None:
        return _logistic(words)
    # What the words alone would show stays shown: meaning adds to it, and only steadies what is weaker.
    return _logistic(max(words, (1 - 0.4 * asked.legible) * words + 0.6 * asked.legible * meaning))


def meaning_needed(chunk_count: int) -> float:
    """How near the nearest chunk has to be, on the curve's scale.

    The nearest of a few strangers is farther than the nearest of many: by 0.13 of relatedness for each factor
    of ten, measured between 2 and 100 chunks. So a small memory needs less to be sure; half of that is given.
    """
    return _MEANING_NEEDED - _MEANING_LESS_A_DECADE * math.log10(
        _MANY_CHUNKS / min(_MANY_CHUNKS, chunk_count + 1)
    )


def seed_scores(found: Candidates, asked: Asked) -> dict[int, float]:
    """The first description's formula: `vectorWeight · cosine + textWeight · 1 / (1 + max(0, bm25))`.

    Its bm25 is ours with the sign turned and never positive, so every lexical hit gets 1 for its words. When
    one list did not take part at all, the other has the whole weight.
    """
    vector_weight = asked.vector_weight if found.words else 1.0
    text_weight = asked.text_weight if found.cosines else 1.0
    return {
        chunk_id: vector_weight * found.cosines.get(chunk_id, 0.0)
        + (text_weight * seed_text_score(-found.words[chunk_id]) if chunk_id in found.words else 0.0)
        for chunk_id in found.ids
    }


def seed_text_score(bm25: float) -> float:
    """`1 / (1 + max(0, bm25))`; a number that is not finite counts as 999."""
    return 1 / (1 + max(0.0, bm25 if math.isfinite(bm25) else 999.0))


def _logistic(value: float) -> float:
    return 1 / (1 + math.exp(-min(60.0, max(-60.0, value))))
