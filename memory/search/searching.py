"""From a query to hits: candidates out of one moment of the index, ranked, cut to snippets. Reads only.

Nothing here waits for a sync. Without a vector the words answer, with a sentence in `degraded`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import islice

from nacre.memory.contracts.records import Chunk, SearchHit, citation
from nacre.memory.contracts.store import Snapshot, Vector
from nacre.memory.search.finding import Found, find
from nacre.memory.search.question import Answer, Question
from nacre.memory.search.ranking import DIVERSE_POOL, Ranked, best_of, diverse, placed
from nacre.memory.search.same_words import told_once
from nacre.memory.text.evidence import counted, rarity
from nacre.memory.text.snippet import cut_snippet

MAX_QUERY_CHARS = 2_000
MAX_WORDINGS = 5
"""Each costs a search of its own, a few milliseconds."""

MOST_REPEATED = 6
"""How many more places than wanted are looked at, because some say the same words as better ones."""

_WEIGHING_POOL = 11
"""How many of the best texts by words say which words are rare, for the snippets."""

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
    found = [find(snapshot, question, text, vector, count) for text, vector in wordings]
    best, places = best_of([one.ranked for one in found], count)
    found_by = {chunk_id: found[place] for chunk_id, place in places.items()}
    chunks = snapshot.chunks([item.chunk_id for item in best])
    ranked = placed(best, chunks)
    if mmr.enabled:
        ranked = diverse(ranked, chunks, mmr.lambda_, wanted)
    told = told_once(ranked, chunks, {chunk_id: one.finder for chunk_id, one in found_by.items()})
    has_vector = any(one.has_vector for one in found)
    return Answer(
        hits=tuple(_hits(question, told[:wanted], found_by, chunks)),
        mode="lexical" if not has_vector else "hybrid" if hybrid.enabled else "vector",
        degraded=next((one.degraded for one in found if one.degraded), ""),
        absent=tuple(dict.fromkeys(name for one in found for name in one.absent)),
    )


def _hits(
    question: Question,
    told: Sequence[tuple[Ranked, Sequence[Chunk]]],
    found_by: Mapping[int, Found],
    chunks: Mapping[int, Chunk],
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
        yield _hit(chunk, item, snippet, others, explain=question.explain)


def _hit(chunk: Chunk, item: Ranked, snippet: str, others: Sequence[Chunk], *, explain: bool) -> SearchHit:
    return SearchHit(
        path=chunk.path,
        start_line=chunk.start_line,
        end_line=chunk.end_line,
        score=item.explanation.final,
        snippet=snippet,
        source=chunk.source,
        citation=citation(chunk.path, chunk.start_line, chunk.end_line),
        also=tuple(citation(other.path, other.start_line, other.end_line) for other in others),
        explain=item.explanation if explain else None,
    )
