"""The store in Postgres: the contract, and what is Postgres' own business."""

from __future__ import annotations

import asyncio

import pytest

from nacre.extensions.postgres.memory_store import Lease, PostgresIndexPlace, PostgresStore
from nacre.extensions.postgres.server.connections import ConnectionLimits
from nacre.extensions.postgres.server.database import Database
from nacre.memory.contracts.errors import IndexBusy, IndexClosed, IndexUnusable
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
