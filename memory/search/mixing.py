"""The order: two lists, words and vectors, become one value for each chunk, higher is better.

Shares of the best value on either side, mixed by how much of the query the words explain: what wins on the
evaluation sets (docs/recall.md). What the values mean as a score is `fusion.py`'s matter. Pure arithmetic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from heapq import nlargest
from itertools import islice

from nacre.memory.contracts.records import ChunkPlace
from nacre.memory.contracts.store import Scores
from nacre.memory.text.days.ranges import DayRange, closeness
from nacre.memory.text.evidence import TextEvidence, best_line_share, counted, rarity, share
from nacre.memory.vectors.cosine_scale import DEFAULT_SCALE, CosineScale
from nacre.records.record import Record

_LINE_WEIGHT = 0.4
_LINE_POOL = 20
"""How many of the best texts by words say which words are rare among them."""
_BEST_LINE = 0.3
_IN_ORDER = 0.1
_NAMED = 0.2
_AS_CODE = 0.2
_DATE_WEIGHT = 0.25
_ROUNDING = 1e-6
_ANSWERS_ALONE = 1 / 1.2
"""What a person said is asked for more often than what the assistant answered."""
_MOST_BY_VECTORS = (0.6, 0.3)
_MOST_WITH_SENTENCES = (0.9, 0.5)
_SPREAD_RANK = 10
_LOOKED_AT = 6


class Candidates(Record):
    """What both lists found: `words`, BM25, and `nearest`, cosines, by chunk id and each best first.

    `cosines` has every candidate's that is known: with `has_sentences` the means of `with_sentences`.
    `evidence` is what each one's text has of the query, empty when words were not asked for. `places` says
    where candidates stand; it may be empty when neither days nor decay ask for it. `asking` are those that
    have words of the query in questions alone, `answering` those of a conversation in which the person says
    nothing. When the nearest ones are in another script than the query, Latin or not, `unread` is the share
    of them and of it, 0…1, that the embedder cannot read; else it is 0.
    """

    words: Scores
    nearest: Scores
    cosines: Scores
    evidence: Mapping[int, TextEvidence]
    has_sentences: bool = False
    places: Mapping[int, ChunkPlace] = field(default_factory=dict)
    asking: frozenset[int] = frozenset()
    answering: frozenset[int] = frozenset()
    unread: float = 0.0

    @property
    def ids(self) -> Iterable[int]:
        """Every candidate once."""
        return {**self.words, **self.nearest}


class Asked(Record):
    """What the candidates are weighed against.

    `term_counts` says in how many chunks each term of the evidence stands, `None` when words were not asked
    for; `proper_names` are the numbers of those that are names. `chunk_count` is the size of the index;
    `legible` the share of the query that the embedder can read; weights sum to 1, and the seeds' 0.7 and 0.3
    stand for the measured mix. `is_absent` says that what the query asks for by name stands nowhere.
    """

    term_counts: Sequence[int] | None
    days: tuple[DayRange, ...] = ()
    proper_names: frozenset[int] = frozenset()
    chunk_count: int
    legible: float = 1.0
    scale: CosineScale = DEFAULT_SCALE
    vector_weight: float = 0.7
    text_weight: float = 0.3
    is_absent: bool = False


class Mixed(Record):
    """The candidates in their order, and what the mix learned about them.

    `values` is what they are ordered by. `covered` is the share of the query's rarity that the best text by
    words has, `matched` how many of its terms; `top` the best BM25, `nearest` the better relatedness of the
    first two in the order, `None` without vectors: what is near and stands farther back has been outweighed.
    `best_fit` says how well the best chunk fits a day that the query names.
    """

    values: Mapping[int, float]
    covered: float
    matched: int
    top: float
    nearest: float | None
    best_fit: float


def mix(found: Candidates, asked: Asked) -> Mixed:
    """The value of each candidate by chunk id, whatever the number of results asked for."""
    top = max(found.words.values(), default=0.0)
    first = [chunk_id for chunk_id in islice(found.words, _LINE_POOL) if chunk_id in found.evidence]
    by_words = [found.evidence[chunk_id] for chunk_id in first]
    counts = asked.term_counts or ()
    among_best = rarity(counted(by_words, len(counts)), len(by_words))
    everywhere = rarity(counts, asked.chunk_count)
    covered = max((share(item.terms, among_best) for item in by_words[:_LOOKED_AT]), default=0.0)
    related = {chunk_id: asked.scale.relatedness(cosine) for chunk_id, cosine in found.cosines.items()}
    most = _MOST_WITH_SENTENCES if found.has_sentences else _MOST_BY_VECTORS
    vectors = vector_share(covered, sorted(related.values(), reverse=True), asked, words=top > 0, most=most)
    meanings = meaning_of(found.cosines, found.nearest, asked.scale)
    fits = _fits(found.places, asked.days)
    lines = {at: best_line_share(item, among_best) for at, item in zip(first, by_words, strict=True)}
    values: dict[int, float] = {}
    neighbours = max(1, len(counts) - 1)
    names, written = asked.proper_names, as_code(found.evidence.values())
    for chunk_id in found.ids:
        bm25, item = found.words.get(chunk_id, 0.0), found.evidence.get(chunk_id)
        words = (bm25 / top + _LINE_WEIGHT * lines.get(chunk_id, 0.0)) / (1 + _LINE_WEIGHT) if bm25 else 0.0
        meaning = meanings.get(chunk_id, 0.0)
        value = (1 - vectors) * words + vectors * meaning + _DATE_WEIGHT * fits.get(chunk_id, 0.0)
        if item and item.lines:
            value += _BEST_LINE * best_line_share(item, everywhere)
            value += _IN_ORDER * item.pairs / neighbours
            if names:
                value += _NAMED * len(item.terms & names) / len(names)
        if item and item.code:
            value += _AS_CODE * sum(map(written.__getitem__, item.code))
        values[chunk_id] = value
    for chunk_id in found.answering:
        values[chunk_id] *= _ANSWERS_ALONE
    first_two = nlargest(2, values, key=values.__getitem__)
    return Mixed(
        values=values,
        covered=covered,
        matched=max((len(item.terms) for item in by_words[:_LOOKED_AT]), default=0),
        top=top,
        nearest=max(related.get(at, 0.0) for at in first_two) if related else None,
        best_fit=max(fits.values(), default=0.0),
    )


def meaning_of(cosines: Scores, nearest: Scores, scale: CosineScale) -> dict[int, float]:
    """The cosine of each candidate as a share of the best, 0…1.

    It counts from that of unrelated texts, or from the least of the `nearest` when that is lower: notes in
    another language than the query often lie below unrelated ones, and still have an order.
    """
    if not cosines:
        return {}
    low, high = min([scale.unrelated, *nearest.values()]), max(cosines.values())
    return {at: max(0.0, value - low) / (high - low) if high > low else 1.0 for at, value in cosines.items()}


def most_in_a_text(asked: Asked) -> float:
    """How much a text may add to a candidate's value, code aside."""
    return _BEST_LINE + _IN_ORDER + (_NAMED if asked.proper_names else 0.0) + _ROUNDING


def as_code(evidence: Collection[TextEvidence]) -> dict[int, float]:
    """How much each form of code tells that some candidate has, as a share of all of these; by its number."""
    counts = Counter(form for item in evidence for form in item.code)
    return dict(zip(counts, rarity([*counts.values()], len(evidence)), strict=True))


def with_sentences(nearest: Scores, cosines: Scores, sentences: Scores, limit: int) -> tuple[Scores, Scores]:
    """The best `limit` of `nearest`, and all `cosines`: means of the best piece's and best sentence's.

    A chunk whose sentences have no vectors keeps the cosine of its piece.
    """
    both = {at: (cosine + sentences.get(at, cosine)) / 2 for at, cosine in cosines.items()}
    order = sorted(nearest, key=both.__getitem__, reverse=True)[:limit]
    return {at: both[at] for at in order}, both


def vector_share(
    covered: float,
    related: Sequence[float],
    asked: Asked,
    *,
    words: bool,
    most: tuple[float, float] = _MOST_BY_VECTORS,
) -> float:
    """How much of the mix vectors get, 0…1; `most` says how much at most, and what of that words take.

    More when the words explain little of the query, less when the cosines hardly differ, or when the model
    cannot read the query's script. `related` is in falling order.
    """
    if not related or asked.vector_weight <= 0:
        return 0.0
    if not words or asked.text_weight <= 0:
        return 1.0
    spread = related[0] - related[min(_SPREAD_RANK, len(related) - 1)]
    measured = (most[0] - most[1] * covered) * min(1.0, spread / 0.12) * (0.25 + 0.75 * asked.legible)
    odds = measured / (1 - measured) * (asked.vector_weight / asked.text_weight) / (0.7 / 0.3)
    return odds / (1 + odds)


def _fits(places: Mapping[int, ChunkPlace], days: tuple[DayRange, ...]) -> dict[int, float]:
    """How well the chunks' days fit the days that the query names; empty when it names none."""
    if not days:
        return {}
    return {chunk_id: closeness(place.date, days) for chunk_id, place in places.items()}
