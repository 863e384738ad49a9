"""The ledger in a state folder: one SQLite file, for one serving program at a time, on its own thread."""

from __future__ import annotations

import asyncio
import json
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Self, TypeVar

import apsw

from nacre.closing import using
from nacre.locks import try_lock
from nacre.record import Record
from nacre.runtime.contracts.clock import Clock, NewId
from nacre.runtime.ledger import sqlite_statements as statements
from nacre.runtime.ledger.ledger import Ledger
from nacre.runtime.ledger.moving import COLUMNS, Contents, MovableLedger, as_row, is_left_behind
from nacre.runtime.ledger.records import LedgerUnusable
from nacre.runtime.ledger.tables import LedgerTables, Run

T = TypeVar("T")
BUSY_TIMEOUT_MS = 10_000
MOST_TOGETHER = 256
PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700

Connection = apsw.Connection
LEDGER_FILE = Path("bridges") / "ledger.sqlite"
"""Its path in a state folder."""


class FileLedgerPlace(Record):
    """A `LedgerPlace`: a file of a state folder."""

    file: Path

    async def open(self, *, now: Clock, new_id: NewId) -> Ledger:
        return await SqliteLedger.open(self.file, now=now, new_id=new_id)

    async def open_tables(self) -> LedgerTables:
        return open_tables(self.file)

    async def is_there(self) -> bool:
        return self.file.exists()

    async def is_served(self) -> bool:
        if not self.file.parent.is_dir():
            return False
        release = _try_lock(self.file)
        if release is not None:
            release()
        return release is None

    @asynccontextmanager
    async def movable(self) -> AsyncIterator[MovableLedger]:
        release = _lock(self.file)
        try:
            async with using(MovableFile(self.file)) as found:
                yield found
        finally:
            release()


def ledger_file(state_dir: Path) -> FileLedgerPlace:
    """The ledger of a state folder, which may not exist yet."""
    return FileLedgerPlace(file=state_dir / LEDGER_FILE)


async def refuse_left_behind(there: FileLedgerPlace, *, copied: str, how: str) -> None:
    """Refuses a chosen ledger that lacks what a file has. Every other backend calls this first.

    With an empty ledger, people with access would be strangers, and scheduled jobs would not run.
    `copied` is the checksum of what was last copied to the chosen ledger, and `how` tells the owner how to
    copy this one.

    Raises:
        LedgerUnusable: the file has something, or cannot be read.
    """
    if not there.file.exists():
        return
    async with using(MovableFile(there.file)) as found:
        here = await found.contents()
    if is_left_behind(here, copied=copied):
        counts = ", ".join(f"{count} {name}" for name, count in here.counts.items() if count)
        raise LedgerUnusable(
            f"The ledger of the channels is still in {there.file} ({counts}), but the settings choose the "
            f"database, which lacks it. {how}; or move that file away to begin without it."
        )


class SqliteLedger(Ledger):
    """The ledger in a state folder. Open it with `open`."""

    _release: Callable[[], None] | None = None

    @classmethod
    async def open(cls, path: Path, *, now: Clock, new_id: Callable[[], str]) -> Self:
        """Opens the file, creating it if needed. Parts that were being sent when a program ended become
        `unsure`.

        Only one process at a time may open it: two would send everything twice.

        Raises:
            LedgerUnusable: the file cannot be opened or written, or another process has it.
        """
        release = _lock(path)
        notice = ""
        try:
            try:
                rows = open_database(path)
            except LedgerDamaged as error:
                notice = _set_aside(path, error, now())
                rows = open_database(path)
        except BaseException:
            release()
            raise

        def begin(run: Run) -> str:
            run(statements.NOBODY_KNOWS)
            run(statements.PUT_ID, ledger_id=new_id())
            marks: dict[str, str] = dict(run(statements.MARKS))
            return marks["id"]

        try:
            ledger_id = await rows.write(begin)
        except BaseException:
            await rows.close()
            release()
            raise
        ledger = cls(rows, statements, now=now, ledger_id=ledger_id, notice=notice)
        ledger._release = release
        return ledger

    async def close(self) -> None:
        await super().close()
        if self._release is not None:
            self._release()
            self._release = None


def open_tables(path: Path) -> LedgerTables:
    """The tables of a ledger's file, created if needed, for a terminal. Raises `LedgerUnusable`."""
    return LedgerTables(open_database(path), statements)


def _run_on(db: Connection) -> Run:
    def run(statement: str, /, **values: object) -> list[Any]:
        kept: Any = {
            name: json.dumps(value) if isinstance(value, list) else value for name, value in values.items()
        }
        found: list[Any] = db.execute(statement, kept).fetchall()
        return found

    return run


_OWN_NAMES = {"number": "seq", "answered_by": "agent", "was_draft": "is_draft"}


class MovableFile:
    """A `MovableLedger`. The file is created when something is copied into it, not before."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened: SqliteRows | None = None

    async def contents(self) -> Contents:
        if not self._path.exists():
            return Contents()

        def work(db: Connection) -> Contents:
            found: list[Any] = db.execute(statements.MARKS).fetchall()
            meta: dict[str, str] = dict(found)
            rows = {
                name: tuple(map(as_row, db.execute(f"SELECT {_columns(name)} FROM {name}")))
                for name in COLUMNS
            }
            return Contents(ledger_id=meta.get("id", ""), rows=rows, copied=meta.get("copied", ""))

        return await self._rows().transact(work)

    async def replace(self, contents: Contents, *, copied: str | None = None) -> None:
        """Replaces everything with these contents; no byte of the old ones stays in the file."""
        mark = contents.checksum if copied is None else copied

        def work(db: Connection) -> None:
            db.execute("PRAGMA secure_delete = ON")
            for name, columns in COLUMNS.items():
                db.execute(f"DELETE FROM {name}")
                places = ", ".join("?" * len(columns))
                insert = f"INSERT INTO {name} ({_columns(name)}) VALUES ({places})"
                db.executemany(insert, contents.rows.get(name, ()))
            meta = {"id": contents.ledger_id, "copied": mark}
            for row in meta.items():
                db.execute("INSERT OR REPLACE INTO meta SELECT ?1, ?2 WHERE ?2 <> ''", row)

        await self._rows().transact(work)

    async def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.close()

    def _rows(self) -> SqliteRows:
        if self._opened is None:
            self._opened = open_database(self._path)
        return self._opened


def _columns(table: str) -> str:
    return ", ".join(_OWN_NAMES.get(name, name) for name in COLUMNS[table])


def _try_lock(path: Path) -> Callable[[], None] | None:
    try:
        path.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        return try_lock(path.with_name(f"{path.name}.lock"))
    except OSError as error:
        raise unusable(path, error) from error


def _lock(path: Path) -> Callable[[], None]:
    """Locks a ledger until the returned function is called, or this process ends."""
    release = _try_lock(path)
    if release is None:
        raise LedgerUnusable(
            f"Another program runs the bridges of {path}. Stop it first: both would answer every message."
        )
    return release


@dataclass(frozen=True)
class _Work:
    run: Callable[[Connection], Any]
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[Any]
    durable: bool


_QUICK = frozenset((statements.ROLE, statements.NEXT_PART))
"""Statements of every message that find a row by an index: a thread takes longer than they do."""


class SqliteRows:
    """The `LedgerRows` of a file, which other processes may have open as well.

    Its own thread runs all work; work that waits at the same time is synced to disk once. When `write`
    returns, its changes survive a kill and a power cut. The few statements in `_QUICK` run on the caller's
    thread, beside any writer.
    """

    def __init__(self, connection: Connection, path: Path) -> None:
        self._openedion = connection
        self._path = path
        self._waiting: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="ledger", daemon=True)
        self._is_closed = False
        self._is_synced = True
        self._reading: Connection | None = None
        self._thread.start()

    async def read(self, statement: str, /, **values: object) -> list[Any]:
        if statement in _QUICK:
            self._refuse_if_closed()
            # If a lock or an unusual state of the file prevents this, the thread reads it.
            with suppress(apsw.Error):
                if self._reading is None:
                    self._reading = apsw.Connection(str(self._path), flags=apsw.SQLITE_OPEN_READONLY)
                return _run_on(self._reading)(statement, **values)
        return await self.run(statement, **values)

    async def run(self, statement: str, durable: bool = True, /, **values: object) -> list[Any]:
        return await self.transact(lambda db: _run_on(db)(statement, **values), durable=durable)

    async def write(self, work: Callable[[Run], T]) -> T:
        return await self.transact(lambda db: work(_run_on(db)))

    async def transact(self, work: Callable[[Connection], T], *, durable: bool = True) -> T:
        """Calls `work` with the connection in a transaction and returns its result."""
        self._refuse_if_closed()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        self._waiting.put(_Work(work, loop, done, durable))
        return await done

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise LedgerUnusable(f"The ledger {self._path} is closed.")

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._waiting.put(None)
            if self._reading is not None:
                self._reading.close()
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        with closing(self._openedion):
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
        """Runs all work in one transaction; failed work rolls back only itself."""
        outcomes: list[tuple[Any, Exception | None]] = []
        try:
            if self._is_synced != (is_synced := any(work.durable for work in together)):
                self._openedion.pragma("synchronous", "full" if is_synced else "normal")
                self._is_synced = is_synced
            with _transaction(self._openedion):
                outcomes += [self._one(work) for work in together]
        except apsw.Error as error:
            outcomes = [(None, unusable(self._path, error))] * len(together)
        for work, (result, problem) in zip(together, outcomes, strict=True):
            with suppress(RuntimeError):  # its loop has ended, so nobody waits
                work.loop.call_soon_threadsafe(_settle, work.done, result, problem)

    def _one(self, work: _Work) -> tuple[Any, Exception | None]:
        try:
            with self._openedion:  # a savepoint
                result = work.run(self._openedion)
        except apsw.Error as error:
            return None, unusable(self._path, error)
        except Exception as error:  # noqa: BLE001 - the caller of the work gets it
            return None, error
        return result, None


class LedgerDamaged(LedgerUnusable):
    """The file is not a database, or its pages are damaged. The next program that serves sets it aside."""


def open_database(path: Path) -> SqliteRows:
    """Opens a file, creating and migrating it if needed.

    Raises:
        LedgerDamaged: the file is damaged; nothing was changed.
        LedgerUnusable: the file cannot be opened, or a newer program wrote it.
    """
    try:
        path.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        connection = _connect(path)
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise LedgerDamaged(
            f"The ledger {path} is damaged ({error}). The next start of `nacre serve` sets it aside."
        ) from error
    except (apsw.Error, OSError) as error:
        raise unusable(path, error) from error
    try:
        _migrate(connection, path, statements.MIGRATIONS)
    except BaseException:
        connection.close()
        raise
    return SqliteRows(connection, path)


def _set_aside(path: Path, error: LedgerDamaged, now: datetime) -> str:
    aside = path.with_name(f"{path.name}.corrupt-{now:%Y%m%dT%H%M%S}")
    for suffix in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            Path(f"{path}{suffix}").rename(f"{aside}{suffix}")
    path.rename(aside)
    return (
        f"The ledger of the bridges was damaged ({error.__cause__}) and set aside as {aside}. "
        "Answers in it are not sent, and messages that a server repeats are answered again."
    )


def unusable(path: Path, error: Exception) -> LedgerUnusable:
    return LedgerUnusable(
        f"The ledger {path} cannot be used: {error}. Check the disk's space and the file's permissions."
    )


def _connect(path: Path) -> Connection:
    with suppress(FileExistsError):
        path.touch(mode=PRIVATE_FILE, exist_ok=False)  # the files beside it get the same mode
    connection = apsw.Connection(str(path))
    try:
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        connection.pragma("journal_mode", "wal")
        connection.pragma("synchronous", "full")  # servers rely on commits being on disk
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
    """A transaction that takes the write lock at once, because after a read it could not wait for it."""
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
