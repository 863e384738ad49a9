"""Two lists, words and vectors, become one order and a score between 0 and 1 for each chunk.

The order is that of a mix of BM25, cosines, days and the best line of each text. The best chunk scores how
sure the search is that it has to do with the question, each other chunk its share of that. `seed_scores` is
the literal formula of the first description, kept because owners may depend on it. What each constant is
worth on questions that it was not chosen by stands in docs/recall.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from itertools import islice

from nacre.memory.contracts.records import ChunkPlace
from nacre.memory.contracts.store import Scores
from nacre.memory.text.days.ranges import DayRange, closeness
from nacre.memory.text.evidence import TextEvidence, best_line_share, rarity, share
from nacre.record import Record

EXACT_FLOOR = 0.6
"""The least score of a chunk that has an identifier or a quoted phrase of the query, word for word."""
ABSENT_CEILING = 0.3
"""The most that a hit scores when what was asked for by name stands nowhere; too little to be shown."""
FEW_CHUNKS = 30
"""Below this many chunks bm25 takes every word for a frequent one, so matched words are counted as well."""
USUAL_MIN_SCORE = 0.35
"""What the best hit has to score for anything to be shown when no `minScore` is set."""
LEAST_SHARE = 0.25
"""A hit behind it is shown from this share of its score on, when no `minScore` is set."""

_VECTORS, _LESS_BY_WORDS = 0.9, 0.7
"""The share of vectors in the mix, and what of it words take that explain the whole query."""
_BEST_LINE = 0.5
_AS_CODE = 0.2
_DAY = 0.25
_LOOKED_AT = 6
"""So many of the best texts by words say how much of the query words explain."""

_STRENGTH, _COVERED, _RELATED, _NEEDED = 1.2, 2.1, 4.6, 2.75
_STRENGTH_ALONE, _COVERED_ALONE, _NEEDED_ALONE = 2.2, 1.8, 2.15
_CHANCE, _CHANCE_A_TERM, _MOST_TERMS, _NO_CHANCE = 0.53, 0.07, 20, 75
_STRANGER_A_DECADE = 0.24
_VERY_FEW = 10
_WORD_AMONG_FEW = 0.8


class Candidates(Record):
    """What both lists found: `words`, BM25, and `nearest`, cosines, by chunk id and each best first.

    `cosines` has every candidate's that is known. `evidence` is what each one's text has of the query, empty
    when words were not asked for. `places` says where candidates stand; it may be empty when neither days nor
    decay ask for it. `related` says of the same as `cosines` how related they are, 0 as strangers and 1 as a
    question and its answer, ends open; `is_measured` that the curve below was measured with such numbers.
    """

    words: Scores
    nearest: Scores
    cosines: Scores
    evidence: Mapping[int, TextEvidence]
    places: Mapping[int, ChunkPlace] = field(default_factory=dict)
    related: Scores = field(default_factory=dict)
    is_measured: bool = False

    @property
    def ids(self) -> Iterable[int]:
        """Every candidate once."""
        return {**self.words, **self.nearest}


class Asked(Record):
    """What the candidates are weighed against.

    `term_counts` says in how many chunks each term of the evidence stands, `None` when words were not asked
    for. `chunk_count` is the size of the index. Weights sum to 1, and the seeds' 0.7 and 0.3 stand for the
    measured mix. `is_absent` says that what the query asks for by name stands nowhere.
    """

    term_counts: Sequence[int] | None
    days: tuple[DayRange, ...] = ()
    chunk_count: int
    vector_weight: float = 0.7
    text_weight: float = 0.3
    is_absent: bool = False


class Mixed(Record):
    """The candidates in their order, and what the mix learned about them.

    `values` is what they are ordered by. `covered` is the share of the query's rarity that the best text by
    words has, `matched` how many of its terms, `top` the best BM25. `related` is the better relatedness of
    the first two in the order, `None` while the first has no vector: what is near and stands farther back has
    been outweighed. `best_fit` says how well the best chunk fits a day that the query names.
    """

    values: Mapping[int, float]
    covered: float
    matched: int
    top: float
    related: float | None
    best_fit: float


def mix(found: Candidates, asked: Asked) -> Mixed:
    """The value of each candidate by chunk id, whatever the number of results asked for."""
    top = max(found.words.values(), default=0.0)
    rare = rarity(asked.term_counts or (), asked.chunk_count)
    first = [found.evidence[at] for at in islice(found.words, _LOOKED_AT) if at in found.evidence]
    covered = max((share(item.terms, rare) for item in first), default=0.0)
    vectors = _vector_share(covered, asked, words=top > 0) if found.cosines else 0.0
    meanings = _meaning(found)
    fits = {at: closeness(place.date, asked.days) for at, place in found.places.items()} if asked.days else {}
    written = _as_code(found.evidence.values())
    values: dict[int, float] = {}
    for at in found.ids:
        words, item = found.words.get(at, 0.0) / top if top > 0 else 0.0, found.evidence.get(at)
        value = (1 - vectors) * words + vectors * meanings.get(at, 0.0) + _DAY * fits.get(at, 0.0)
        if item:
            value += _BEST_LINE * best_line_share(item, rare)
            value += _AS_CODE * sum(map(written.__getitem__, item.code))
        values[at] = value
    first_two = sorted(values, key=values.__getitem__, reverse=True)[:2]
    return Mixed(
        values=values,
        covered=covered,
        matched=max((len(item.terms) for item in first), default=0),
        top=top,
        related=max(found.related.get(at, 0.0) for at in first_two)
        if found.related.keys() & first_two[:1]
        else None,
        best_fit=max(fits.values(), default=0.0),
    )


def fuse(found: Candidates, asked: Asked) -> dict[int, float]:
    """The score of each candidate by chunk id, 0…1, whatever the number of results asked for."""
    if not found.words and not found.nearest:
        return {}
    mixed = mix(found, asked)
    sure = max(_confidence(asked, mixed, is_measured=found.is_measured), 0.6 * mixed.best_fit)
    if asked.is_absent:
        sure *= ABSENT_CEILING
    best = max(mixed.values.values()) or 1.0
    scores = {at: sure * value / best for at, value in mixed.values.items()}
    for at, item in found.evidence.items():
        if item.exact:
            scores[at] = EXACT_FLOOR + (1 - EXACT_FLOOR) * scores[at]
    return scores


def _vector_share(covered: float, asked: Asked, *, words: bool) -> float:
    """How much of the mix vectors get, 0…1: less when the words explain much of the query."""
    if asked.vector_weight <= 0:
        return 0.0
    if not words or asked.text_weight <= 0:
        return 1.0
    measured = _VECTORS - _LESS_BY_WORDS * covered
    odds = measured / (1 - measured) * (asked.vector_weight / asked.text_weight) / (0.7 / 0.3)
    return odds / (1 + odds)


def _meaning(found: Candidates) -> dict[int, float]:
    """The cosine of each candidate as a share of the best, counted from the least of the `nearest`, 0…1.

    From no fixed value: notes in another language than the query are far from it, and still have an order.
    Very few notes say nothing of what is far: there it is counted from strangers.
    """
    values, low = found.cosines, min(found.nearest.values(), default=0.0)
    if len(found.nearest) <= _VERY_FEW and max(found.related.values(), default=0.0) > 0:
        values, low = found.related, 0.0
    high = max(values.values(), default=0.0)
    return {at: max(0.0, value - low) / (high - low) if high > low else 1.0 for at, value in values.items()}


def _as_code(evidence: Collection[TextEvidence]) -> dict[int, float]:
    """How much each form of code tells that some candidate has, as a share of all of these; by its number."""
    counts = Counter(form for item in evidence for form in item.code)
    return dict(zip(counts, rarity([*counts.values()], len(evidence)), strict=True))


def _confidence(asked: Asked, mixed: Mixed, *, is_measured: bool) -> float:
    """How sure it is, 0…1, that the best candidate has to do with the query at all.

    A logistic curve fitted on questions with an answer against questions put to the wrong memory. How related
    the best of many chunks is to a stranger's question grows with the logarithm of their number.
    """
    strength = covered = 0.0
    if asked.term_counts is not None:
        by_chance = _by_chance(asked.chunk_count, len(asked.term_counts)) * (1 - mixed.covered)
        strength, covered = max(0.0, _strength(mixed, asked.chunk_count) - by_chance), mixed.covered
    alone = _STRENGTH_ALONE * strength + _COVERED_ALONE * covered - _NEEDED_ALONE
    if mixed.related is None:
        return _logistic(alone)
    stranger = _STRANGER_A_DECADE * math.log10(max(1, asked.chunk_count))
    # Where vectors tell nothing, they take nothing from what words tell; of an unknown model nobody knows.
    near = _RELATED * max(0.0, mixed.related - stranger)
    together = _STRENGTH * strength + _COVERED * covered + near - _NEEDED
    return _logistic(together if is_measured else max(alone, together))


def _strength(mixed: Mixed, chunk_count: int) -> float:
    """The best BM25 in units of one word that stands in a single chunk.

    Among a few chunks bm25 is nearly 0 for any word, since each stands in a good part of them; the terms of
    the best chunk are counted there instead.
    """
    among_few = max(0.0, 1 - chunk_count / FEW_CHUNKS)
    return max(mixed.top / math.log(chunk_count + 2), among_few * _WORD_AMONG_FEW * mixed.matched)


def _by_chance(chunk_count: int, term_count: int) -> float:
    """The strength that some chunk has by chance for a question of which it covers next to nothing.

    Among many chunks there is always one with several of a stranger's words, more of them when more are asked
    for.
    """
    decades = math.log10(max(1.0, chunk_count / _NO_CHANCE))
    return (_CHANCE + _CHANCE_A_TERM * min(term_count, _MOST_TERMS)) * decades


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
