"""How fast a warm search is: hybrid, given the query's vector, and words alone, on an index of made-up logs.

    python -m benchmarks.search_speed [--chunks 10000] [--dimensions 384] [--folder DIR]

The vectors are written by the store itself, so a large index is made in minutes. Prints medians and 95th
percentiles in milliseconds, for the whole search and for its parts.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.corpus import Words, write_workspace
from benchmarks.instant_embedder import InstantEmbedder
from nacre.memory.engine import MemoryEngine
from nacre.memory.lexical import match_query
from nacre.memory.settings import MemorySearchSettings
from nacre.memory.sqlite_store import SqliteStore
from nacre.memory.store import Scope

QUESTIONS = 100
MEMORY = Scope(sources=("memory",))


async def timed(label: str, calls: list[Callable[[], Awaitable[object]]]) -> None:
    """Runs each call once to warm up and once to measure; prints the median and the 95th percentile."""
    for call in calls:
        await call()
    took = []
    for call in calls:
        started = time.perf_counter()
        await call()
        took.append((time.perf_counter() - started) * 1000)
    took.sort()
    print(f"{label:24} p50 {took[len(took) // 2]:7.2f} ms   p95 {took[int(len(took) * 0.95)]:7.2f} ms")


async def measure(folder: Path, dimensions: int) -> None:
    """Indexes what is not indexed yet, then measures."""
    embedder = InstantEmbedder(dimensions)
    index = folder / f"index-{dimensions}" / "main.sqlite"
    settings = MemorySearchSettings.model_validate({"sync": {"onSearch": False}})
    engine = await MemoryEngine.open(
        workspace=folder,
        index_path=index,
        settings=settings,
        embedder=embedder,
        now=lambda: datetime.now(UTC),
    )
    started = time.perf_counter()
    await engine.sync(reason="benchmark")
    status = await engine.status()
    print(f"{status.chunks} chunks × {dimensions}, synced in {time.perf_counter() - started:.1f} s")
    words = Words(seed=1)
    questions = [words.question() for _ in range(QUESTIONS)]
    await timed("hybrid search", [lambda text=text: engine.search(text, min_score=0) for text in questions])
    await engine.close()

    plain = await MemoryEngine.open(
        workspace=folder, index_path=index, settings=settings, embedder=None, now=lambda: datetime.now(UTC)
    )
    await timed(
        "search by words alone", [lambda text=text: plain.search(text, min_score=0) for text in questions]
    )
    await plain.close()

    store = await SqliteStore.open(index)
    asked = [query for text in questions if (query := match_query(text)) is not None]
    vectors = [await embedder.embed_query(text) for text in questions]
    await timed(
        "· full-text part",
        [
            lambda query=query: store.read(lambda moment: moment.lexical(query, limit=60, scope=MEMORY))
            for query in asked
        ],
    )
    await timed(
        "· vector part",
        [
            lambda vector=vector: store.read(lambda moment: moment.nearest(vector, limit=60, scope=MEMORY))
            for vector in vectors
        ],
    )
    await store.close()


def main() -> None:
    """Makes the workspace if there is none and measures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="nacre-search-speed-"))
    if not (folder / "memory").exists():
        write_workspace(folder, chunks=arguments.chunks)
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    asyncio.run(measure(folder, arguments.dimensions))
    if arguments.folder is None:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
