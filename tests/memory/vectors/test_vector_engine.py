"""What compares vectors, as the status tells it and as SQLite is asked."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from nacre.memory.contracts.records import VectorEngine
from nacre.memory.stores.sqlite.connection import Connection, open_connection
from nacre.memory.stores.sqlite.nearest import RESIDENT_BYTES, VectorReader, add_vector_functions
from nacre.memory.stores.sqlite.snapshot import SnapshotThread
from tests.memory.doubles import WordEmbedder, open_engine, workspace
from tests.memory.stores.sample_index import MEMORY

NOTES = {"memory/2026-02-10.md": "Boris keeps bees.\n", "memory/2026-02-11.md": "Anna plays chess.\n"}


@pytest.mark.parametrize(
    ("resident_bytes", "later"),
    [(RESIDENT_BYTES, "vectors in memory"), (0, "sign codes in memory, vectors on disk")],
)
@pytest.mark.covers("CLI-1", "SEED-19", "PART-3")
async def test_what_is_told_is_what_is_asked(tmp_path: Path, resident_bytes: int, later: str) -> None:
    """The first question goes to sqlite-vec, further ones to what is held in memory."""
    workspace(tmp_path, NOTES)
    engine = await open_engine(tmp_path, embedder=WordEmbedder())
    await engine.sync(reason="cli")
    await engine.close()
    connection = open_connection(tmp_path / "state" / "main.sqlite", read_only=True)
    reader = VectorReader(add_vector_functions, resident_bytes=resident_bytes)
    told, asked, question = reader.described_engine(connection, 64), [], [1.0] * 64

    def asked_sqlite_vec() -> bool:
        statements: list[str] = []
        connection.exec_trace = lambda _, sql, __: not statements.append(sql)
        reader.begin_nearest(connection, question, 10, MEMORY)()
        connection.exec_trace = None
        return any("vec_distance" in sql and "pragma" not in sql for sql in statements)

    asked = [asked_sqlite_vec() for _ in range(3)]
    connection.close()

    name, _, version = told.name.partition(" ")
    assert (name, bool(version), told.problem) == ("sqlite-vec", True, "")
    assert told.later == later
    assert asked == [True, False, False]


async def test_many_codes_are_compared_while_words_are_searched(tmp_path: Path) -> None:
    """The comparison runs on a thread of its own, finds the same, and ends with its reader."""
    workspace(tmp_path, NOTES)
    engine = await open_engine(tmp_path, embedder=WordEmbedder())
    await engine.sync(reason="cli")
    await engine.close()
    connection = open_connection(tmp_path / "state" / "main.sqlite", read_only=True)
    alone = VectorReader(add_vector_functions)
    beside = VectorReader(add_vector_functions, worth_a_thread=1)
    before, asked = set(threading.enumerate()), (connection, [1.0] * 64, 10, MEMORY)

    for reader in (alone, beside):
        reader.load(connection, 64)  # what sqlite-vec answers needs no codes
    one, other = alone.begin_nearest(*asked), beside.begin_nearest(*asked)
    [thread] = set(threading.enumerate()) - before
    found = one(), other()
    alone.close()
    beside.close()
    thread.join(60)
    connection.close()

    assert found[0] == found[1]
    assert len(found[0]) == 2
    assert not thread.is_alive()


async def test_what_later_questions_need_is_read_between_them(tmp_path: Path) -> None:
    """Nobody waits for the codes to be read into memory: that is done when the first question is answered."""
    workspace(tmp_path, NOTES)
    engine = await open_engine(tmp_path, embedder=WordEmbedder())
    await engine.sync(reason="cli")
    await engine.close()
    loop, is_read = asyncio.get_running_loop(), asyncio.Event()

    def told(_: object, sql: str, __: object) -> bool:
        if "ORDER BY chunk_vectors.id" in sql:
            loop.call_soon_threadsafe(is_read.set)
        return True

    def traced(connection: Connection) -> VectorEngine:
        connection.exec_trace = told
        return add_vector_functions(connection)

    path = tmp_path / "state" / "main.sqlite"
    thread = SnapshotThread("memory-search", path, traced, load_after_seconds=0.01)
    first = await thread.run(lambda moment: moment.begin_nearest([1.0] * 64, limit=10, scope=MEMORY)())
    async with asyncio.timeout(60):
        await is_read.wait()
    await thread.run(lambda moment: moment.meta())  # behind what is being read
    is_read.clear()
    second = await thread.run(lambda moment: moment.begin_nearest([1.0] * 64, limit=10, scope=MEMORY)())
    await thread.close()

    assert second == pytest.approx(first, abs=1e-5)
    assert second
    assert not is_read.is_set()


async def test_numpy_is_told_for_all_searches(tmp_path: Path) -> None:
    """Without sqlite-vec there is nothing that a first search would do otherwise."""
    workspace(tmp_path, NOTES)
    engine = await open_engine(tmp_path, {"store": {"vector": {"enabled": False}}}, embedder=WordEmbedder())
    await engine.sync(reason="cli")
    status = await engine.status()
    await engine.close()

    assert (status.vector_engine, status.vector_engine_later) == ("numpy", "")


@pytest.mark.covers("CLI-1", "SEED-24", "PART-10")
async def test_a_status_says_what_is_searched_now(tmp_path: Path) -> None:
    """By words while no vector is made; a search says the same, with the reason."""
    workspace(tmp_path, NOTES)
    embedder = WordEmbedder()
    engine = await open_engine(tmp_path, embedder=embedder)
    before = (await engine.status()).mode
    first = await engine.search("bees")
    words = (await engine.status()).mode
    await engine.sync(reason="cli")
    second = await engine.search("bees")
    both = (await engine.status()).mode
    await engine.close()

    assert (before, words, both) == ("hybrid", "lexical", "hybrid")
    assert (first.mode, second.mode, second.degraded) == ("lexical", "hybrid", "")
    assert first.degraded
