"""The ledger of a state folder: one SQLite file, for one program at a time. Edge."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Self, TypeVar

from nacre.locks import try_lock
from nacre.record import Record
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.ids import NewId
from nacre.runtime.ledger import sqlite_statements as statements
from nacre.runtime.ledger.ledger import Ledger, LedgerTables
from nacre.runtime.ledger.moving import COLUMNS, Contents, MovableLedger, as_row, is_left_behind
from nacre.runtime.ledger.records import LedgerUnusable
from nacre.runtime.ledger.sql_ledger import SqlLedger
from nacre.runtime.ledger.sql_tables import Run, SqlTables
from nacre.runtime.ledger.sqlite_database import (
    PRIVATE_FOLDER,
    Connection,
    Database,
    open_database,
    unusable,
)

T = TypeVar("T")
LEDGER_FILE = Path("bridges") / "ledger.sqlite"
"""Where a state folder has it."""


class FileLedgerPlace(Record):
    """A member of `LedgerPlace`: a file of a state folder."""

    file: Path

    async def open(self, *, now: Clock, new_id: NewId) -> Ledger:
        """The whole ledger, for the program that serves."""
        return await SqliteLedger.open(self.file, now=now, new_id=new_id)

    async def open_tables(self, *, now: Clock) -> LedgerTables:
        """What a terminal may look at and change beside that program."""
        return open_tables(self.file, now=now())

    async def is_there(self) -> bool:
        """Whether there is a file."""
        return self.file.exists()

    async def is_served(self) -> bool:
        """Whether a program has locked it."""
        return self.file.parent.is_dir() and _is_locked(self.file)

    @asynccontextmanager
    async def movable(self, *, now: Clock) -> AsyncIterator[MovableLedger]:
        """The ledger, locked until the end of the block."""
        release = _locked(self.file)
        found = MovableFile(self.file, now=now())
        try:
            yield found
        finally:
            await found.close()
            release()


def ledger_file(state_dir: Path) -> FileLedgerPlace:
    """Where a state folder has its ledger, whether it is there or not."""
    return FileLedgerPlace(file=state_dir / LEDGER_FILE)


async def refuse_left_behind(there: FileLedgerPlace, *, copied: str, now: Clock, how: str) -> None:
    """Returns when a file holds nothing that the chosen ledger lacks; every other backend asks this first.

    With an empty ledger people who were let in would be strangers, and what is due would not come. `copied`
    is the checksum of what was last brought to the chosen one, and `how` tells the owner how to bring this.

    Raises:
        LedgerUnusable: it holds something, or it cannot be read.
    """
    if not there.file.exists():
        return
    found = MovableFile(there.file, now=now())
    try:
        here = await found.contents()
    finally:
        await found.close()
    if is_left_behind(here, copied=copied):
        told = ", ".join(f"{count} {name}" for name, count in here.counts.items() if count)
        raise LedgerUnusable(
            f"The ledger of the channels is in {there.file} still ({told}), and the settings want it in the "
            f"database, where that is missing. {how}; or, to begin without it, move that file away."
        )


class SqliteLedger(SqlLedger):
    """The ledger of a state folder. Open it with `open`."""

    _release: Callable[[], None] | None = None

    @classmethod
    async def open(cls, path: Path, *, now: Clock, new_id: Callable[[], str]) -> Self:
        """Opens the file, made if need be. What was being sent when a program ended is `unsure` now.

        One process at a time: two would send everything twice.

        Raises:
            LedgerUnusable: the file cannot be opened or written, or another process has it.
        """
        release = _locked(path)
        try:
            database, notice = open_database(path, statements.MIGRATIONS, now=now())
        except BaseException:
            release()
            raise
        rows = SqliteRows(database)

        def begin(run: Run) -> str:
            run(statements.NOBODY_KNOWS)
            run(statements.PUT_ID, ledger_id=new_id())
            marks: dict[str, str] = dict(run(statements.MARKS))
            return marks["id"]

        try:
            ledger_id = await rows.write(begin)
        except BaseException:
            await database.close()
            release()
            raise
        ledger = cls(rows, statements, now=now, ledger_id=ledger_id, notice=notice)
        ledger._release = release
        return ledger

    async def close(self) -> None:
        """Finishes what was asked for and closes the file. Safe to repeat."""
        await super().close()
        if self._release is not None:
            self._release()
            self._release = None


def open_tables(path: Path, *, now: datetime) -> SqlTables:
    """What a terminal may look at in a ledger's file, made if need be. Raises `LedgerUnusable`."""
    return SqlTables(SqliteRows(open_database(path, statements.MIGRATIONS, now=now)[0]), statements)


class SqliteRows:
    """A member of `LedgerRows`: a file, which other processes may have open as well."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def read(self, statement: str, /, **values: object) -> list[Any]:
        """The rows of one statement."""
        return await self.run(statement, **values)

    async def run(self, statement: str, /, **values: object) -> list[Any]:
        """What one statement changes, and the rows that it gives."""
        return await self.write(lambda run: run(statement, **values))

    async def write(self, work: Callable[[Run], T]) -> T:
        """The result of `work`, whole or not at all."""
        return await self.database.write(lambda db: work(_run_on(db)))

    async def close(self) -> None:
        """Finishes what was asked for and closes the file. Safe to repeat."""
        await self.database.close()


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
    """A member of `MovableLedger`. The file is made when something is brought, and not before."""

    def __init__(self, path: Path, *, now: datetime) -> None:
        self._path = path
        self._now = now
        self._opened: Database | None = None

    async def contents(self) -> Contents:
        """All that it has."""
        if not self._path.exists():
            return Contents()

        def work(db: Connection) -> Contents:
            found: list[Any] = db.execute(statements.MARKS).fetchall()
            meta: dict[str, str] = dict(found)
            rows = {name: tuple(map(as_row, _read(db, name))) for name in COLUMNS}
            return Contents(ledger_id=meta.get("id", ""), rows=rows, copied=meta.get("copied", ""))

        return await self._database().write(work)

    async def replace(self, contents: Contents, *, copied: str | None = None) -> None:
        """Keeps these contents in the place of what it had, of which no byte stays in the file."""
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

        await self._database().write(work)

    async def close(self) -> None:
        """Closes the file. Safe to repeat."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.close()

    def _database(self) -> Database:
        if self._opened is None:
            self._opened, notice = open_database(self._path, statements.MIGRATIONS, now=self._now)
            if notice:
                raise LedgerUnusable(notice)
        return self._opened


def _read(db: Connection, table: str) -> list[Any]:
    rows: list[Any] = db.execute(f"SELECT {_columns(table)} FROM {table}").fetchall()
    return rows


def _columns(table: str) -> str:
    return ", ".join(_OWN_NAMES.get(name, name) for name in COLUMNS[table])


def _is_locked(path: Path) -> bool:
    """Whether a program has a ledger open now. Raises `LedgerUnusable`."""
    try:
        release = try_lock(path.with_name(f"{path.name}.lock"))
    except OSError as error:
        raise unusable(path, error) from error
    if release is not None:
        release()
    return release is None


def _locked(path: Path) -> Callable[[], None]:
    """Keeps other programs out of a ledger until what comes back is called, or this process dies."""
    try:
        path.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        release = try_lock(path.with_name(f"{path.name}.lock"))
    except OSError as error:
        raise unusable(path, error) from error
    if release is None:
        raise LedgerUnusable(
            f"Another program runs the bridges of {path}. Stop it first: both would answer every message."
        )
    return release
