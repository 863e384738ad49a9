"""From a question to a report: candidates from one snapshot, ranked, grouped, and cut to snippets.

A search only reads, and never waits for a sync. Without a vector it uses words alone, and without an answer
of the re-ranker the hits keep their order; `degraded` says so.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import lru_cache
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from nacre.memory.contracts.records import Chunk, SearchHit, SearchReport, Superseded, citation
from nacre.memory.contracts.store import Snapshot, Vector
from nacre.memory.search.contradiction import HitGroup, asked_lines, corrected_order, superseded_lines
from nacre.memory.search.finding import SearchContext, WordingResult, find
from nacre.memory.search.ranking import DIVERSE_POOL, Ranked, best_of, diverse, placed
from nacre.memory.text.evidence import Finder, counted, rarity
from nacre.memory.text.lexical import quotation
from nacre.memory.text.markdown_blocks import HEADING
from nacre.memory.text.snippet import cut_snippet
from nacre.memory.vectors.pieces import embedding_texts
from nacre.record import Record

if TYPE_CHECKING:
    from nacre.memory.search.rerankers.reranker import Reranking

MAX_QUERY_CHARS = 2_000
MAX_WORDINGS = 5
"""Each wording costs a search of a few milliseconds."""

MOST_REPEATED = 6
"""How many more hits than requested are examined, because some repeat the words of better ones."""

MIN_CHARS = 12
"""Shorter statements are alike by chance; scripts with many characters need half of this."""

_WEIGHING_POOL = 11
"""How many of the best texts by words determine which words are rare, for the snippets."""

_WORD = re.compile(r"[^\W_]+")
_QUOTED = re.compile(r"\s{0,3}>[> ]*(?:(?:User|Assistant|Somebody): )?|\s*(?:[-*+]|\d{1,3}[.)])\s+")

T = TypeVar("T")


class SnapshotReader(Protocol):
    """`Store.search`, of the store that is in use."""

    async def __call__(self, work: Callable[[Snapshot], T], /) -> T: ...


class _Pool(Record):
    """The best chunks of all wordings, the best first, and what each wording found."""

    ranked: Sequence[Ranked]
    chunks: Mapping[int, Chunk]
    found: Sequence[WordingResult]
    found_by: Mapping[int, WordingResult]
    reranked_by: str = ""
    rerank_problem: str = ""


async def search(read: SnapshotReader, context: SearchContext) -> SearchReport:
    """Embeds the question if possible, searches one snapshot, and asks the re-ranker if there is one.

    The report lacks what only the engine knows, such as the embedder's name.

    Raises:
        IndexUnusable, IndexClosed: the store cannot be read.
    """
    question = context.question
    texts = (" ".join(wording.split())[:MAX_QUERY_CHARS] for wording in (question.text, *question.also))
    wordings = tuple(dict.fromkeys(text for text in texts if text))[:MAX_WORDINGS]
    if not wordings or not context.scope.sources:
        return SearchReport(hits=(), mode="none")
    vectors: list[Future[Vector | None]] = []
    if context.embedder is not None:
        bare = (quotation(wording) or wording for wording in wordings)
        vectors = await asyncio.gather(*map(context.embedder.vectors.asked, bare))
    pairs = tuple(zip_longest(wordings, vectors))
    if context.reranking is None:
        return await read(lambda snapshot: _report(context, _pool(snapshot, context, pairs)))
    pool = await read(lambda snapshot: _pool(snapshot, context, pairs))
    pool = await _reranked(pool, wordings[0], context.reranking)
    # A place keeps its worth, and the chunk that has moved there may be older and score less.
    least = context.min_score or 0.0
    pool = replace(pool, ranked=[item for item in pool.ranked if item.explanation.final >= least])
    return await asyncio.to_thread(_report, context, pool)


def _pool(
    snapshot: Snapshot, context: SearchContext, wordings: Sequence[tuple[str, Future[Vector | None] | None]]
) -> _Pool:
    mmr, wanted = context.settings.hybrid.mmr, context.max_results
    count = max(wanted, DIVERSE_POOL) if mmr.enabled else wanted + MOST_REPEATED
    if context.reranking is not None:
        count = max(count, context.reranking.candidates)
    found = [find(snapshot, context, text, asked, count) for text, asked in wordings]
    best, places = best_of([one.ranked for one in found], count)
    chunks = snapshot.chunks([item.chunk_id for item in best])
    found_by = {chunk_id: found[place] for chunk_id, place in places.items()}
    return _Pool(ranked=placed(best, chunks), chunks=chunks, found=found, found_by=found_by)


async def _reranked(pool: _Pool, text: str, reranking: Reranking) -> _Pool:
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
    """`ranked`, the best first, with the chunks in `relevance` sorted by it.

    The re-ranker decides only the order. Each place keeps the score that the search gave it, so that the
    first hit still scores how sure the search is that anything fits
    (docs/decisions/search.md). A chunk's decay applies at its new place. Ties keep their order.
    """
    asked = [item for item in ranked if item.chunk_id in relevance]
    worths = sorted((item.explanation.fused for item in asked), reverse=True)
    order = sorted(asked, key=lambda item: relevance[item.chunk_id], reverse=True)
    moved: list[Ranked] = []
    for item, fused in zip(order, worths, strict=True):
        why, final = item.explanation, fused * item.explanation.decay_factor
        why = replace(why, fused=fused, final=final, relevance=relevance[item.chunk_id])
        moved.append(replace(item, explanation=why))
    others = [item for item in ranked if item.chunk_id not in relevance]
    return sorted((*moved, *others), key=lambda item: item.explanation.final, reverse=True)


def _report(context: SearchContext, pool: _Pool) -> SearchReport:
    hybrid, wanted, found = context.settings.hybrid, context.max_results, pool.found
    ranked = pool.ranked
    if hybrid.mmr.enabled:
        ranked = diverse(ranked, pool.chunks, hybrid.mmr.lambda_, wanted)
    finders = {chunk_id: one.finder for chunk_id, one in pool.found_by.items()}
    groups = grouped(ranked, pool.chunks, finders)
    intents = {chunk_id: one.intent for chunk_id, one in pool.found_by.items()}
    groups, supersessions = corrected_order(groups, pool.chunks, intents, wanted + MOST_REPEATED)
    marks = superseded_lines(supersessions, {item.chunk_id for item, _ in groups[:wanted]})
    has_vector = any(one.has_vector for one in found)
    degraded = next((one.degraded for one in found if one.degraded), "")
    return SearchReport(
        hits=tuple(_hits(context, pool, groups[:wanted], marks)),
        mode="lexical" if not has_vector else "hybrid" if hybrid.enabled else "vector",
        degraded=f"{degraded} {pool.rerank_problem}".strip(),
        absent=tuple(dict.fromkeys(name for one in found for name in one.absent)),
        reranked_by=pool.reranked_by,
    )


def _hits(
    context: SearchContext,
    pool: _Pool,
    groups: Sequence[HitGroup],
    marks: Mapping[int, tuple[Superseded, ...]],
) -> Iterator[SearchHit]:
    # Each hit shows the lines that fit the wording which found it.
    weights: dict[int, Sequence[float]] = {}
    has_period = context.question.after is not None or context.question.before is not None
    for item, repeats in groups:
        chunk, found = pool.chunks[item.chunk_id], pool.found_by[item.chunk_id]
        if found.finder is not None and id(found) not in weights:
            examined = list(islice(found.candidates.evidence.values(), _WEIGHING_POOL))
            counts = counted(examined, len(found.finder.terms))
            weights[id(found)] = rarity(counts, len(examined))
        snippet = cut_snippet(chunk.text, found.finder, weights.get(id(found), ()))
        yield SearchHit(
            path=chunk.path,
            start_line=chunk.start_line,
            end_line=chunk.end_line,
            score=item.explanation.final,
            snippet=snippet,
            source=chunk.source,
            citation=citation(chunk.path, chunk.start_line, chunk.end_line),
            also=tuple(citation(other.path, other.start_line, other.end_line) for other in repeats),
            superseded=marks.get(item.chunk_id, ()),
            asked=() if has_period else asked_lines(chunk, item.chunk_id, found.intent),
            explain=item.explanation if context.question.explain else None,
        )


def grouped(
    ranked: Sequence[Ranked], chunks: Mapping[int, Chunk], finders: Mapping[int, Finder | None]
) -> list[HitGroup]:
    """The hits in their order, each with the later chunks that only repeat it.

    A fact may stand in the daily log, in the note of a session, and in quotations of both. A chunk repeats a
    better one if each of its lines stands there. So does a quoted conversation if its lines about the query
    repeat a line of the better chunk, because what surrounds them is talk. `finders` has the finder of each
    chunk's wording.
    """
    groups: list[tuple[Ranked, _Statements, list[Chunk]]] = []
    for item in ranked:
        chunk = chunks[item.chunk_id]
        statements, quoted = _statements_of(chunk.text), _quoted(chunk.text, finders[item.chunk_id])
        better = next((group for group in groups if _repeats(statements, quoted, group[1])), None)
        if better is None:
            groups.append((item, statements, []))
        else:
            better[2].append(chunk)
    return [(item, tuple(repeats)) for item, _, repeats in groups]


class _Statements(NamedTuple):
    """The words of a text, one statement per line, each between blanks: all of them, those that are not alike
    by chance, and all in one text."""

    all: Sequence[str]
    significant: Sequence[str]
    words: str


@lru_cache(maxsize=2048)  # the same notes are hits of many questions
def _statements_of(text: str) -> _Statements:
    found = [*_statements(text.split("\n"))]
    significant = [words for words in found if len(words) - 2 >= MIN_CHARS // (1 if words.isascii() else 2)]
    return _Statements(found, significant, "\n".join(found))


def _quoted(text: str, finder: Finder | None) -> Sequence[str]:
    """The statements about the query, if all of them are quoted."""
    if finder is None or ">" not in text:
        return ()
    lines = text.split("\n")
    about = [lines[at] for at in finder.look(text).lines]
    about = [line for line in about if not HEADING.match(line)]
    return [*_statements(about)] if all(line.lstrip().startswith(">") for line in about) else ()


def _repeats(statements: _Statements, quoted: Sequence[str], better: _Statements) -> bool:
    if statements.all and all(map(better.words.__contains__, statements.all)):
        return True
    return bool(quoted) and all(
        words in better.words or any(map(words.__contains__, better.significant)) for words in quoted
    )


def _statements(lines: Sequence[str]) -> Iterator[str]:
    bare = (_QUOTED.sub("", line, count=1) for line in lines if not HEADING.match(line))
    return (f" {words} " for line in bare if (words := " ".join(_WORD.findall(line.casefold()))))
