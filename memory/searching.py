"""From a query to hits: candidates from the store, ranked, explained, cut to snippets. Reads only.

Nothing here waits for a sync; a list that fails leaves the other one's hits and a sentence in `degraded`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from nacre.memory.lexical import match_query
from nacre.memory.records import Chunk, HitExplanation, SearchHit, SearchMode, Source, citation
from nacre.memory.store import Scope, Scored, Store

MAX_QUERY_CHARS = 2_000
POOL = 100
"""Candidates from each list, whatever `max_results` is: asking for more must not change who is first."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """What a search asks, with every default filled in."""

    text: str
    max_results: int
    min_score: float
    after: date | None
    before: date | None
    sources: tuple[Source, ...]
    explain: bool


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Hits, best first, and which lists took part."""

    hits: tuple[SearchHit, ...]
    mode: SearchMode
    degraded: str


async def answer(store: Store, question: Question) -> Answer:
    """Searches the store."""
    query = match_query(question.text[:MAX_QUERY_CHARS])
    scope = Scope(sources=question.sources, after=question.after, before=question.before)
    if query is None:
        return Answer(hits=(), mode="none", degraded="")
    found = await store.lexical(query, limit=POOL, scope=scope)
    chunks = await store.chunks([item.chunk_id for item in found])
    return Answer(hits=tuple(_hits(found, chunks, question)), mode="lexical", degraded="")


def _hits(found: Sequence[Scored], chunks: Mapping[int, Chunk], question: Question) -> list[SearchHit]:
    best = max((item.score for item in found), default=0.0)
    hits = []
    for rank, item in enumerate(found, start=1):
        chunk = chunks.get(item.chunk_id)
        score = item.score / best if best > 0 else 0.0
        if chunk is None or score < question.min_score:
            continue
        hits.append(
            SearchHit(
                path=chunk.path,
                start_line=chunk.start_line,
                end_line=chunk.end_line,
                score=score,
                snippet=chunk.text[:700],
                source=chunk.source,
                citation=citation(chunk.path, chunk.start_line, chunk.end_line),
                explain=HitExplanation(
                    lexical_rank=rank,
                    lexical_score=item.score,
                    vector_rank=None,
                    cosine=None,
                    fused=score,
                    decay_factor=1.0,
                    mmr_rank=None,
                    final=score,
                )
                if question.explain
                else None,
            )
        )
    return hits[: question.max_results]
