"""The ledger's file: SQLite on a thread of its own, where what is written together waits for the disk once.

Edge, and the only file of the bridges that imports apsw. What `write` returns from survives a kill and a
power cut. Knows no table.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import apsw

from nacre.runtime.ledger.records import LedgerUnusable

BUSY_TIMEOUT_MS = 10_000
MOST_TOGETHER = 256
PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700

Connection = apsw.Connection
T = TypeVar("T")


@dataclass(frozen=True)
class _Work:
    run: Callable[[Connection], Any]
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[Any]


class Database:
    """One file, which other processes may have open as well."""

    def __init__(self, connection: Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._waiting: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="ledger", daemon=True)
        self._is_closed = False
        self._thread.start()

    async def write(self, work: Callable[[Connection], T]) -> T:
        """The result of `work`, run whole or not at all; what it wrote is on disk.

        Raises:
            LedgerUnusable: the disk refused, or the ledger is closed.
        """
        if self._is_closed:
            raise LedgerUnusable(f"The ledger {self._path} is closed.")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        self._waiting.put(_Work(work, loop, done))
        return await done

    async def close(self) -> None:
        """Finishes what was asked for and closes the file. Safe to repeat."""
        if not self._is_closed:
            self._is_closed = True
            self._waiting.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        with closing(self._connection):
            while (first := self._waiting.get()) is not None:
                together, is_last = [first], False
                with suppress(queue.Empty):
                    while len(together) < MOST_TOGETHER and not is_last:
                        more = self._waiting.get_nowait()
                        is_last = more is None
                        together += [more] if more else []
                self._together(together)
                if is_last:
                    return

    def _together(self, together: list[_Work]) -> None:
        """One transaction for all; what fails takes only itself back."""
        outcomes: list[tuple[Any, Exception | None]] = []
        try:
            with _transaction(self._connection):
                outcomes += [self._one(work) for work in together]
        except apsw.Error as error:
            outcomes = [(None, unusable(self._path, error))] * len(together)
        for work, (result, problem) in zip(together, outcomes, strict=True):
            with suppress(RuntimeError):  # its loop has ended: nobody waits any more
                work.loop.call_soon_threadsafe(_settle, work.done, result, problem)

    def _one(self, work: _Work) -> tuple[Any, Exception | None]:
        try:
            with self._connection:  # a savepoint
                result = work.run(self._connection)
        except apsw.Error as error:
            return None, unusable(self._path, error)
        except Exception as error:  # noqa: BLE001 - it belongs to whoever asked for the work
            return None, error
        return result, None


def open_database(path: Path, migrations: tuple[str, ...], *, now: datetime) -> tuple[Database, str]:
    """The database of a file, made if need be and brought to the newest version; and a notice, or nothing.

    A file that is damaged is set aside under another name, and a new one begun.

    Raises:
        LedgerUnusable: the file cannot be opened, or a newer program wrote it.
    """
    notice = ""
    try:
        path.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        connection = _opened(path)
    except (apsw.NotADBError, apsw.CorruptError) as error:
        aside = path.with_name(f"{path.name}.corrupt-{now:%Y%m%dT%H%M%S}")
        for suffix in ("-wal", "-shm"):
            with suppress(FileNotFoundError):
                Path(f"{path}{suffix}").rename(f"{aside}{suffix}")
        path.rename(aside)
        notice = (
            f"The ledger of the bridges was damaged ({error}) and set aside as {aside}. What was on its way "
            "then is not sent, and messages that a server sends again are answered again."
        )
        connection = _opened(path)
    except (apsw.Error, OSError) as error:
        raise unusable(path, error) from error
    try:
        _migrate(connection, path, migrations)
    except BaseException:
        connection.close()
        raise
    return Database(connection, path), notice


def unusable(path: Path, error: Exception) -> LedgerUnusable:
    """The system's or the database's no as a sentence."""
    return LedgerUnusable(
        f"The ledger {path} cannot be used: {error}. Check the disk's space and the file's permissions."
    )


def _opened(path: Path) -> Connection:
    with suppress(FileExistsError):
        path.touch(mode=PRIVATE_FILE, exist_ok=False)  # the files beside it get the mode of this one
    connection = apsw.Connection(str(path))
    try:
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        connection.pragma("journal_mode", "wal")
        connection.pragma("synchronous", "full")  # a commit is on disk, as a promise to a server must be
        found = connection.pragma("quick_check")
        if found != "ok":
            raise apsw.CorruptError(str(found))
    except BaseException:
        connection.close()
        raise
    return connection


def _migrate(connection: Connection, path: Path, migrations: tuple[str, ...]) -> None:
    with _transaction(connection):
        version = int(connection.pragma("user_version"))
        if version > len(migrations):
            raise LedgerUnusable(
                f"The ledger {path} has version {version}, and this program knows {len(migrations)}. "
                "Use the newer program that wrote it."
            )
        for migration in migrations[version:]:
            connection.execute(migration)
        connection.pragma("user_version", len(migrations))


@contextmanager
def _transaction(connection: Connection) -> Iterator[None]:
    """Whole or not at all. It takes the write lock at once: whoever read first could not wait for it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _settle(done: asyncio.Future[Any], result: Any, problem: Exception | None) -> None:
    if done.done():
        return
    if problem is not None:
        done.set_exception(problem)
    else:
        done.set_result(result)
