"""A full rebuild in a file of its own beside the index, and its publication in one transaction.

The hidden file survives a kill and is taken up again when it was made for the same identity. Publishing
copies its pages into the live file inside one transaction of the live file: open readers of every process
keep the old content until the commit, and a kill at any byte leaves either the old index or the new one.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from nacre.memory.contracts.errors import IndexBusy, IndexUnusable, refusals_told
from nacre.memory.stores.sqlite.connection import Connection, copy_database, open_connection, transaction
from nacre.memory.stores.sqlite.index_lock import BuildingLock

if TYPE_CHECKING:
    from nacre.memory.stores.sqlite.store import SqliteStore

    OpenStore: TypeAlias = Callable[[Path], Awaitable[SqliteStore]]

ID_STEP = 1 << 32
"""How far the ids of a rebuilt index start above the live one's, so that no id ever means two chunks."""

_MADE_FOR = "rebuild_identity"
_BUILD = "build"
_FILES = ("-wal", "-shm", ".clock", ".lock", "")
"""The database itself is deleted last: as long as it is there, the next sync looks for it and goes on."""
_NUMBERED = ("chunks", "chunk_vectors")
_COPY_ROWS = 2_000


def rebuild_path(index: Path) -> Path:
    """The hidden file that belongs to an index."""
    return index.with_name(index.name + ".rebuild")


def remove_database(path: Path) -> None:
    """Deletes a database file with its side files.

    Raises:
        IndexUnusable: a file cannot be deleted.
    """
    with refusals_told(path):
        for suffix in _FILES:
            path.with_name(path.name + suffix).unlink(missing_ok=True)


class SqliteRebuild:
    """`Rebuild` over two SQLite files. Made by `begin_rebuild`."""

    def __init__(self, live: SqliteStore, hidden: SqliteStore, lock: BuildingLock) -> None:
        self._live = live
        self._hidden = hidden
        self._lock = lock

    @property
    def store(self) -> SqliteStore:
        """See `Rebuild.store`."""
        return self._hidden

    async def copy_vectors(self) -> None:
        """See `Rebuild.copy_vectors`."""
        await self._hidden.write_with(_copy_vectors, self._live.path)

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """See `Rebuild.alone`."""
        lock = self._live.write_lock
        taking = asyncio.create_task(asyncio.to_thread(lock.acquire))
        try:
            await asyncio.shield(taking)
        except asyncio.CancelledError:
            # A thread cannot be cancelled: what it takes has to be given back.
            await asyncio.wait({taking})
            if taking.exception() is None:
                lock.release()
            raise
        try:
            yield
        finally:
            lock.release()

    async def publish(self) -> None:
        """See `Rebuild.publish`."""
        await self._hidden.close()
        await self._live.write_with(_replace_content, self._live.path, self._hidden.path)
        self._lock.release()

    async def leave(self) -> None:
        """See `Rebuild.leave`."""
        await self._hidden.close()
        self._lock.release()


async def begin_rebuild(
    live: SqliteStore, identity: Mapping[str, str], open_store: OpenStore
) -> SqliteRebuild:
    """Takes up an unfinished rebuild of the same identity, or starts one.

    Raises:
        IndexBusy: another process is rebuilding.
    """
    lock = _take_lock(live.path)
    if lock is None:
        raise IndexBusy(f"Another process is rebuilding {live.path}; it is used as soon as it is done.")
    try:
        hidden = await _open_unfinished(live, identity, open_store)
        if hidden is None:
            remove_database(rebuild_path(live.path))
            hidden = await open_store(rebuild_path(live.path))
            first_ids, build = await live.read_with(_next_ids), _build(await live.meta()) + 1
            await hidden.write_with(_start_ids, first_ids)
            await hidden.set_meta({_MADE_FOR: _text(identity), _BUILD: str(build)})
    except BaseException:
        lock.release()
        raise
    return SqliteRebuild(live, hidden, lock)


async def has_unfinished(live: SqliteStore, identity: Mapping[str, str], open_store: OpenStore) -> bool:
    """Whether a rebuild for this identity was begun and not published. Deletes any other leftover."""
    if not rebuild_path(live.path).exists():
        return False
    lock = _take_lock(live.path)
    if lock is None:
        return False
    try:
        hidden = await _open_unfinished(live, identity, open_store)
        if hidden is None:
            remove_database(rebuild_path(live.path))
            return False
        await hidden.close()
        return True
    finally:
        lock.release()


async def _open_unfinished(
    live: SqliteStore, identity: Mapping[str, str], open_store: OpenStore
) -> SqliteStore | None:
    path = rebuild_path(live.path)
    if not path.exists():
        return None
    try:
        hidden = await open_store(path)
    except IndexUnusable:
        return None
    try:
        meta = await hidden.meta()
        if meta.get(_MADE_FOR) == _text(identity) and _build(meta) > _build(await live.meta()):
            return hidden
    except IndexUnusable:
        pass
    await hidden.close()
    return None


def _take_lock(index: Path) -> BuildingLock | None:
    lock = BuildingLock(index)
    return lock if lock.take() else None


def _copy_vectors(connection: Connection, live: Path) -> None:
    """Copies vectors in runs, so that no transaction grows with the index."""
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
                    "INSERT OR IGNORE INTO main.vectors (embedder_id, text_hash, used_at, embedding)"
                    " SELECT main.embedders.id, text_hash, used_at, embedding FROM live.vectors"
                    " JOIN live.embedders ON live.embedders.id = embedder_id"
                    " JOIN main.embedders USING (name) WHERE live.vectors.id > ? AND live.vectors.id <= ?",
                    (last, end),
                )
            last = end
    finally:
        connection.execute("DETACH live")


def _replace_content(connection: Connection, live: Path, hidden: Path) -> None:
    """Under the lock: the last vectors into the hidden file, then all of it into the live one."""
    source = open_connection(hidden)
    try:
        _copy_vectors(source, live)
        copy_database(source, connection)
    finally:
        source.close()
    remove_database(hidden)
    connection.pragma("wal_checkpoint(TRUNCATE)")


def _next_ids(connection: Connection) -> dict[str, int]:
    last = dict.fromkeys(_NUMBERED, 0) | {
        str(name): int(seq) for name, seq in connection.execute("SELECT name, seq FROM sqlite_sequence")
    }
    return {name: seq + ID_STEP for name, seq in last.items()}


def _start_ids(connection: Connection, first_ids: Mapping[str, int]) -> None:
    with transaction(connection):
        connection.executemany("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", first_ids.items())


def _build(meta: Mapping[str, str]) -> int:
    return int(meta.get(_BUILD, "0"))


def _text(identity: Mapping[str, str]) -> str:
    return json.dumps(identity, sort_keys=True)
