"""How fast a warm search is: hybrid, given the query's vector, and words alone, on an index of made-up logs.

    python -m benchmarks.search_speed [--chunks 10000] [--dimensions 384] [--folder DIR] [--plain]

The vectors are written by the store itself, so a large index is made in minutes. Prints medians and 95th
percentiles in milliseconds, for four kinds of questions (`KINDS` of `benchmarks/corpus.py`) and for the parts
of a search, and how many searches end in a second when eight are asked at once. The index has answered other
questions before: each question is new when it is measured. `--plain` also measures FTS5 with sqlite-vec as
they are.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from benchmarks.beside.instant_embedder import InstantEmbedder
from benchmarks.beside.plain_sqlite import PlainSqlite
from benchmarks.corpus import KINDS, Words, write_workspace
from nacre.memory.contracts.settings import MemorySearchSettings
from nacre.memory.contracts.store import Scope
from nacre.memory.engine import MemoryEngine
from nacre.memory.stores.sqlite.store import SqliteStore
from nacre.memory.text.lexical import match_query
from nacre.memory.workspace.folder import FolderWorkspace

QUESTIONS = 100
AT_ONCE = 8
MEMORY = Scope(sources=("memory",))


async def timed(
    label: str, call: Callable[[int], Awaitable[object]], count: int = QUESTIONS, *, again: bool = False
) -> float:
    """Calls with 0 … `count` − 1 to warm up, then with the `count` numbers behind, or the same ones `again`.

    Prints the median and the 95th percentile, and returns the median in milliseconds.
    """
    for number in range(count):
        await call(number)
    took = []
    for number in range(count) if again else range(count, 2 * count):
        started = time.perf_counter()
        await call(number)
        took.append((time.perf_counter() - started) * 1000)
    took.sort()
    print(f"{label:34} p50 {took[count // 2]:7.2f} ms   p95 {took[int(count * 0.95)]:7.2f} ms")
    return took[count // 2]


async def measure(folder: Path, dimensions: int, *, plain: bool) -> None:
    """Indexes what is not indexed yet, then measures."""
    embedder = InstantEmbedder(dimensions)
    index = folder / f"index-{dimensions}" / "main.sqlite"
    words = Words(seed=1)
    questions = [words.question() for _ in range(2 * QUESTIONS)]
    kinds = {kind: [words.question(kind=kind) for _ in range(2 * QUESTIONS)] for kind in KINDS}
    vectors = [await embedder.embed_query(text) for text in questions]
    async with opened(folder, index, embedder) as engine:
        started = time.perf_counter()
        await engine.sync(reason="benchmark")
        status = await engine.status()
        print(f"{status.chunks} chunks × {dimensions}, synced in {time.perf_counter() - started:.1f} s")

        def search(number: int) -> Awaitable[object]:
            return engine.search(questions[number], min_score=0)

        ours = await timed("hybrid search", search)
        await timed("hybrid search, asked before", search, again=True)
        for kind, asked in kinds.items():
            await timed(f"hybrid, {kind}", partial(_asked, engine, asked))
        await at_once(engine, questions)
    async with opened(folder, index, None) as engine:
        for kind, asked in kinds.items():
            await timed(f"by words, {kind}", partial(_asked, engine, asked))
        by_words = await timed(
            "search by words alone", lambda number: engine.search(questions[number], min_score=0)
        )
    await measure_parts(index, questions, vectors)
    if plain:
        await measure_plain(PlainSqlite(index, dimensions), questions, vectors, ours, by_words, kinds)


def _asked(engine: MemoryEngine, questions: Sequence[str], number: int) -> Awaitable[object]:
    return engine.search(questions[number], min_score=0)


async def at_once(engine: MemoryEngine, questions: Sequence[str]) -> None:
    """Prints how many searches end in a second when `AT_ONCE` are asked at once."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with gate:
            await _asked(engine, questions, number)

    started = time.perf_counter()
    await asyncio.gather(*(one(number) for number in range(len(questions))))
    print(f"{AT_ONCE} at once: {len(questions) / (time.perf_counter() - started):.0f} searches a second")


async def measure_parts(index: Path, questions: Sequence[str], vectors: Sequence[Sequence[float]]) -> None:
    """The two lists alone, each with its hand-over to the store's thread."""
    store = await SqliteStore.open(index)
    queries = [match_query(text) for text in questions]

    def full_text(number: int) -> Awaitable[object]:
        query = queries[number]
        assert query is not None
        return store.search(lambda moment: moment.lexical(query, limit=60, scope=MEMORY))

    await timed("· full-text part", full_text)
    await timed(
        "· vector part",
        lambda number: store.search(
            lambda moment: moment.begin_nearest(vectors[number], limit=60, scope=MEMORY)()
        ),
    )
    await store.close()


async def measure_plain(
    plain: PlainSqlite,
    questions: Sequence[str],
    vectors: Sequence[Sequence[float]],
    ours_ms: float,
    by_words_ms: float,
    kinds: Mapping[str, Sequence[str]],
) -> None:
    """The same questions to FTS5 and sqlite-vec as they are, and how many times our medians that takes."""

    async def words(number: int) -> object:
        return plain.words(questions[number])

    for kind, asked in kinds.items():

        async def of_kind(number: int, asked: Sequence[str] = asked) -> object:
            return plain.words(asked[number])

        await timed(f"plain FTS5, {kind}", of_kind)
    both = await timed(
        "plain FTS5 + sqlite-vec", lambda number: plain.search(questions[number], vectors[number])
    )
    alone = await timed("plain FTS5 alone, no snippets", words)
    plain.close()
    print(f"plain / ours: hybrid {both / ours_ms:.1f}, words {alone / by_words_ms:.1f}")


@asynccontextmanager
async def opened(folder: Path, index: Path, embedder: InstantEmbedder | None) -> AsyncIterator[MemoryEngine]:
    """An engine over the workspace in `folder` that looks for no changes."""
    engine = await MemoryEngine.open(
        workspace=FolderWorkspace(folder, lock_dir=index.parent / "locks"),
        index_path=index,
        settings=MemorySearchSettings.model_validate({"sync": {"onSearch": False}}),
        embedder=embedder,
        now=lambda: datetime.now(UTC),
    )
    try:
        yield engine
    finally:
        await engine.close()


def main() -> None:
    """Makes the workspace if there is none and measures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--plain", action="store_true", help="side by side with FTS5 and sqlite-vec alone")
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="nacre-search-speed-"))
    if not (folder / "memory").exists():
        write_workspace(folder, chunks=arguments.chunks)
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    asyncio.run(measure(folder, arguments.dimensions, plain=arguments.plain))
    if arguments.folder is None:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
