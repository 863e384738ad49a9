"""The order: two lists, words and vectors, become one value for each chunk, higher is better.

Shares of the best value on either side, mixed by how much of the query the words explain: what wins on the
evaluation sets (docs/recall.md). What the values mean as a score is `fusion.py`'s matter. Pure arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from nacre.memory.contracts.records import ChunkPlace
from nacre.memory.contracts.store import Scores
from nacre.memory.text.days.ranges import DayRange, closeness
from nacre.memory.text.evidence import TextEvidence, best_line_share, rarity, share
from nacre.memory.vectors.cosine_scale import DEFAULT_SCALE, CosineScale

EVIDENCE_POOL = 20
"""How many of the best lexical candidates are read line by line."""
_LINE_WEIGHT = 0.4
_DATE_WEIGHT = 0.25
_SPREAD_RANK = 10
_LOOKED_AT = 6


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


@dataclass(frozen=True, kw_only=True)
class Mixed:
    """The candidates in their order, and what the mix learned about them.

    `values` is what they are ordered by. `covered` is the share of the query's rarity that the best text by
    words has, `matched` how many of its terms; `top` the best BM25, `nearest` the best relatedness, `None`
    without vectors; `best_fit` how well the best chunk fits a day that the query names.
    """

    values: Mapping[int, float]
    covered: float
    matched: int
    top: float
    nearest: float | None
    best_fit: float


def mix(found: Candidates, asked: Asked) -> Mixed:
    """The value of each candidate by chunk id, whatever the number of results asked for."""
    evidence = found.evidence
    weights = rarity(evidence.values(), asked.term_count or 0)
    top = max(found.words.values(), default=0.0)
    best_texts = list(evidence.values())[:_LOOKED_AT]
    covered = max((share(item.terms, weights) for item in best_texts), default=0.0)
    related = {chunk_id: asked.scale.relatedness(cosine) for chunk_id, cosine in found.cosines.items()}
    vectors = vector_share(covered, sorted(related.values(), reverse=True), asked, words=top > 0)
    nearest = max(related.values(), default=0.0)
    lines = {chunk_id: best_line_share(item, weights) for chunk_id, item in evidence.items()}
    fits = _fits(found.places, asked.days)
    values: dict[int, float] = {}
    for chunk_id in found.ids:
        bm25 = found.words.get(chunk_id)
        words = (bm25 / top + _LINE_WEIGHT * lines.get(chunk_id, 0.0)) / (1 + _LINE_WEIGHT) if bm25 else 0.0
        meaning = related.get(chunk_id, 0.0) / nearest if nearest else 0.0
        values[chunk_id] = (1 - vectors) * words + vectors * meaning + _DATE_WEIGHT * fits.get(chunk_id, 0.0)
    return Mixed(
        values=values,
        covered=covered,
        matched=max((len(item.terms) for item in best_texts), default=0),
        top=top,
        nearest=nearest if related else None,
        best_fit=max(fits.values(), default=0.0),
    )


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


def _fits(places: Mapping[int, ChunkPlace], days: tuple[DayRange, ...]) -> dict[int, float]:
    """How well the chunks' days fit the days that the query names; empty when it names none."""
    if not days:
        return {}
    return {chunk_id: closeness(place.date, days) for chunk_id, place in places.items()}
