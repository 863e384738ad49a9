"""The only file that imports apsw: connections, transactions, the threads that own them, and locks.

A connection stays on one thread. Processes share two locks over an index: `<index>.lock` is held during a
write, `<index>.building` during a rebuild. Nothing here knows a table.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import apsw

from nacre.locks import SharedLock
from nacre.memory.contracts.errors import IndexBusy, IndexClosed, IndexDamaged, IndexUnusable, unusable

BUSY_TIMEOUT_MS = 10_000
LOCK_TIMEOUT_SECONDS = 30.0
MMAP_BYTES = 1 << 30
CACHE_KIB = 16_384
PAGE_BYTES = 16_384
"""With rows of one or two kilobytes, smaller pages would leave a quarter of the file unused."""

PRIVATE_FILE = 0o600
"""The mode of an index and the files beside it, which hold the owner's words."""

Connection = apsw.Connection
SqliteError = apsw.Error
T = TypeVar("T")


def connection_to_read(path: Path) -> Connection:
    """Opens a database that is only read; where nothing can be written, it has no log to share."""
    is_still = not (os.access(path.parent, os.W_OK) or Path(f"{path}-wal").exists())
    uri = f"{path.absolute().as_uri()}?immutable={int(is_still)}"
    return apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)


def open_connection(
    path: Path, *, read_only: bool = False, inspect: Callable[[Connection], object] | None = None
) -> Connection:
    """Opens an index file in write-ahead mode, and creates it unless `read_only`.

    `inspect` is called before the file is changed, and may raise to prevent that.

    Raises:
        IndexUnusable: the file is not a database, has a damaged header, or cannot be opened.
    """
    connection = None
    if not read_only:
        # Side files get the mode of the index, so it must be right from the start.
        with suppress(OSError):
            path.touch(mode=PRIVATE_FILE, exist_ok=False)
    try:
        connection = connection_to_read(path) if read_only else apsw.Connection(str(path))
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        if not read_only:
            if inspect is not None:
                inspect(connection)
            if not connection.pragma("page_count"):
                # Both only affect an empty file and must precede write-ahead mode. In a full file the
                # second would write, and every process would see a change.
                connection.pragma("page_size", PAGE_BYTES)
                connection.pragma("auto_vacuum", "incremental")
            connection.pragma("journal_mode", "wal")
        # Commits do not wait for the disk: a power failure may undo the last ones but never damages the
        # file, and their content is still in the notes.
        connection.pragma("synchronous", "normal")
        connection.pragma("temp_store", "memory")
        connection.pragma("cache_size", -CACHE_KIB)
        connection.pragma("mmap_size", MMAP_BYTES)
        connection.pragma("user_version")
        if not read_only and connection.readonly("main") and os.access(path, os.W_OK):
            raise IndexDamaged(f"The memory index {path} is damaged (its header is not its own).")
    except apsw.Error as error:
        raise _translated(error, path, connection) from error
    return connection


@contextmanager
def transaction(connection: Connection) -> Iterator[None]:
    """A write transaction, which is applied whole or not at all. It takes the write lock at once, so it
    cannot deadlock."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


@contextmanager
def one_moment(connection: Connection) -> Iterator[None]:
    """A read transaction, in which every SELECT sees the same state."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        # SQLite itself ends the transaction after some failures.
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def quick_check(connection: Connection) -> str:
    """Empty if the database is sound, otherwise SQLite's description of the damage."""
    try:
        answer = connection.execute("PRAGMA quick_check(3)").fetchall()
    except apsw.Error as error:
        return str(error)
    return "" if answer == [("ok",)] else "; ".join(str(row[0]) for row in answer)


def read_in_turn(
    connection: Connection, table: str, column: str, row_ids: Sequence[int], size: int
) -> bytearray | None:
    """Blobs of `size` bytes in a row, faster than by a SELECT.

    `None` if a row is missing or its blob has another size.
    """
    read = bytearray(size * len(row_ids))
    if not row_ids:
        return read
    try:
        with connection.blob_open("main", table, column, row_ids[0], False) as blob:
            for place, row_id in enumerate(row_ids):
                blob.reopen(row_id)
                if blob.length() != size:
                    return None
                blob.read_into(read, place * size, size)
    except apsw.Error:
        return None
    return read


def give_back_space(connection: Connection) -> None:
    """Truncates the file by its free pages."""
    connection.execute("PRAGMA incremental_vacuum").fetchall()


def copy_database(source: Connection, target: Connection) -> None:
    """Replaces the content of `target` by that of `source` in one transaction. Readers, and the next process
    after a kill, see the old content until it is complete."""
    with target.backup("main", source, "main") as backup:
        while not backup.done:
            backup.step(-1)


class ConnectionThread:
    """A thread with its own connection, which runs calls in order."""

    def __init__(self, name: str, connect: Callable[[], Connection]) -> None:
        self._name = name
        self._connect = connect
        self._connection: Connection | None = None
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    async def run(self, work: Callable[[Connection], T]) -> T:
        """Runs `work(connection)` on the thread.

        Raises:
            IndexClosed: after `close()`.
            IndexBusy: another process held the write lock beyond the busy timeout.
            IndexUnusable: the file is damaged, full or read-only.
        """
        if self._closed:
            raise IndexClosed(f"The memory index is closed ({self._name}).")
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._call, work)

    def later(self, seconds: float, work: Callable[[Connection], object]) -> None:
        """Runs `work(connection)` on the thread after `seconds`, unless it is closed before.

        Failures are ignored; the next call meets the same.
        """
        if not self._closed:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(seconds, self._executor.submit, self._call, work)

    async def close(self) -> None:
        """Waits for pending calls, then closes the connection and ends the thread."""
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        await asyncio.get_running_loop().run_in_executor(self._executor, self._drop)
        self._executor.shutdown(wait=False)

    def _call(self, work: Callable[[Connection], T]) -> T:
        try:
            if self._connection is None:
                self._connection = self._connect()
            return work(self._connection)
        except apsw.Error as error:
            path = Path(self._connection.filename) if self._connection else None
            raise _translated(error, path, self._connection) from error

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class IndexLock(SharedLock):
    """A lock file beside the index, shared by processes. Threads of one holder share the lock."""

    def __init__(self, index: Path, suffix: str = ".lock") -> None:
        super().__init__(f"{index}{suffix}")
        self._index = index

    @contextmanager
    def held(self) -> Iterator[None]:
        """Waits for the lock and holds it. Raises the same errors as `acquire`."""
        self.acquire()
        try:
            yield
        finally:
            self.release()

    def acquire(self) -> None:
        """Waits for the lock. A holder may take it again, and must release it as often.

        Raises:
            IndexBusy: another process held it for too long.
            IndexUnusable: the lock file cannot be created.
        """
        if not self.take(LOCK_TIMEOUT_SECONDS):
            raise IndexBusy(
                f"Another process kept the lock {self._file} for more than "
                f"{LOCK_TIMEOUT_SECONDS:.0f} seconds. Try again when it is done."
            )

    def take(self, wait_seconds: float = 0) -> bool:
        """Takes the lock if it is free within `wait_seconds`; whether it did.

        Raises:
            IndexUnusable: the lock file cannot be created.
        """
        try:
            return super().take(wait_seconds)
        except OSError as error:
            raise unusable(self._index, error) from error


def _translated(
    error: apsw.Error, path: Path | None, connection: Connection | None
) -> IndexBusy | IndexUnusable:
    where = f"The memory index {path}" if path else "The memory index"
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return IndexBusy(f"{where} is held by another process ({error}). Try again in a moment.")
    if isinstance(error, apsw.FullError) or _has_no_room(error, connection):
        return IndexUnusable(
            f"{where} cannot grow: the disk is full, or a limit on files or on your part of the disk is "
            f"reached ({error}). The notes are untouched; make room and run it again."
        )
    if isinstance(error, apsw.CorruptError | apsw.NotADBError | apsw.SQLError):
        return IndexDamaged(f"{where} is damaged ({error}).")
    if isinstance(error, apsw.ReadOnlyError | apsw.CantOpenError | apsw.PermissionsError):
        return IndexUnusable(
            f"{where} cannot be written or opened ({error}). Check the folder's permissions."
        )
    return IndexUnusable(f"{where} cannot be used: {error}.")


def _has_no_room(error: apsw.Error, connection: Connection | None) -> bool:
    # SQLite distinguishes a full disk from other failures, but not a quota or a limit on file sizes.
    return (
        isinstance(error, apsw.IOError)
        and connection is not None
        and connection.system_errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    )
