"""From a query to hits: candidates out of one moment of the index, ranked, cut to snippets. Reads only.

Nothing here waits for a sync. Without a vector the words answer, and without a re-ranker's answer the usual
order stays, with a sentence in `degraded`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Protocol, TypeVar

from nacre.memory.contracts.records import Chunk, SearchHit, Superseded, citation
from nacre.memory.contracts.store import Snapshot, Vector
from nacre.memory.search.contradiction import in_order, superseded
from nacre.memory.search.finding import Found, find
from nacre.memory.search.question import Answer, Question
from nacre.memory.search.ranking import DIVERSE_POOL, Ranked, best_of, diverse, placed
from nacre.memory.search.same_words import told_once
from nacre.memory.text.evidence import counted, rarity
from nacre.memory.text.lexical import quotation
from nacre.memory.text.snippet import cut_snippet
from nacre.memory.vectors.pieces import embedding_texts
from nacre.record import Record

if TYPE_CHECKING:
    from nacre.memory.search.rerankers.reranking import Reranking

MAX_QUERY_CHARS = 2_000
MAX_WORDINGS = 5
"""Each costs a search of its own, a few milliseconds."""

MOST_REPEATED = 6
"""How many more places than wanted are looked at, because some say the same words as better ones."""

_WEIGHING_POOL = 11
"""How many of the best texts by words say which words are rare, for the snippets."""

T = TypeVar("T")


class Reading(Protocol):
    """`Store.search`, of the store that is in use."""

    async def __call__(self, work: Callable[[Snapshot], T], /) -> T: ...


class _Pool(Record):
    """The best places of all wordings, best first, and what each wording found."""

    ranked: Sequence[Ranked]
    chunks: Mapping[int, Chunk]
    found: Sequence[Found]
    found_by: Mapping[int, Found]
    reranked_by: str = ""
    rerank_problem: str = ""


async def search(read: Reading, question: Question) -> Answer:
    """Embeds the question if it can, searches the index in one go, and asks the re-ranker if there is one.

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
        bare = (quotation(wording) or wording for wording in wordings)
        vectors = list(await asyncio.gather(*map(embedder.vectors.vector, bare)))
    asked = tuple(zip(wordings, vectors, strict=True))
    if question.reranking is None:
        return await read(lambda snapshot: _answer(question, _pool(snapshot, question, asked)))
    pool = await read(lambda snapshot: _pool(snapshot, question, asked))
    pool = await _reranked(pool, wordings[0], question.reranking)
    # A place is worth what the search says, and the chunk that has it now may be older.
    least = question.min_score or 0.0
    pool = replace(pool, ranked=[item for item in pool.ranked if item.explanation.final >= least])
    return await asyncio.to_thread(_answer, question, pool)


def _pool(snapshot: Snapshot, question: Question, wordings: Sequence[tuple[str, Vector | None]]) -> _Pool:
    mmr, wanted = question.settings.hybrid.mmr, question.max_results
    count = max(wanted, DIVERSE_POOL) if mmr.enabled else wanted + MOST_REPEATED
    if question.reranking is not None:
        count = max(count, question.reranking.candidates)
    found = [find(snapshot, question, text, vector, count) for text, vector in wordings]
    best, places = best_of([one.ranked for one in found], count)
    chunks = snapshot.chunks([item.chunk_id for item in best])
    found_by = {chunk_id: found[place] for chunk_id, place in places.items()}
    return _Pool(ranked=placed(best, chunks), chunks=chunks, found=found, found_by=found_by)


async def _reranked(pool: _Pool, text: str, reranking: Reranking) -> _Pool:
    """The pool in the re-ranker's order, or as it was, with the reason. One place needs no order."""
    best = [item.chunk_id for item in pool.ranked[: reranking.candidates]]
    if len(best) < 2:
        return pool
    texts = [embedding_texts(pool.chunks[chunk_id])[0] for chunk_id in best]
    relevance = await reranking.relevance(text, texts)
    if relevance is None:
        return replace(pool, rerank_problem=f"The hits stand in their usual order. {reranking.problem}")
    ranked = reordered(pool.ranked, dict(zip(best, relevance, strict=True)))
    return replace(pool, ranked=ranked, reranked_by=reranking.name)


def reordered(ranked: Sequence[Ranked], relevance: Mapping[int, float]) -> list[Ranked]:
    """`ranked`, best first, with the chunks that have a `relevance` in its order, each worth its new place.

    The re-ranker says who stands where; what a place is worth, the search says as ever, so that the first hit
    still scores how sure the search is that anything fits (docs/decisions/0068-re-ranking.md). What a chunk
    loses by its age, it loses at its new place too. Of equals the one that stood before stays before.
    """
    asked = [item for item in ranked if item.chunk_id in relevance]
    worths = sorted((item.explanation.fused for item in asked), reverse=True)
    order = sorted(asked, key=lambda item: relevance[item.chunk_id], reverse=True)
    moved = [_at_place(item, fused, relevance) for item, fused in zip(order, worths, strict=True)]
    others = [item for item in ranked if item.chunk_id not in relevance]
    return sorted((*moved, *others), key=lambda item: item.explanation.final, reverse=True)


def _at_place(item: Ranked, fused: float, relevance: Mapping[int, float]) -> Ranked:
    why, said = item.explanation, relevance[item.chunk_id]
    return replace(
        item, explanation=replace(why, fused=fused, final=fused * why.decay_factor, relevance=said)
    )


def _answer(question: Question, pool: _Pool) -> Answer:
    hybrid, wanted, found = question.settings.hybrid, question.max_results, pool.found
    ranked = pool.ranked
    if hybrid.mmr.enabled:
        ranked = diverse(ranked, pool.chunks, hybrid.mmr.lambda_, wanted)
    finders = {chunk_id: one.finder for chunk_id, one in pool.found_by.items()}
    once = told_once(ranked, pool.chunks, finders)[: wanted + MOST_REPEATED]
    told, later = in_order(once, pool.chunks, {at: one.sought for at, one in pool.found_by.items()})
    marks = superseded(later, {item.chunk_id for item, _ in told[:wanted]})
    has_vector = any(one.has_vector for one in found)
    degraded = next((one.degraded for one in found if one.degraded), "")
    return Answer(
        hits=tuple(_hits(question, told[:wanted], pool.found_by, pool.chunks, marks)),
        mode="lexical" if not has_vector else "hybrid" if hybrid.enabled else "vector",
        degraded=f"{degraded} {pool.rerank_problem}".strip(),
        absent=tuple(dict.fromkeys(name for one in found for name in one.absent)),
        reranked_by=pool.reranked_by,
    )


def _hits(
    question: Question,
    told: Sequence[tuple[Ranked, Sequence[Chunk]]],
    found_by: Mapping[int, Found],
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
