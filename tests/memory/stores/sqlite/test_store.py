"""The SQLite store: the contract, and what is SQLite's own business."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from nacre.memory.contracts.errors import IndexClosed, IndexDamaged, IndexUnusable
from nacre.memory.contracts.store import Store
from nacre.memory.stores.sqlite.connection import IndexLock, copy_database, open_connection, transaction
from nacre.memory.stores.sqlite.schema import SCHEMA_VERSION, migrate
from nacre.memory.stores.sqlite.store import SqliteRebuild, SqliteStore
from tests.memory.stores.rebuild_contract import RebuildContract
from tests.memory.stores.sample_index import OpenStore, chunk, counts_of, found, indexed, put, put_vectors
from tests.memory.stores.search_contract import SearchContract
from tests.memory.stores.store_contract import StoreContract
from tests.memory.stores.words_contract import WordsContract


@pytest.fixture
async def open_store(tmp_path: Path) -> AsyncIterator[OpenStore]:
    """Opens the store of this test, as often as asked; closes every one at the end."""
    opened: list[Store] = []

    async def opener() -> Store:
        store = await SqliteStore.open(tmp_path / "state" / "main.sqlite")
        opened.append(store)
        return store

    yield opener
    for store in opened:
        await store.close()


class TestSqliteStore(StoreContract, SearchContract, WordsContract, RebuildContract):
    """The contract, over one file."""


@pytest.mark.covers("IDX-14", "PART-8", "Q-23")
async def test_a_new_index_is_in_write_ahead_mode_at_the_newest_version(tmp_path: Path) -> None:
    """Readers do not wait for writers, and the file says what it is."""
    store = await SqliteStore.open(tmp_path / "main.sqlite")
    await store.close()
    connection = open_connection(tmp_path / "main.sqlite", read_only=True)

    assert connection.pragma("journal_mode") == "wal"
    assert connection.pragma("user_version") == SCHEMA_VERSION
    connection.close()


@pytest.mark.covers("Q-23")
async def test_readers_do_not_wait_for_a_writer(tmp_path: Path) -> None:
    """While a transaction is open elsewhere, searches answer from the last committed state."""
    store = await SqliteStore.open(tmp_path / "main.sqlite")
    await put(store, indexed(chunk("red apples")))
    other = open_connection(tmp_path / "main.sqlite")
    other.execute("BEGIN IMMEDIATE")
    other.execute("DELETE FROM chunks")

    assert await asyncio.wait_for(found(store, "apples"), timeout=60) == ["red apples"]
    other.execute("ROLLBACK")
    other.close()
    await store.close()


@pytest.mark.covers("IDX-14")
async def test_a_write_waits_for_the_lock_of_another_process(tmp_path: Path) -> None:
    """The second writer goes on as soon as the first lets go."""
    store = await SqliteStore.open(tmp_path / "main.sqlite")
    lock = IndexLock(tmp_path / "main.sqlite")
    with lock.held():
        writing = asyncio.create_task(store.write(lambda index: index.set_meta({"a": "1"})))
        done, _ = await asyncio.wait({writing}, timeout=0.2)
        assert not done
    await asyncio.wait_for(writing, timeout=60)
    await store.close()


async def test_a_damaged_file_is_told_from_a_foreign_one(tmp_path: Path) -> None:
    """Garbage is damage; another program's database or a newer Nacre's is not ours to replace."""
    (tmp_path / "garbage.sqlite").write_bytes(b"this is not a database at all" * 100)
    with pytest.raises(IndexDamaged, match="damaged"):
        await SqliteStore.open(tmp_path / "garbage.sqlite")

    foreign = apsw.Connection(str(tmp_path / "foreign.sqlite"))
    foreign.execute("CREATE TABLE mail (id INTEGER)")
    foreign.close()
    with pytest.raises(IndexUnusable, match="another program"):
        await SqliteStore.open(tmp_path / "foreign.sqlite")

    newer = open_connection(tmp_path / "newer.sqlite")
    migrate(newer)
    newer.pragma("user_version", SCHEMA_VERSION + 1)
    newer.execute("CREATE TABLE later (id INTEGER)")
    newer.close()
    with pytest.raises(IndexUnusable, match="newer Nacre"):
        await SqliteStore.open(tmp_path / "newer.sqlite")


async def test_a_closed_store_says_so(tmp_path: Path) -> None:
    """Using it is an error with a name, and closing twice is none."""
    store = await SqliteStore.open(tmp_path / "main.sqlite")
    await store.close()
    await store.close()

    with pytest.raises(IndexClosed):
        await store.read(lambda index: index.meta())


@pytest.mark.covers("IDX-13")
def test_publishing_replaces_content_under_open_readers(tmp_path: Path) -> None:
    """A reader in the middle of a transaction keeps its view; its next transaction sees the new content."""
    live, hidden = open_connection(tmp_path / "live.sqlite"), open_connection(tmp_path / "hidden.sqlite")
    for connection, value in ((live, "old"), (hidden, "new")):
        migrate(connection)
        with transaction(connection):
            connection.execute("INSERT INTO meta (key, value) VALUES ('a', ?)", (value,))
    reader = open_connection(tmp_path / "live.sqlite", read_only=True)
    reader.execute("BEGIN")
    assert reader.execute("SELECT value FROM meta").get == "old"

    copy_database(hidden, live)

    assert reader.execute("SELECT value FROM meta").get == "old"
    reader.execute("COMMIT")
    assert reader.execute("SELECT value FROM meta").get == "new"
    for connection in (live, hidden, reader):
        connection.close()


@pytest.mark.covers("Q-24")
async def test_vectors_are_stored_once_and_binary(tmp_path: Path) -> None:
    """One row of 16-bit numbers, little-endian, for a text, however many chunks have it."""
    store = await SqliteStore.open(tmp_path / "main.sqlite")
    await put_vectors(store, "e", {b"h": [3.0, 4.0]}, now_seconds=1)
    await store.close()
    connection = open_connection(tmp_path / "main.sqlite", read_only=True)

    (row,) = connection.execute("SELECT embedding FROM vectors").fetchall()

    assert struct.unpack("<2h", row[0]) == (round(0.75 * 32_767), 32_767)
    connection.close()


async def test_a_batch_of_files_costs_the_words_one_segment(tmp_path: Path) -> None:
    """However many files are stored at once: a segment for each would have to be merged with the others."""
    store = await SqliteStore.open(tmp_path / "main.sqlite")
    await put(store, indexed(chunk("before", path="memory/0.md")))
    await put(store, *[indexed(chunk(f"word{n}", path=f"memory/{n}.md")) for n in range(300)])
    await store.close()
    connection = open_connection(tmp_path / "main.sqlite", read_only=True)

    assert connection.execute("SELECT count(DISTINCT segid) FROM chunks_fts_idx").get == 2
    connection.close()


async def test_a_file_that_comes_twice_in_a_batch_is_stored_once(tmp_path: Path) -> None:
    """The later of the two counts, in the chunks and in the words."""
    store = await SqliteStore.open(tmp_path / "main.sqlite")
    await put(store, indexed(chunk("first apples")), indexed(chunk("second apples")))

    assert await found(store, "apples") == ["second apples"]
    assert await store.check() == ""
    await store.close()


async def test_free_space_is_given_back(tmp_path: Path) -> None:
    """After most of the text is gone, `tidy` makes the file smaller."""
    store = await SqliteStore.open(tmp_path / "main.sqlite")
    for number in range(40):
        await put(store, indexed(chunk("many words " * 500, path=f"memory/{number}.md")))
    before = (await counts_of(store)).size_bytes
    await store.write(
        lambda index: index.remove_files("memory", [f"memory/{number}.md" for number in range(40)])
    )

    await store.tidy()

    assert (await counts_of(store)).size_bytes < before / 2
    await store.close()


async def test_giving_up_on_the_lock_does_not_keep_it(tmp_path: Path) -> None:
    """Who is cancelled while it waits to publish gives the lock back as soon as it gets it."""
    path = tmp_path / "main.sqlite"
    store, other = await SqliteStore.open(path), await SqliteStore.open(path)
    rebuild = await store.begin_rebuild({"identity.chunking": "2"})
    with IndexLock(path).held():
        waiting = asyncio.create_task(_alone(rebuild))
        await asyncio.wait({waiting}, timeout=0.1)
        waiting.cancel()
        await asyncio.wait({waiting}, timeout=0.1)
    with pytest.raises(asyncio.CancelledError):
        await waiting

    await asyncio.wait_for(other.write(lambda index: index.set_meta({"a": "1"})), timeout=60)
    await rebuild.leave()
    await store.close()
    await other.close()


async def _alone(rebuild: SqliteRebuild) -> None:
    async with rebuild.alone():
        raise AssertionError("the lock was held by somebody else")
