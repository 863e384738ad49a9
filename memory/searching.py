"""From a query to hits: candidates from the store, ranked, explained, cut to snippets. Reads only.

Nothing here waits for a sync; a list that fails leaves the other one's hits and a sentence in `degraded`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nacre.memory.lexical import MatchQuery, match_query
from nacre.memory.query_vectors import QueryVectors
from nacre.memory.records import Chunk, HitExplanation, SearchHit, SearchMode, citation
from nacre.memory.settings import QuerySettings
from nacre.memory.store import Scope, Scored, Store

MAX_QUERY_CHARS = 2_000
POOL = 100
"""Candidates from each list, whatever `max_results` is: asking for more must not change who is first."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """What a search asks, with every default filled in. `vectors` is `None` when words alone are searched."""

    text: str
    max_results: int
    min_score: float
    scope: Scope
    explain: bool
    settings: QuerySettings
    vectors: QueryVectors | None


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Hits, best first, and which lists took part."""

    hits: tuple[SearchHit, ...]
    mode: SearchMode
    degraded: str


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """What both lists found: chunks by id, −bm25 and cosine of those that have one."""

    words: Sequence[Scored]
    nearest: Sequence[Scored]
    cosines: Mapping[int, float]
    chunks: Mapping[int, Chunk]
    had_vector: bool = False
    missing: bool = False


async def answer(store: Store, question: Question) -> Answer:
    """Searches the store.

    Raises:
        IndexUnusable, IndexClosed: the store cannot be read.
    """
    text = " ".join(question.text.split())[:MAX_QUERY_CHARS]
    query = match_query(text)
    if not text or not question.scope.sources:
        return Answer(hits=(), mode="none", degraded="")
    found = await _candidates(store, question, text, query)
    if found.missing:
        # A rebuild was published between the lists and the chunks.
        found = await _candidates(store, question, text, query)
    degraded = ""
    if question.vectors is not None and not found.had_vector:
        degraded = f"Only words were searched. {question.vectors.problem}".strip()
    mode: SearchMode = "lexical"
    if found.had_vector:
        mode = "hybrid" if question.settings.hybrid.enabled else "vector"
    return Answer(hits=tuple(_hits(found, question)), mode=mode, degraded=degraded)


async def _candidates(store: Store, question: Question, text: str, query: MatchQuery | None) -> Candidates:
    words, (nearest, cosines_of) = await asyncio.gather(
        _by_words(store, question, query), _by_vector(store, question, text)
    )
    if nearest and not question.settings.hybrid.enabled:
        words = []
    ids = list(dict.fromkeys([item.chunk_id for item in (*words, *nearest)]))
    known = {item.chunk_id: item.score for item in nearest}
    others = [chunk_id for chunk_id in ids if chunk_id not in known]
    chunks, more = await asyncio.gather(store.chunks(ids), _cosines(store, cosines_of, others))
    return Candidates(
        words=words,
        nearest=nearest,
        cosines=known | dict(more),
        chunks=chunks,
        had_vector=cosines_of is not None,
        missing=len(chunks) < len(ids),
    )


async def _by_words(store: Store, question: Question, query: MatchQuery | None) -> Sequence[Scored]:
    if query is None:
        return []
    return await store.lexical(query, limit=POOL, scope=question.scope)


async def _by_vector(
    store: Store, question: Question, text: str
) -> tuple[Sequence[Scored], Sequence[float] | None]:
    if question.vectors is None:
        return [], None
    vector = await question.vectors.vector(text)
    if vector is None:
        return [], None
    return await store.nearest(vector, limit=POOL, scope=question.scope), vector


async def _cosines(
    store: Store, vector: Sequence[float] | None, chunk_ids: Sequence[int]
) -> Mapping[int, float]:
    if vector is None or not chunk_ids:
        return {}
    return await store.cosines(vector, chunk_ids)


def _hits(found: Candidates, question: Question) -> list[SearchHit]:
    best_words = max((item.score for item in found.words), default=0.0)
    best_cosine = max(found.cosines.values(), default=0.0)
    words = {item.chunk_id: (rank, item.score) for rank, item in enumerate(found.words, start=1)}
    nearest = {item.chunk_id: rank for rank, item in enumerate(found.nearest, start=1)}
    hits = []
    for chunk_id, chunk in found.chunks.items():
        rank, score = words.get(chunk_id, (None, None))
        cosine = found.cosines.get(chunk_id)
        parts = []
        if found.words:
            parts.append(score / best_words if score and best_words > 0 else 0.0)
        if found.had_vector:
            parts.append(max(0.0, cosine) / best_cosine if cosine and best_cosine > 0 else 0.0)
        final = sum(parts) / len(parts) if parts else 0.0
        if final < question.min_score:
            continue
        explanation = HitExplanation(
            lexical_rank=rank,
            lexical_score=score,
            vector_rank=nearest.get(chunk_id),
            cosine=cosine,
            fused=final,
            decay_factor=1.0,
            mmr_rank=None,
            final=final,
        )
        hits.append(_hit(chunk, final, explanation if question.explain else None))
    hits.sort(key=lambda hit: (-hit.score, hit.path, hit.start_line))
    return hits[: question.max_results]


def _hit(chunk: Chunk, score: float, explanation: HitExplanation | None) -> SearchHit:
    return SearchHit(
        path=chunk.path,
        start_line=chunk.start_line,
        end_line=chunk.end_line,
        score=score,
        snippet=chunk.text[:700],
        source=chunk.source,
        citation=citation(chunk.path, chunk.start_line, chunk.end_line),
        explain=explanation,
    )
