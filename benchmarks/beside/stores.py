"""SQLite beside LanceDB: the same texts and vectors stored and searched, in turns, in one run.

    python -m benchmarks.beside.stores [--rows 10000] [--questions 100]

SQLite has FTS5 and sqlite-vec's table, as `plain_sqlite.py`; LanceDB an inverted index over the words, and
its vectors without an index, as `memory-lancedb` has them. A search asks for the 30 nearest vectors and the
30 best by words. Figures on a busy machine are worth their ratio alone.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import sqlite_vec

DIMENSIONS = 384
BATCH = 500
POOL = 30
_WORDS = 4_000


class Sqlite:
    """FTS5 over the words, sqlite-vec over the vectors."""

    name = "SQLite"

    def __init__(self, folder: Path) -> None:
        self._connection = apsw.Connection(str(folder / "beside.sqlite"))
        self._connection.enable_load_extension(True)
        self._connection.load_extension(sqlite_vec.loadable_path())
        self._connection.execute("PRAGMA journal_mode = WAL; PRAGMA mmap_size = 1073741824")
        self._connection.execute("CREATE VIRTUAL TABLE words USING fts5 (text, tokenize = 'porter')")
        self._connection.execute(
            f"CREATE VIRTUAL TABLE near USING vec0 (embedding float[{DIMENSIONS}] distance_metric=cosine)"
        )

    async def open(self) -> None:
        """Everything is open."""

    async def add(self, first: int, texts: Sequence[str], vectors: Any) -> None:
        rows = range(first, first + len(texts))
        with self._connection:
            self._connection.executemany(
                "INSERT INTO words (rowid, text) VALUES (?, ?)", zip(rows, texts, strict=True)
            )
            self._connection.executemany(
                "INSERT INTO near (rowid, embedding) VALUES (?, ?)",
                ((row, vector.tobytes()) for row, vector in zip(rows, vectors, strict=True)),
            )

    async def finish(self) -> None:
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    async def near(self, vector: Any) -> list[int]:
        found = self._connection.execute(
            "SELECT rowid FROM near WHERE embedding MATCH ? AND k = ? ORDER BY distance",
            (vector.tobytes(), POOL),
        )
        return [row[0] for row in found]

    async def by_words(self, question: str) -> list[int]:
        expression = " OR ".join(question.split())
        found = self._connection.execute(
            "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?", (expression, POOL)
        )
        return [row[0] for row in found]


class Lance:
    """An inverted index over the words, flat vectors."""

    name = "LanceDB"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def open(self) -> None:
        import lancedb
        import pyarrow

        database = await lancedb.connect_async(str(self._folder / "lance"))
        self._kind = pyarrow.list_(pyarrow.float32(), DIMENSIONS)
        schema = pyarrow.schema([("id", pyarrow.int64()), ("text", pyarrow.string()), ("vector", self._kind)])
        self._table = await database.create_table("beside", schema=schema)

    async def add(self, first: int, texts: Sequence[str], vectors: Any) -> None:
        import pyarrow

        flat = pyarrow.array(vectors.reshape(-1))
        columns = {
            "id": list(range(first, first + len(texts))),
            "text": list(texts),
            "vector": pyarrow.FixedSizeListArray.from_arrays(flat, DIMENSIONS),
        }
        await self._table.add(pyarrow.table(columns))

    async def finish(self) -> None:
        from lancedb.index import FTS

        await self._table.create_index("text", config=FTS(stem=True, remove_stop_words=False))
        await self._table.optimize(cleanup_older_than=timedelta(milliseconds=1))

    async def near(self, vector: Any) -> list[int]:
        query = self._table.query().nearest_to(vector).distance_type("cosine").select(["id", "_distance"])
        return [row["id"] for row in await query.limit(POOL).to_list()]

    async def by_words(self, question: str) -> list[int]:
        from lancedb.query import MatchQuery

        query = self._table.query().nearest_to_text(MatchQuery(question, "text")).select(["id", "_score"])
        return [row["id"] for row in await query.limit(POOL).to_list()]


def texts_and_vectors(rows: int, chance: random.Random) -> tuple[list[str], Any]:
    """Sentences of words as rare as in a language, and vectors in groups, as of notes about subjects."""
    weights = [1 / rank for rank in range(1, _WORDS + 1)]
    words = [f"w{number}" for number in range(_WORDS)]
    texts = [" ".join(chance.choices(words, weights, k=chance.randint(8, 40))) for _ in range(rows)]
    generator = np.random.default_rng(chance.randint(0, 1 << 30))
    subjects = generator.normal(size=(64, DIMENSIONS))
    vectors = subjects[generator.integers(0, 64, rows)] + generator.normal(size=(rows, DIMENSIONS))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return texts, np.ascontiguousarray(vectors, dtype=np.float32)


async def _timed(work: Callable[[], Awaitable[Any]]) -> tuple[float, Any]:
    started = time.perf_counter()
    result = await work()
    return (time.perf_counter() - started) * 1_000, result


async def compare(rows: int, questions: int, folder: Path) -> None:
    """Fills both, asks both the same, and prints a row for each measure."""
    chance = random.Random(7)
    texts, vectors = texts_and_vectors(rows, chance)
    stores: list[Sqlite | Lance] = [Sqlite(folder), Lance(folder)]
    times: dict[str, dict[str, list[float]]] = {store.name: {} for store in stores}
    for store in stores:
        await store.open()
    for first in range(0, rows, BATCH):
        for store in stores:
            some = slice(first, first + BATCH)
            took, _ = await _timed(lambda s=store, at=some: s.add(at.start, texts[at], vectors[at]))
            times[store.name].setdefault("insert", []).append(took)
    for store in stores:
        took, _ = await _timed(store.finish)
        times[store.name]["finish"] = [took]
    agreed: list[float] = []
    for _ in range(questions):
        number = chance.randrange(rows)
        asked = " ".join(dict.fromkeys(texts[number].split()[:6]))
        found = []
        for store in chance.sample(stores, 2):
            near, hits = await _timed(lambda s=store, at=number: s.near(vectors[at]))
            by_words, _ = await _timed(lambda s=store, text=asked: s.by_words(text))
            times[store.name].setdefault("near", []).append(near)
            times[store.name].setdefault("by words", []).append(by_words)
            found.append(set(hits))
        agreed.append(len(found[0] & found[1]) / POOL)
    sizes = {"SQLite": _bytes(folder, "beside.sqlite*"), "LanceDB": _bytes(folder, "lance/**/*")}
    _print(rows, times, sizes)
    print(f"\nThe nearest {POOL} agree by {statistics.fmean(agreed):.3f}.")


def _print(rows: int, times: dict[str, dict[str, list[float]]], sizes: dict[str, int]) -> None:
    print(f"| {rows} × {DIMENSIONS} | SQLite | LanceDB | LanceDB / SQLite |\n|---|---|---|---|")
    _row("insert a row, ms", {name: sum(of["insert"]) / rows for name, of in times.items()})
    _row("index and tidy, ms", {name: of["finish"][0] for name, of in times.items()})
    for what in ("near", "by words"):
        for label, share in (("p50", 0.5), ("p95", 0.95)):
            values = {name: sorted(of[what])[int(len(of[what]) * share)] for name, of in times.items()}
            _row(f"{what}, {label}, ms", values)
    _row("on disk, MB", {name: size / 1e6 for name, size in sizes.items()})


def _row(label: str, values: dict[str, float]) -> None:
    sqlite, lance = values["SQLite"], values["LanceDB"]
    print(f"| {label} | {sqlite:.2f} | {lance:.2f} | {lance / sqlite:.2f} |", flush=True)


def _bytes(folder: Path, pattern: str) -> int:
    return sum(path.stat().st_size for path in folder.glob(pattern) if path.is_file())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--questions", type=int, default=100)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="stores-"))
    try:
        asyncio.run(compare(arguments.rows, arguments.questions, folder))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
