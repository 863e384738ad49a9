"""The store in SQLite: one file, and three threads: one writes, one searches, one reads for everything else.

A write takes the lock file beside the index first, so that processes queue up instead of colliding; readers
take nothing and see the last committed state. Searches never stand in line behind what syncs and status read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from nacre.memory.contracts.errors import IndexDamaged, refusals_told
from nacre.memory.contracts.records import Chunk, FailedFile, Source
from nacre.memory.contracts.store import (
    FileState,
    IndexedFile,
    Piece,
    Snapshot,
    StoreCounts,
    Vector,
    VectorEngine,
)
from nacre.memory.stores.sqlite import reads, vectors, writes
from nacre.memory.stores.sqlite.connection import (
    Connection,
    ConnectionThread,
    give_back_space,
    open_connection,
    quick_check,
    transaction,
)
from nacre.memory.stores.sqlite.extension import add_vector_functions
from nacre.memory.stores.sqlite.index_lock import WriteLock
from nacre.memory.stores.sqlite.rebuild import SqliteRebuild, begin_rebuild, has_unfinished
from nacre.memory.stores.sqlite.schema import SCHEMA_VERSION, migrate, version_of
from nacre.memory.stores.sqlite.snapshot import SnapshotReader

P = ParamSpec("P")
T = TypeVar("T")


class SqliteStore:
    """`Store` over one SQLite file. Open it with `SqliteStore.open`."""

    def __init__(
        self, path: Path, *, extension_enabled: bool = True, extension_path: str | None = None
    ) -> None:
        self.path = path
        self._extension_enabled = extension_enabled
        self._extension_path = extension_path
        self.write_lock = WriteLock(path)
        self._writer = ConnectionThread("memory-writer", lambda: open_connection(path, inspect=version_of))
        self._reader = ConnectionThread("memory-reader", lambda: open_connection(path, read_only=True))
        self._searcher = ConnectionThread("memory-search", lambda: open_connection(path, read_only=True))
        self._snapshots = SnapshotReader(self._add_vector_functions)
        self._engine: VectorEngine | None = None

    @classmethod
    async def open(
        cls, path: Path, *, extension_enabled: bool = True, extension_path: str | None = None
    ) -> SqliteStore:
        """Opens or creates the index and brings its tables to the newest version.

        Raises:
            IndexDamaged: the file is no sound database.
            IndexUnusable: it cannot be opened, is another program's, or was written by a newer Nacre.
            IndexBusy: another process kept the write lock.
        """
        with refusals_told(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        store = cls(path, extension_enabled=extension_enabled, extension_path=extension_path)
        try:
            if await store._writer.run(version_of) != SCHEMA_VERSION:
                await store.write_with(migrate)
        except BaseException:
            await store.close()
            raise
        return store

    async def meta(self) -> Mapping[str, str]:
        """See `Store.meta`."""
        return await self._reader.run(reads.meta)

    async def set_meta(self, values: Mapping[str, str]) -> None:
        """See `Store.set_meta`."""
        await self._write(writes.set_meta, values)

    async def stored_file(self, source: Source, path: str) -> tuple[FileState, Sequence[Chunk]] | None:
        """See `Store.stored_file`."""
        return await self._reader.run(reads.stored_file, source, path)

    async def file_states(self, source: Source) -> Mapping[str, FileState]:
        """See `Store.file_states`."""
        return await self._reader.run(reads.file_states, source)

    async def replace_files(self, files: Sequence[IndexedFile]) -> None:
        """See `Store.replace_files`: one transaction, since each costs the full-text index a segment."""
        await self._write(writes.replace_files, files)

    async def tidy(self) -> None:
        """See `Store.tidy`: merges the full-text index in steps, each with the lock to itself."""
        first = True
        while await self._write(writes.merge_words, first=first):
            first = False
        await self.write_with(give_back_space)

    async def touch_files(self, states: Sequence[FileState]) -> None:
        """See `Store.touch_files`."""
        await self._write(writes.touch_files, states)

    async def remove_files(self, source: Source, paths: Sequence[str]) -> None:
        """See `Store.remove_files`."""
        await self._write(writes.remove_files, source, paths)

    async def read(self, work: Callable[[Snapshot], T]) -> T:
        """See `Store.read`."""
        return await self._searcher.run(self._snapshots.run, work)

    async def without_vectors(self, *, above_id: int, limit: int) -> Sequence[tuple[int, Chunk]]:
        """See `Store.without_vectors`."""
        return await self._reader.run(vectors.without_vectors, above_id, limit)

    async def attach_known(self, embedder: str, pieces: Sequence[Piece], *, now_seconds: int) -> set[bytes]:
        """See `Store.attach_known`."""
        return await self._write(vectors.attach_known, embedder, pieces, now_seconds)

    async def put_vectors(
        self, embedder: str, found: Mapping[bytes, Vector | None], *, now_seconds: int
    ) -> None:
        """See `Store.put_vectors`."""
        await self._write(vectors.put_vectors, embedder, found, now_seconds)

    async def detach_vectors(self) -> None:
        """See `Store.detach_vectors`."""
        await self._write(vectors.detach_vectors)

    async def evict(self, *, keep_unused: int | None) -> int:
        """See `Store.evict`."""
        return await self._write(vectors.evict, keep_unused)

    async def refused(self, *, limit: int) -> Sequence[str]:
        """See `Store.refused`."""
        return await self._reader.run(reads.refused, limit)

    async def failures(self, source: Source) -> Mapping[str, FailedFile]:
        """See `Store.failures`."""
        return await self._reader.run(reads.failures, source)

    async def set_failures(
        self, source: Source, failed: Sequence[FailedFile], cleared: Sequence[str]
    ) -> None:
        """See `Store.set_failures`."""
        await self._write(writes.set_failures, source, failed, cleared)

    async def begin_rebuild(self, identity: Mapping[str, str]) -> SqliteRebuild:
        """See `Store.begin_rebuild`."""
        return await begin_rebuild(self, identity, self._open_like_this)

    async def has_unfinished_rebuild(self, identity: Mapping[str, str]) -> bool:
        """See `Store.has_unfinished_rebuild`."""
        return await has_unfinished(self, identity, self._open_like_this)

    async def vector_engine(self) -> VectorEngine:
        """See `Store.vector_engine`."""
        return await self._searcher.run(self._add_vector_functions)

    async def check(self) -> str:
        """See `Store.check`."""
        # On a thread of its own: this reads the whole file, and searches must not wait for it.
        thread = ConnectionThread("memory-check", lambda: open_connection(self.path, read_only=True))
        try:
            return await thread.run(quick_check)
        except IndexDamaged as error:
            return str(error)
        finally:
            await thread.close()

    async def counts(self) -> StoreCounts:
        """See `Store.counts`."""
        return await self._reader.run(reads.counts)

    async def close(self) -> None:
        """See `Store.close`."""
        await self._reader.close()
        await self._searcher.close()
        await self._writer.close()

    async def read_with(
        self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Runs SQLite work on a reader thread; for files of this room that know SQLite."""
        return await self._reader.run(work, *args, **kwargs)

    async def write_with(
        self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Runs SQLite work on the writer thread under the lock of all processes.

        Raises:
            IndexBusy: another process kept the lock for too long.
        """

        def call(connection: Connection) -> T:
            with self.write_lock.held():
                return work(connection, *args, **kwargs)

        return await self._writer.run(call)

    async def _write(
        self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        def call(connection: Connection) -> T:
            with transaction(connection):
                return work(connection, *args, **kwargs)

        return await self.write_with(call)

    async def _open_like_this(self, path: Path) -> SqliteStore:
        return await SqliteStore.open(
            path, extension_enabled=self._extension_enabled, extension_path=self._extension_path
        )

    def _add_vector_functions(self, connection: Connection) -> VectorEngine:
        if self._engine is None:
            self._engine = add_vector_functions(
                connection, enabled=self._extension_enabled, extension_path=self._extension_path
            )
        return self._engine
