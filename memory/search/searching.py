"""From a query to hits: candidates out of one moment of the index, ranked, cut to snippets. Reads only.

Nothing here waits for a sync. Without a vector the words answer, with a sentence in `degraded`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from nacre.memory.contracts.records import Chunk, SearchHit, SearchMode, Superseded, citation
from nacre.memory.contracts.settings import QuerySettings
from nacre.memory.contracts.store import Scope, Scores, Snapshot, Vector
from nacre.memory.contracts.words import MatchQuery
from nacre.memory.files.note_files import ROOT_FILES
from nacre.memory.search.absent import Absent, absent_names
from nacre.memory.search.contradiction import Sought, in_order, sought, superseded
from nacre.memory.search.fusion import FEW_CHUNKS
from nacre.memory.search.mixing import Asked, Candidates, with_sentences
from nacre.memory.search.ranking import DIVERSE_POOL, Ranked, best_of, diverse, placed, rank
from nacre.memory.search.same_words import only_answers, only_asks, told_once
from nacre.memory.text.days.query_dates import named_days
from nacre.memory.text.evidence import Finder, counted, rarity
from nacre.memory.text.forms.unknown_words import with_unknown_words
from nacre.memory.text.lexical import match_query
from nacre.memory.text.snippet import cut_snippet
from nacre.memory.vectors.cosine_scale import stored_scale
from nacre.memory.vectors.identity import embedder_change, stored_identity
from nacre.memory.vectors.query_vectors import QueryVectors

MAX_QUERY_CHARS = 2_000
MAX_WORDINGS = 5
"""Each costs a search of its own, a few milliseconds."""
POOL = 60
"""Candidates from each list, whatever `max_results` is: asking for more must not change who is first."""

NEAREST_PIECES = 3
"""How many times the pool the best sentences are looked for in: one may be washed out of its piece."""

MOST_REPEATED = 6
"""How many more places than wanted are looked at, because some say the same words as better ones."""

_WEIGHING_POOL = 11
"""How many of the best texts by words say which words are rare, for the snippets."""


@dataclass(frozen=True, kw_only=True)
class EmbedderInUse:
    """What embeds questions, and the marks of an index whose vectors can be compared with theirs."""

    vectors: QueryVectors
    identity: Mapping[str, str]
    key: str


@dataclass(frozen=True, kw_only=True)
class Question:
    """What a search asks, with every default filled in. Without an `embedder` words alone are searched.

    `wordings` ask for one thing in different words or languages; the first is the question itself.
    """

    wordings: tuple[str, ...]
    max_results: int
    min_score: float
    scope: Scope
    explain: bool
    settings: QuerySettings
    embedder: EmbedderInUse | None
    now: datetime


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Hits, best first, which lists took part, and which names of the question stand nowhere."""

    hits: tuple[SearchHit, ...]
    mode: SearchMode
    degraded: str = ""
    absent: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Found:
    """What one wording found, in order, and what it looked for."""

    ranked: Sequence[Ranked]
    candidates: Candidates
    finder: Finder | None
    sought: Sought | None
    absent: tuple[str, ...]
    degraded: str
    has_vector: bool


Reading = Callable[[Callable[[Snapshot], Answer]], Awaitable[Answer]]
"""`Store.search`, of the store that is in use."""


async def search(read: Reading, question: Question) -> Answer:
    """Embeds the question if it can, then searches the index in one go.

    Raises:
        IndexUnusable, IndexClosed: the store cannot be read.
    """
    texts = (" ".join(wording.split())[:MAX_QUERY_CHARS] for wording in question.wordings)
    wordings = tuple(dict.fromkeys(text for text in texts if text))[:MAX_WORDINGS]
    if not wordings or not question.scope.sources:
        return Answer(hits=(), mode="none")
    embedder = question.embedder
    vectors: list[Vector | None] = [None] * len(wordings)
    if embedder is not None:
        vectors = list(await asyncio.gather(*map(embedder.vectors.vector, wordings)))
    return await read(
        lambda snapshot: _answer(snapshot, question, tuple(zip(wordings, vectors, strict=True)))
    )


def _answer(snapshot: Snapshot, question: Question, wordings: Sequence[tuple[str, Vector | None]]) -> Answer:
    hybrid = question.settings.hybrid
    mmr, wanted = hybrid.mmr, question.max_results
    count = max(wanted, DIVERSE_POOL) if mmr.enabled else wanted + MOST_REPEATED
    found = [_found(snapshot, question, text, vector, count) for text, vector in wordings]
    best, places = best_of([one.ranked for one in found], count)
    found_by = {chunk_id: found[place] for chunk_id, place in places.items()}
    chunks = snapshot.chunks([item.chunk_id for item in best])
    ranked = placed(best, chunks)
    if mmr.enabled:
        ranked = diverse(ranked, chunks, mmr.lambda_, wanted)
    once = told_once(ranked, chunks, {chunk_id: one.finder for chunk_id, one in found_by.items()})
    told, later = in_order(once, chunks, {chunk_id: one.sought for chunk_id, one in found_by.items()})
    marks = superseded(later, {item.chunk_id for item, _ in told[:wanted]})
    has_vector = any(one.has_vector for one in found)
    return Answer(
        hits=tuple(_hits(question, told[:wanted], found_by, chunks, marks)),
        mode="lexical" if not has_vector else "hybrid" if hybrid.enabled else "vector",
        degraded=next((one.degraded for one in found if one.degraded), ""),
        absent=tuple(dict.fromkeys(name for one in found for name in one.absent)),
    )


def _found(snapshot: Snapshot, question: Question, text: str, vector: Vector | None, count: int) -> _Found:
    """What one wording finds, the best `count` of it."""
    hybrid, embedder = question.settings.hybrid, question.embedder
    days = named_days(text, question.now.date())
    query = match_query(text, days)
    if query is not None:
        query = with_unknown_words(query, snapshot.is_known)
    meta = snapshot.meta()
    has_chunks = snapshot.chunk_count() > 0
    degraded = _degraded(embedder, meta, vector, snapshot.dimensions(), has_chunks=has_chunks)
    if degraded:
        vector = None
    finder = Finder(query) if query is not None else None
    found = _candidates(snapshot, question, query, finder, vector)
    absent = absent_names(snapshot, query, question.scope) if query is not None else Absent()
    if days or hybrid.temporal_decay.enabled:
        found = replace(found, places=snapshot.places(list(found.ids)))
    asked = Asked(
        term_counts=snapshot.counts_of(finder.atoms) if finder is not None else None,
        days=days,
        chunk_count=snapshot.chunk_count(),
        legible=embedder.vectors.legible(text) if embedder is not None else 1.0,
        scale=stored_scale(meta, embedder.key if embedder is not None else ""),
        vector_weight=hybrid.vector_weight,
        text_weight=hybrid.text_weight,
        is_absent=absent.asks_for_them,
    )
    ranked = rank(found, asked, hybrid, count=count, min_score=question.min_score, now=question.now)
    return _Found(
        ranked=ranked,
        candidates=found,
        finder=finder,
        sought=sought(text, finder, names_days=bool(days)) if finder is not None else None,
        absent=absent.names if has_chunks else (),
        degraded=degraded,
        has_vector=vector is not None,
    )


def _degraded(
    embedder: EmbedderInUse | None,
    meta: Mapping[str, str],
    vector: Vector | None,
    dimensions: int | None,
    *,
    has_chunks: bool,
) -> str:
    """Why the vector cannot take part, as a sentence; empty when it can, or none is wanted."""
    if embedder is None:
        return ""
    if change := embedder_change(stored_identity(meta), embedder.identity):
        return f"Only words were searched, because {change} and new vectors are not made yet."
    if vector is None:
        return f"Only words were searched. {embedder.vectors.problem}".strip()
    if dimensions is None:
        return "Only words were searched, because no vectors are made yet." if has_chunks else ""
    if dimensions != len(vector):
        return (
            f"Only words were searched, because the embedder's vectors have {len(vector)} numbers and those "
            f"of the index {dimensions}: its model is not the same any more."
        )
    return ""


def _candidates(
    snapshot: Snapshot,
    question: Question,
    query: MatchQuery | None,
    finder: Finder | None,
    vector: Vector | None,
) -> Candidates:
    hybrid, scope = question.settings.hybrid, question.scope
    literal = hybrid.fusion == "seed"
    pool = max(POOL, question.max_results)
    if literal:
        pool = min(200, max(1, question.max_results * hybrid.candidate_multiplier))
    by_words = query is not None and (vector is None or hybrid.enabled)
    words = snapshot.lexical(query, limit=pool, scope=scope) if query is not None and by_words else {}
    by_sentences = question.embedder is not None and question.embedder.vectors.sentences and not literal
    wide = NEAREST_PIECES * pool if by_sentences else pool
    nearest: Scores = snapshot.nearest(vector, limit=wide, scope=scope) if vector is not None else {}
    cosines = nearest
    sentences: Scores = {}
    if vector is not None and not literal:
        others = snapshot.cosines(vector, [item for item in words if item not in nearest])
        cosines = {**cosines, **others}
        sentences = snapshot.sentence_cosines(vector, list(cosines)) if by_sentences else {}
    nearest, cosines = with_sentences(nearest, cosines, sentences, pool)
    found = Candidates(
        words=words, nearest=nearest, cosines=cosines, has_sentences=bool(sentences), evidence={}
    )
    if finder is None or not by_words:
        return found
    return _read(snapshot, finder, found)


def _read(snapshot: Snapshot, finder: Finder, found: Candidates) -> Candidates:
    """The candidates with what their texts have of the query, and which of them only ask or only answer.

    Among a few chunks, where bm25 tells nothing, their names count too.
    """
    ids, is_small = list(found.ids), snapshot.chunk_count() < FEW_CHUNKS
    chunks = snapshot.chunks(ids) if is_small else {}
    texts = {at: chunk.text for at, chunk in chunks.items()} if is_small else snapshot.texts(ids)
    evidence = {at: finder.look(texts[at]) for at in ids}
    asking = frozenset(at for at, item in evidence.items() if only_asks(texts[at], item))
    for at, chunk in chunks.items():
        terms = evidence[at].terms | finder.look(_names(chunk)).terms
        evidence[at] = replace(evidence[at], terms=terms)
    answering = frozenset(at for at in ids if only_answers(texts[at]))
    return replace(found, evidence=evidence, asking=asking, answering=answering)


def _names(chunk: Chunk) -> str:
    """File name and headings. `MEMORY.md` is called so whatever it is about."""
    name = "" if chunk.path in ROOT_FILES else chunk.path.rsplit("/", 1)[-1].rsplit(".", 1)[0]
    return " ".join((name, *chunk.heading_path))


def _hits(
    question: Question,
    told: Sequence[tuple[Ranked, Sequence[Chunk]]],
    found_by: Mapping[int, _Found],
    chunks: Mapping[int, Chunk],
    marks: Mapping[int, tuple[Superseded, ...]],
) -> Iterator[SearchHit]:
    """Each hit with the lines that the wording looked for which found it."""
    weights: dict[int, Sequence[float]] = {}
    for item, others in told:
        chunk, found = chunks[item.chunk_id], found_by[item.chunk_id]
        if found.finder is not None and id(found) not in weights:
            looked_at = list(islice(found.candidates.evidence.values(), _WEIGHING_POOL))
            counts = counted(looked_at, len(found.finder.terms))
            weights[id(found)] = rarity(counts, len(looked_at))
        snippet = cut_snippet(chunk.text, found.finder, weights.get(id(found), ()))
        yield SearchHit(
            path=chunk.path,
            start_line=chunk.start_line,
            end_line=chunk.end_line,
            score=item.explanation.final,
            snippet=snippet,
            source=chunk.source,
            citation=citation(chunk.path, chunk.start_line, chunk.end_line),
            also=tuple(citation(other.path, other.start_line, other.end_line) for other in others),
            superseded=marks.get(item.chunk_id, ()),
            explain=item.explanation if question.explain else None,
        )
