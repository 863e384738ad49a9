"""The memory's two stores side by side, through their contract: the same chunks, words, vectors, questions.

    python -m benchmarks.beside.postgres [--url postgresql://…] [--rows 10000] [--questions 100]

Without a url a server of the package pgserver is started on this machine, and ended. A search asks for the 30
nearest vectors and the 30 best by words. Figures on a busy machine are worth their ratio alone.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.beside.stores import DIMENSIONS, POOL, texts_and_vectors
from nacre.memory.contracts.records import Chunk
from nacre.memory.contracts.store import FileState, IndexedFile, Piece, Scope, Snapshot, Store, Writer
from nacre.memory.stores.postgres.store import PostgresStore
from nacre.memory.stores.sqlite.store import SqliteStore
from nacre.memory.text.lexical import lexical_fields, match_query
from nacre.postgres.database import Database

BATCH = 250
AGENT = "beside"
SCOPE = Scope(sources=("memory",))
_SIZE = """
SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relname LIKE 'memory%' AND relkind = 'r'
"""


def _file(number: int, text: str) -> IndexedFile:
    path = f"memory/{number}.md"
    digest = hashlib.sha256(text.encode()).hexdigest()
    state = FileState(
        source="memory", path=path, content_hash=digest, size=1, mtime_ns=1, inode=number, read_at_ns=1
    )
    chunk = Chunk(
        source="memory",
        path=path,
        start_line=1,
        end_line=1,
        text=text,
        heading_path=("Notes",),
        date=date(2026, 1, 1),
        content_hash=digest,
        ordinal=0,
    )
    return IndexedFile(state=state, chunks=[chunk], fields=[lexical_fields(chunk)])


def _waiting(index: Snapshot, *, above_id: int) -> Sequence[tuple[int, Chunk]]:
    return index.without_vectors(above_id=above_id, limit=BATCH)


def _put(index: Writer, *, numbers: Mapping[int, int], vectors: Any) -> None:
    found = {str(number).encode(): vectors[number] for number in numbers.values()}
    pieces = [Piece(chunk_id=key, piece=0, text_hash=str(number).encode()) for key, number in numbers.items()]
    index.put_vectors("e", found, now_seconds=1)
    index.attach_known("e", pieces, now_seconds=1)


async def _fill(store: Store, files: Sequence[IndexedFile], vectors: Any) -> float:
    started = time.perf_counter()
    for first in range(0, len(files), BATCH):
        some = files[first : first + BATCH]
        await store.write(lambda index, some=some: index.replace_files(some))
    above = 0
    while waiting := await store.read(partial(_waiting, above_id=above)):
        keyed = {chunk_id: int(chunk.path[7:-3]) for chunk_id, chunk in waiting}
        await store.write(partial(_put, numbers=keyed, vectors=vectors))
        above = waiting[-1][0]
    await store.tidy()
    return time.perf_counter() - started


async def compare(url: str, rows: int, questions: int, folder: Path) -> None:
    """Fills both, asks both the same, and prints a row for each measure."""
    chance = random.Random(7)
    texts, vectors = texts_and_vectors(rows, chance)
    files = [_file(number, text) for number, text in enumerate(texts)]
    database = Database(url)
    stores: dict[str, Store] = {
        "SQLite": await SqliteStore.open(folder / "beside.sqlite"),
        "Postgres": await PostgresStore.open(database, AGENT),
    }
    filled = {name: await _fill(store, files, vectors) for name, store in stores.items()}
    times: dict[str, dict[str, list[float]]] = {name: {"near": [], "by words": []} for name in stores}
    agreed: dict[str, list[float]] = {"near": [], "by words": []}
    for _ in range(questions):
        number = chance.randrange(rows)
        asked = match_query(" ".join(dict.fromkeys(texts[number].split()[:6])))
        assert asked is not None

        def near(moment: Snapshot, vector: Any = vectors[number]) -> list[str]:
            return _paths(moment, moment.nearest(vector, limit=POOL, scope=SCOPE))

        def by_words(moment: Snapshot, asked: Any = asked) -> list[str]:
            return _paths(moment, moment.lexical(asked, limit=POOL, scope=SCOPE))

        for what, look in (("near", near), ("by words", by_words)):
            found = []
            for name in chance.sample([*stores], 2):
                started = time.perf_counter()
                found.append(set(await stores[name].search(look)))
                times[name][what].append((time.perf_counter() - started) * 1_000)
            agreed[what].append(len(found[0] & found[1]) / max(1, len(found[0])))
    size = await database.read(lambda connection: connection.execute(_SIZE).fetchone())
    sizes = {"SQLite": (folder / "beside.sqlite").stat().st_size, "Postgres": int((size or (0,))[0])}
    print(f"| {rows} × {DIMENSIONS} | SQLite | Postgres | Postgres / SQLite |\n|---|---|---|---|")
    _row("insert a chunk with its vector, ms", {name: 1_000 * took / rows for name, took in filled.items()})
    for what in ("near", "by words"):
        for label, share in (("p50", 0.5), ("p95", 0.95)):
            _row(
                f"{what}, {label}, ms",
                {name: sorted(of[what])[int(len(of[what]) * share)] for name, of in times.items()},
            )
    _row("on disk, MB", {name: each / 1e6 for name, each in sizes.items()})
    for what, shares in agreed.items():
        print(f"Of the best {POOL} ({what}) both found {statistics.fmean(shares):.3f}.")
    for store in stores.values():
        await store.close()
    await database.close()


def _paths(moment: Snapshot, scores: Any) -> list[str]:
    places = moment.places(list(scores))
    return [places[key].path for key in scores]


def _row(label: str, values: dict[str, float]) -> None:
    sqlite, postgres = values["SQLite"], values["Postgres"]
    print(f"| {label} | {sqlite:.2f} | {postgres:.2f} | {postgres / sqlite:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--url", default="")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--questions", type=int, default=100)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="stores-"))
    try:
        asyncio.run(compare(arguments.url, arguments.rows, arguments.questions, folder))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
