"""The SQLite store: one file, and three threads, for writes, for searches and for other reads.

A write first takes the lock file beside the index, so that processes queue up; readers take no lock and see
the last commit. Searches never wait for the reads of syncs and status. A rebuild fills a hidden file beside
the index and replaces its content at the end.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from nacre.memory.contracts.errors import IndexBusy, IndexDamaged, IndexUnusable, readable_errors
from nacre.memory.contracts.records import VectorEngine
from nacre.memory.contracts.store import Writer
from nacre.memory.stores.sqlite.connection import (
    Connection,
    ConnectionThread,
    IndexLock,
    copy_database,
    give_back_space,
    open_connection,
    quick_check,
    transaction,
)
from nacre.memory.stores.sqlite.nearest import add_vector_functions
from nacre.memory.stores.sqlite.schema import SCHEMA_VERSION, migrate, version_of
from nacre.memory.stores.sqlite.snapshot import SnapshotThread
from nacre.memory.stores.sqlite.writes import SqliteWriter, merge_words

T = TypeVar("T")


class SqliteStore:
    """`Store` over one SQLite file; its methods are documented there. Open it with `SqliteStore.open`."""

    def __init__(self, path: Path, prepare_vectors: Callable[[Connection], VectorEngine]) -> None:
        self.path = path
        self.lock = IndexLock(path)
        self._prepare_vectors = prepare_vectors
        self._writer = ConnectionThread("memory-writer", lambda: open_connection(path, inspect=version_of))
        self._reader = SnapshotThread("memory-reader", path, prepare_vectors)
        self._searcher = SnapshotThread("memory-search", path, prepare_vectors)
        self.read, self.search = self._reader.run, self._searcher.run

    @classmethod
    async def open(
        cls, path: Path, prepare_vectors: Callable[[Connection], VectorEngine] = add_vector_functions
    ) -> SqliteStore:
        """Opens or creates the index and migrates it to the newest version.

        `prepare_vectors` loads the vector functions into a connection.

        Raises:
            IndexDamaged: the file is not a sound database.
            IndexUnusable: it cannot be opened, or belongs to another program or a newer version of Nacre.
            IndexBusy: another process held the write lock.
        """
        with readable_errors(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        store = cls(path, prepare_vectors)
        try:
            if await store._writer.run(version_of) != SCHEMA_VERSION:
                await store.write_with(migrate)
                await store.write_with(give_back_space)
        except BaseException:
            await store.close()
            raise
        return store

    async def write(self, work: Callable[[Writer], T]) -> T:
        return await self._in_transaction(lambda connection: work(SqliteWriter(connection)))

    async def tidy(self) -> None:
        """Merges the full-text index in steps, each of which takes the lock."""
        first = True
        while await self._in_transaction(partial(merge_words, first=first)):
            first = False
        await self.write_with(give_back_space)

    async def begin_rebuild(self, identity: Mapping[str, str]) -> SqliteRebuild:
        lock = self._building_lock()
        if not lock.take():
            raise IndexBusy(f"Another process is rebuilding {self.path}; it is used as soon as it is done.")
        try:
            hidden = await self._unfinished(identity)
            if hidden is None:
                hidden = await self._open_hidden()
                await hidden.write_with(partial(start_ids, first_ids=await self._writer.run(next_ids)))
                rows = await self.read(lambda live: marks(identity, live.meta()))
                await hidden.write(lambda index: index.set_meta(rows))
        except BaseException:
            lock.release()
            raise
        return SqliteRebuild(self, hidden, lock)

    async def has_unfinished_rebuild(self, identity: Mapping[str, str]) -> bool:
        lock = self._building_lock()
        if not rebuild_path(self.path).exists() or not lock.take():
            return False
        try:
            hidden = await self._unfinished(identity)
            if hidden is not None:
                await hidden.close()
            return hidden is not None
        finally:
            lock.release()

    async def check(self) -> str:
        # On its own thread, because this reads the whole file and searches must not wait for it.
        thread = ConnectionThread("memory-check", lambda: open_connection(self.path, read_only=True))
        try:
            return await thread.run(quick_check)
        except IndexDamaged as error:
            return str(error)
        finally:
            await thread.close()

    async def close(self) -> None:
        await self._reader.close()
        await self._searcher.close()
        await self._writer.close()

    async def write_with(self, work: Callable[[Connection], T]) -> T:
        """Runs `work`, which begins its own transactions, on the writer thread under the lock.

        Raises:
            IndexBusy: another process held the lock for too long.
        """

        def call(connection: Connection) -> T:
            with self.lock.held():
                return work(connection)

        return await self._writer.run(call)

    async def _in_transaction(self, work: Callable[[Connection], T]) -> T:
        def call(connection: Connection) -> T:
            with transaction(connection):
                return work(connection)

        return await self.write_with(call)

    def _building_lock(self) -> IndexLock:
        return IndexLock(self.path, ".building")

    async def _open_hidden(self) -> SqliteStore:
        return await SqliteStore.open(rebuild_path(self.path), self._prepare_vectors)

    async def _unfinished(self, identity: Mapping[str, str]) -> SqliteStore | None:
        if rebuild_path(self.path).exists():
            try:
                hidden = await self._open_hidden()
            except IndexUnusable:
                pass
            else:
                if await self._goes_on(hidden, identity):
                    return hidden
                await hidden.close()
        remove_database(rebuild_path(self.path))
        return None

    async def _goes_on(self, hidden: SqliteStore, identity: Mapping[str, str]) -> bool:
        try:
            begun = await hidden.read(lambda index: index.meta())
            return await self.read(lambda live: goes_on(begun, live.meta(), identity))
        except IndexUnusable:
            return False


class SqliteRebuild:
    """`Rebuild` over two SQLite files; its methods are documented there. `begin_rebuild` makes it."""

    def __init__(self, live: SqliteStore, hidden: SqliteStore, lock: IndexLock) -> None:
        self._live = live
        self._hidden = hidden
        self._lock = lock

    @property
    def store(self) -> SqliteStore:
        return self._hidden

    async def copy_vectors(self) -> None:
        await self._hidden.write_with(partial(copy_vectors, live=self._live.path))

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        lock = self._live.lock
        taking = asyncio.create_task(asyncio.to_thread(lock.acquire))
        try:
            await asyncio.shield(taking)
        except asyncio.CancelledError:
            # A thread cannot be canceled, so a lock that it takes has to be released.
            await asyncio.wait({taking})
            if taking.exception() is None:
                lock.release()
            raise
        try:
            yield
        finally:
            lock.release()

    async def publish(self) -> None:
        await self._hidden.close()
        replace = partial(replace_content, live=self._live.path, hidden=self._hidden.path)
        await self._live.write_with(replace)
        self._lock.release()

    async def leave(self) -> None:
        await self._hidden.close()
        self._lock.release()


ID_STEP = 1 << 32
"""The distance from the live index's ids to those of its rebuild, so that no id is ever used twice."""

_MADE_FOR = "rebuild_identity"
_BUILD = "build"
_FILES = ("-wal", "-shm", ".clock", ".lock", "")
"""The database itself is deleted last: while it exists, the next sync finds it and continues."""
_NUMBERED = ("chunks", "chunk_vectors")
_COPY_ROWS = 2_000


def rebuild_path(index: Path) -> Path:
    """The hidden file of an index."""
    return index.with_name(index.name + ".rebuild")


def remove_database(path: Path) -> None:
    """Deletes a database with its side files.

    Raises:
        IndexUnusable: a file cannot be deleted.
    """
    with readable_errors(path):
        for suffix in _FILES:
            path.with_name(path.name + suffix).unlink(missing_ok=True)


def marks(identity: Mapping[str, str], live: Mapping[str, str]) -> dict[str, str]:
    """The rows of `meta` with the identity of a hidden index and the live index that it follows."""
    return {_MADE_FOR: _text(identity), _BUILD: str(_build(live) + 1)}


def goes_on(hidden: Mapping[str, str], live: Mapping[str, str], identity: Mapping[str, str]) -> bool:
    """Whether a hidden index with these rows of `meta` is an unfinished one for this identity."""
    return hidden.get(_MADE_FOR) == _text(identity) and _build(hidden) > _build(live)


def copy_vectors(connection: Connection, live: Path) -> None:
    """Copies vectors in batches, so that no transaction grows with the index."""
    connection.execute("ATTACH ? AS live", (str(live),))
    try:
        with transaction(connection):
            connection.execute("INSERT OR IGNORE INTO main.embedders (name) SELECT name FROM live.embedders")
        last = 0
        while True:
            end = connection.execute(
                "SELECT max(id) FROM (SELECT id FROM live.vectors WHERE id > ? ORDER BY id LIMIT ?)",
                (last, _COPY_ROWS),
            ).get
            if end is None:
                return
            with transaction(connection):
                connection.execute(
                    "INSERT OR IGNORE INTO main.vectors"
                    " (embedder_id, text_hash, used_at, embedding, sentences)"
                    " SELECT main.embedders.id, text_hash, used_at, embedding, x'' FROM live.vectors"
                    " JOIN live.embedders ON live.embedders.id = embedder_id"
                    " JOIN main.embedders USING (name) WHERE live.vectors.id > ? AND live.vectors.id <= ?",
                    (last, end),
                )
            last = end
    finally:
        connection.execute("DETACH live")


def replace_content(connection: Connection, live: Path, hidden: Path) -> None:
    """Under the lock, copies the last vectors into the hidden file and its content into the live one."""
    source = open_connection(hidden)
    try:
        copy_vectors(source, live)
        copy_database(source, connection)
    finally:
        source.close()
    remove_database(hidden)
    connection.pragma("wal_checkpoint(TRUNCATE)")


def next_ids(connection: Connection) -> dict[str, int]:
    """The first ids of a rebuilt index."""
    last = dict.fromkeys(_NUMBERED, 0) | {
        str(name): int(seq) for name, seq in connection.execute("SELECT name, seq FROM sqlite_sequence")
    }
    return {name: seq + ID_STEP for name, seq in last.items()}


def start_ids(connection: Connection, first_ids: Mapping[str, int]) -> None:
    """Makes the ids of an empty index start at `first_ids`."""
    with transaction(connection):
        connection.executemany("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", first_ids.items())


def _build(meta: Mapping[str, str]) -> int:
    return int(meta.get(_BUILD, "0"))


def _text(identity: Mapping[str, str]) -> str:
    return json.dumps(identity, sort_keys=True)
