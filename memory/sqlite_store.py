"""The store in SQLite: one file, one thread that writes, two that read.

A write takes the lock file beside the index first, so that processes queue up instead of colliding; readers
take nothing and see the last committed state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from filelock import FileLock, Timeout

from nacre.memory import sqlite_reads as reads
from nacre.memory import sqlite_writes as writes
from nacre.memory.errors import IndexBusy
from nacre.memory.lexical import MatchQuery
from nacre.memory.records import Chunk, FailedFile, Source
from nacre.memory.schema import migrate
from nacre.memory.sqlite_connection import Connection, ConnectionThread, open_connection, transaction
from nacre.memory.store import FileState, IndexedFile, Scope, Scored, StoreCounts

LOCK_TIMEOUT_SECONDS = 30.0

P = ParamSpec("P")
T = TypeVar("T")


class SqliteStore:
    """`Store` over one SQLite file. Open it with `SqliteStore.open`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = FileLock(f"{path}.lock", timeout=LOCK_TIMEOUT_SECONDS, thread_local=False)
        self._writer = ConnectionThread("memory-index-writer", lambda: open_connection(path))
        self._reader = ConnectionThread("memory-index-reader", lambda: open_connection(path, read_only=True))

    @classmethod
    async def open(cls, path: Path) -> SqliteStore:
        """Opens or creates the index and brings its tables to the newest version.

        Raises:
            IndexUnusable: the file is damaged or from a newer Nacre.
            IndexBusy: another process kept the write lock.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        store = cls(path)
        try:
            await store._locked(migrate)
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

    async def file_states(self, source: Source) -> Mapping[str, FileState]:
        """See `Store.file_states`."""
        return await self._reader.run(reads.file_states, source)

    async def replace_files(self, files: Sequence[IndexedFile]) -> None:
        """See `Store.replace_files`: one transaction for each file, the lock once for all."""

        def replace(connection: Connection) -> None:
            for file in files:
                with transaction(connection):
                    writes.replace_file(connection, file)

        await self._locked(replace)

    async def touch_files(self, states: Sequence[FileState]) -> None:
        """See `Store.touch_files`."""
        await self._write(writes.touch_files, states)

    async def remove_files(self, source: Source, paths: Sequence[str]) -> None:
        """See `Store.remove_files`."""
        await self._write(writes.remove_files, source, paths)

    async def lexical(self, query: MatchQuery, *, limit: int, scope: Scope) -> Sequence[Scored]:
        """See `Store.lexical`."""
        return await self._reader.run(reads.lexical, query, limit, scope)

    async def chunks(self, chunk_ids: Sequence[int]) -> Mapping[int, Chunk]:
        """See `Store.chunks`."""
        return await self._reader.run(reads.chunks, chunk_ids)

    async def without_vectors(self, *, above_id: int, limit: int) -> Sequence[tuple[int, Chunk]]:
        """See `Store.without_vectors`."""
        return await self._reader.run(reads.without_vectors, above_id, limit)

    async def failures(self, source: Source) -> Mapping[str, FailedFile]:
        """See `Store.failures`."""
        return await self._reader.run(reads.failures, source)

    async def set_failures(
        self, source: Source, failed: Sequence[FailedFile], cleared: Sequence[str]
    ) -> None:
        """See `Store.set_failures`."""
        await self._write(writes.set_failures, source, failed, cleared)

    async def counts(self) -> StoreCounts:
        """See `Store.counts`."""
        return await self._reader.run(reads.counts)

    async def close(self) -> None:
        """See `Store.close`."""
        await self._reader.close()
        await self._writer.close()

    async def _write(
        self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        def call(connection: Connection) -> T:
            with transaction(connection):
                return work(connection, *args, **kwargs)

        return await self._locked(call)

    async def _locked(self, work: Callable[[Connection], T]) -> T:
        def call(connection: Connection) -> T:
            try:
                with self._lock:
                    return work(connection)
            except Timeout as error:
                raise IndexBusy(
                    f"Another process kept the lock {self._lock.lock_file} for more than "
                    f"{LOCK_TIMEOUT_SECONDS:.0f} seconds. Try again when it is done."
                ) from error

        return await self._writer.run(call)
