"""Combines two lists, by words and by vectors, into one order and a score of 0 to 1 for each chunk.

Chunks are ordered by a mix of BM25, cosine, days and the best line of each text. The score of the best chunk
is how sure the search is that it concerns the question; the others have their share of it. `seed_scores` is
the original formula, which owners may depend on. docs/engineering/recall.md says what each constant gains.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field
from functools import cache
from itertools import islice

from nacre.memory.contracts.records import ChunkPlace
from nacre.memory.contracts.store import Scores
from nacre.memory.text.days.query_dates import DayRange, closeness
from nacre.memory.text.evidence import TextEvidence, best_line_share, rarity, share
from nacre.record import Record

EXACT_FLOOR = 0.6
"""The lowest score of a chunk that has an identifier or a quoted phrase of the query verbatim, or its day."""
ABSENT_CEILING = 0.3
"""The highest score of a hit if the name that is asked for stands nowhere; too low to be shown."""
FEW_CHUNKS = 30
"""Below this number of chunks, every word is frequent for BM25, so matched words are counted too."""
USUAL_MIN_SCORE = 0.35
"""The score that the best hit needs for anything to be shown if `minScore` is not set."""
LEAST_SHARE = 0.25
"""The share of the best score that other hits need if `minScore` is not set."""
EXAMINED = 6
"""How many of the best texts by words determine how much of the query the words cover, and how many of the
nearest by vector may correct a hit."""

_VECTORS, _LESS_BY_WORDS = 0.9, 0.7
"""The share of vectors in the mix, and by how much words that cover the whole query reduce it."""
_BEST_LINE = 0.5
_AS_CODE = 0.2
_ANSWER = 1 / 1.2
"""What remains of the mix if an assistant says the best line: people ask for what they said."""
_DAY = 0.25
"""What the days that the query names weigh, or all the rest if it asks for nothing else."""

_STRENGTH, _COVERED, _RELATED, _NEEDED = 1.2, 2.1, 4.6, 2.75
_NEEDED_ALONE = 2.15
_CHANCE, _CHANCE_PER_TERM, _MOST_TERMS, _NO_CHANCE = 0.53, 0.07, 20, 75
_UNRELATED_PER_DECADE = 0.24
_VERY_FEW = 10


class Candidates(Record):
    """What both lists found, by chunk id: BM25 in `words` and cosines in `nearest`, each the best first.

    `cosines` has all known cosines of candidates. `evidence` has the query's terms in each text; it is empty
    if words were not searched. `places` may be empty unless days or decay need it. `related` rescales
    `cosines`: 0 is unrelated, 1 is a question and its answer, and values may lie outside. With `is_measured`,
    the constants of the confidence were fitted to such values. `answers` has the lines that an
    assistant says in a transcript.
    """

    words: Scores
    nearest: Scores
    cosines: Scores
    evidence: Mapping[int, TextEvidence]
    places: Mapping[int, ChunkPlace] = field(default_factory=dict)
    related: Scores = field(default_factory=dict)
    is_measured: bool = False
    answers: Mapping[int, frozenset[int]] = field(default_factory=dict)

    @property
    def ids(self) -> Iterable[int]:
        return {**self.words, **self.nearest}


class QueryFacts(Record):
    """What scoring knows about the query.

    `term_counts` is the number of chunks with each term, `None` if words were not searched. With
    `is_day_alone`, the query asks for its `days` and nothing else. `chunk_count` is the size of the index.
    The weights sum to 1; the defaults 0.7 and 0.3 stand for the measured mix. `is_absent` means that the name
    that is asked for stands nowhere. With `is_implied`, the last term is not in the question: it moves what
    has it forward, and lacking it makes no hit less sure.
    """

    term_counts: Sequence[int] | None
    days: tuple[DayRange, ...] = ()
    is_day_alone: bool = False
    chunk_count: int
    vector_weight: float = 0.7
    text_weight: float = 0.3
    is_absent: bool = False
    is_implied: bool = False


class Mix(Record):
    """`values` orders the candidates; the rest says how well the best of them fit.

    `covered` is the share of the query's rarity in the best text by words, `matched` the number of its terms,
    `top` the best BM25. `related` is the higher relatedness of the first two in the order, and `None` if the
    first has no vector: whatever is near but further back has been outweighed. `best_fit` is how well the
    best chunk fits a day that the query names.
    """

    values: Mapping[int, float]
    covered: float
    matched: int
    top: float
    related: float | None
    best_fit: float


def mix(found: Candidates, facts: QueryFacts) -> Mix:
    """The mix for all candidates, independent of the requested number of results."""
    top = max(found.words.values(), default=0.0)
    rare = rarity(facts.term_counts or (), facts.chunk_count)
    shares = cache(lambda terms: share(terms, rare))
    first = [found.evidence[at] for at in islice(found.words, EXAMINED) if at in found.evidence]
    covered = max((shares(item.terms) for item in first), default=0.0)
    if facts.is_implied and len(rare) > 1:
        covered = min(1.0, covered / (1 - rare[-1]))
    vectors = _vector_share(covered, facts, words=top > 0) if found.cosines else 0.0
    meanings = _meaning(found)
    fits = {at: closeness(place.date, facts.days) for at, place in found.places.items()} if facts.days else {}
    written = _as_code(found.evidence.values())
    values: dict[int, float] = {}
    for at in found.ids:
        words, item = found.words.get(at, 0.0) / top if top > 0 else 0.0, found.evidence.get(at)
        value, fit = (1 - vectors) * words + vectors * meanings.get(at, 0.0), fits.get(at, 0.0)
        if item:
            value += _BEST_LINE * best_line_share(item, shares)
            value += _AS_CODE * sum(map(written.__getitem__, item.code))
        value = fit + _DAY * value if facts.is_day_alone else value + _DAY * fit
        if item and at in found.answers and _is_answer(item, found.answers[at], shares):
            value *= _ANSWER
        values[at] = value
    first_two = sorted(values, key=values.__getitem__, reverse=True)[:2]
    return Mix(
        values=values,
        covered=covered,
        matched=max((len(item.terms) for item in first), default=0),
        top=top,
        related=max(found.related.get(at, 0.0) for at in first_two)
        if found.related.keys() & first_two[:1]
        else None,
        best_fit=max(fits.values(), default=0.0),
    )


def fuse(found: Candidates, facts: QueryFacts) -> dict[int, float]:
    """The score of each candidate by chunk id, 0 to 1, independent of the requested number of results."""
    if not found.words and not found.nearest:
        return {}
    mixed = mix(found, facts)
    sure = max(_confidence(facts, mixed, is_measured=found.is_measured), EXACT_FLOOR * mixed.best_fit)
    if facts.is_absent:
        sure *= ABSENT_CEILING
    best = max(mixed.values.values()) or 1.0
    scores = {at: sure * value / best for at, value in mixed.values.items()}
    for at, item in found.evidence.items():
        if item.exact:
            scores[at] = EXACT_FLOOR + (1 - EXACT_FLOOR) * scores[at]
    return scores


def _vector_share(covered: float, facts: QueryFacts, *, words: bool) -> float:
    # Vectors count less if the words cover much of the query.
    if facts.vector_weight <= 0:
        return 0.0
    if not words or facts.text_weight <= 0:
        return 1.0
    measured = _VECTORS - _LESS_BY_WORDS * covered
    odds = measured / (1 - measured) * (facts.vector_weight / facts.text_weight) / (0.7 / 0.3)
    return odds / (1 + odds)


def _meaning(found: Candidates) -> dict[int, float]:
    # There is no fixed zero, because notes in another language than the query are far from it and still have
    # an order. Very few notes do not show what is far, so there 0 is unrelated.
    values, low = found.cosines, min(found.nearest.values(), default=0.0)
    if len(found.nearest) <= _VERY_FEW and max(found.related.values(), default=0.0) > 0:
        values, low = found.related, 0.0
    high = max(values.values(), default=0.0)
    return {at: max(0.0, value - low) / (high - low) if high > low else 1.0 for at, value in values.items()}


def _is_answer(item: TextEvidence, said: frozenset[int], shares: Callable[[frozenset[int]], float]) -> bool:
    best = best_line_share(item, shares)
    return bool(item.lines) and all(at in said for at, terms in item.lines.items() if shares(terms) >= best)


def _as_code(evidence: Collection[TextEvidence]) -> dict[int, float]:
    counts = Counter(form for item in evidence for form in item.code)
    return dict(zip(counts, rarity([*counts.values()], len(evidence)), strict=True))


def _confidence(facts: QueryFacts, mixed: Mix, *, is_measured: bool) -> float:
    # A logistic curve, fitted to questions with an answer and questions to the wrong memory. The relatedness
    # of the best of many chunks to an unrelated question grows with the logarithm of their number.
    strength = covered = 0.0
    if facts.term_counts is not None:
        by_chance = _by_chance(facts.chunk_count, len(facts.term_counts)) * (1 - mixed.covered)
        strength, covered = max(0.0, _strength(mixed, facts.chunk_count) - by_chance), mixed.covered
    alone = _COVERED * (strength + covered) - _NEEDED_ALONE
    if mixed.related is None:
        return _logistic(alone)
    unrelated = _UNRELATED_PER_DECADE * math.log10(max(1, facts.chunk_count))
    # For a model that was not measured, vectors may only add to what words say.
    near = _RELATED * max(0.0, mixed.related - unrelated)
    together = _STRENGTH * strength + _COVERED * covered + near - _NEEDED
    return _logistic(together if is_measured else max(alone, together))


def _strength(mixed: Mix, chunk_count: int) -> float:
    # In units of a word that is in a single chunk. Among a few chunks, BM25 is nearly 0 for any word, so the
    # terms of the best chunk are counted instead.
    among_few = max(0.0, 1 - chunk_count / FEW_CHUNKS)
    return max(mixed.top / math.log(chunk_count + 2), among_few * mixed.matched)


def _by_chance(chunk_count: int, term_count: int) -> float:
    # Among many chunks, one always has several words of an unrelated question, and more if it has more words.
    decades = math.log10(max(1.0, chunk_count / _NO_CHANCE))
    return (_CHANCE + _CHANCE_PER_TERM * min(term_count, _MOST_TERMS)) * decades


def seed_scores(found: Candidates, facts: QueryFacts) -> dict[int, float]:
    """The original formula: `vectorWeight · cosine + textWeight · 1 / (1 + max(0, bm25))`.

    Its bm25 is the negative of ours, so every lexical hit gets 1 for its words. If one list is empty, the
    other has the whole weight.
    """
    vector_weight = facts.vector_weight if found.words else 1.0
    text_weight = facts.text_weight if found.cosines else 1.0
    return {
        chunk_id: vector_weight * found.cosines.get(chunk_id, 0.0)
        + (text_weight * seed_text_score(-found.words[chunk_id]) if chunk_id in found.words else 0.0)
        for chunk_id in found.ids
    }


def seed_text_score(bm25: float) -> float:
    """`1 / (1 + max(0, bm25))`; a bm25 that is not finite counts as 999."""
    return 1 / (1 + max(0.0, bm25 if math.isfinite(bm25) else 999.0))


def _logistic(value: float) -> float:
    return 1 / (1 + math.exp(-min(60.0, max(-60.0, value))))
