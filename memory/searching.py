"""From a query to hits: candidates from the store, ranked, cut to snippets. Reads only.

Nothing here waits for a sync; a list that fails leaves the other one's hits and a sentence in `degraded`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from nacre.memory.cosine_scale import CosineScale
from nacre.memory.lexical import MatchQuery, match_query
from nacre.memory.query_dates import named_days
from nacre.memory.query_vectors import QueryVectors
from nacre.memory.ranking import Candidates, Ranked, Wanted, rank, snippets
from nacre.memory.records import SearchHit, SearchMode, citation
from nacre.memory.settings import QuerySettings
from nacre.memory.store import Scope, Scored, Store

MAX_QUERY_CHARS = 2_000
POOL = 60
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
    scale: CosineScale
    now: datetime


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Hits, best first, and which lists took part."""

    hits: tuple[SearchHit, ...]
    mode: SearchMode
    degraded: str = ""


@dataclass(frozen=True, kw_only=True)
class _Lists:
    words: Sequence[Scored]
    nearest: Sequence[Scored]
    vector: Sequence[float] | None


async def answer(store: Store, question: Question) -> Answer:
    """Searches the store.

    Raises:
        IndexUnusable, IndexClosed: the store cannot be read.
    """
    text = " ".join(question.text.split())[:MAX_QUERY_CHARS]
    if not text or not question.scope.sources:
        return Answer(hits=(), mode="none")
    days = named_days(text, question.now.date())
    query = match_query(text, days)
    lists = await _lists(store, question, text, query)
    found = await _candidates(store, question, lists)
    if len(found.chunks) < len({item.chunk_id for item in (*lists.words, *lists.nearest)}):
        # A rebuild was published between the lists and the chunks.
        lists = await _lists(store, question, text, query)
        found = await _candidates(store, question, lists)
    wanted = Wanted(
        query=query,
        today=question.now.date(),
        days=days,
        legible=question.vectors.legible(text) if question.vectors else 1.0,
        scale=question.scale,
        max_results=question.max_results,
        min_score=question.min_score,
    )
    ranked = rank(found, wanted, question.settings.hybrid)
    shown = snippets(ranked, found, query)
    hits = [_hit(item, snippet, question) for item, snippet in zip(ranked, shown, strict=True)]
    return Answer(hits=tuple(hits), mode=_mode(question, lists), degraded=_degraded(question, lists))


async def _lists(store: Store, question: Question, text: str, query: MatchQuery | None) -> _Lists:
    words, (nearest, vector) = await asyncio.gather(
        _by_words(store, question, query), _by_vector(store, question, text)
    )
    if vector is not None and not question.settings.hybrid.enabled:
        words = []
    return _Lists(words=words, nearest=nearest, vector=vector)


async def _by_words(store: Store, question: Question, query: MatchQuery | None) -> Sequence[Scored]:
    if query is None:
        return []
    return await store.lexical(query, limit=_pool(question), scope=question.scope)


async def _by_vector(
    store: Store, question: Question, text: str
) -> tuple[Sequence[Scored], Sequence[float] | None]:
    vector = await question.vectors.vector(text) if question.vectors is not None else None
    if vector is None:
        return [], None
    return await store.nearest(vector, limit=_pool(question), scope=question.scope), vector


async def _candidates(store: Store, question: Question, lists: _Lists) -> Candidates:
    ids = list(dict.fromkeys(item.chunk_id for item in (*lists.words, *lists.nearest)))
    known = {item.chunk_id: item.score for item in lists.nearest}
    literal = question.settings.hybrid.fusion == "seed"
    unscored = [] if literal else [chunk_id for chunk_id in ids if chunk_id not in known]
    chunks, more, count, ages = await asyncio.gather(
        store.chunks(ids),
        _cosines(store, lists.vector, unscored),
        store.chunk_count(),
        _ages(store, question, ids),
    )
    return Candidates(
        words=lists.words,
        nearest=lists.nearest,
        cosines={**known, **more},
        chunks=chunks,
        chunk_count=count,
        ages=ages,
    )


async def _cosines(
    store: Store, vector: Sequence[float] | None, chunk_ids: Sequence[int]
) -> Mapping[int, float]:
    if vector is None or not chunk_ids:
        return {}
    return await store.cosines(vector, chunk_ids)


async def _ages(store: Store, question: Question, chunk_ids: Sequence[int]) -> Mapping[int, float]:
    if not question.settings.hybrid.temporal_decay.enabled:
        return {}
    now_seconds = question.now.timestamp()
    changed = await store.modified_ns(chunk_ids)
    return {chunk_id: now_seconds - at / 1e9 for chunk_id, at in changed.items()}


def _pool(question: Question) -> int:
    hybrid = question.settings.hybrid
    if hybrid.fusion == "seed":
        return min(200, max(1, question.max_results * hybrid.candidate_multiplier))
    return max(POOL, question.max_results)


def _mode(question: Question, lists: _Lists) -> SearchMode:
    if lists.vector is None:
        return "lexical"
    return "hybrid" if question.settings.hybrid.enabled else "vector"


def _degraded(question: Question, lists: _Lists) -> str:
    if question.vectors is None or lists.vector is not None:
        return ""
    return f"Only words were searched. {question.vectors.problem}".strip()


def _hit(item: Ranked, snippet: str, question: Question) -> SearchHit:
    chunk = item.chunk
    return SearchHit(
        path=chunk.path,
        start_line=chunk.start_line,
        end_line=chunk.end_line,
        score=item.explanation.final,
        snippet=snippet,
        source=chunk.source,
        citation=citation(chunk.path, chunk.start_line, chunk.end_line),
        explain=item.explanation if question.explain else None,
    )
