"""All of a ledger's file, to be moved to another member, or brought from one."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from nacre.runtime.ledger.moving import COLUMNS, Contents, as_row
from nacre.runtime.ledger.records import LedgerUnusable
from nacre.runtime.ledger.sqlite_database import Connection, Database, open_database
from nacre.runtime.ledger.sqlite_schema import MIGRATIONS

_OWN_NAMES = {"number": "seq", "answered_by": "agent", "was_draft": "is_draft"}


class MovableFile:
    """One file. It is made when something is brought, and not before."""

    def __init__(self, path: Path, *, now: datetime) -> None:
        self._path = path
        self._now = now
        self._opened: Database | None = None

    async def contents(self) -> Contents:
        """All that it has."""
        if not self._path.exists():
            return Contents()

        def work(db: Connection) -> Contents:
            found: list[Any] = db.execute("SELECT name, value FROM meta").fetchall()
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
            self._opened, notice = open_database(self._path, MIGRATIONS, now=self._now)
            if notice:
                raise LedgerUnusable(notice)
        return self._opened


def _read(db: Connection, table: str) -> list[Any]:
    rows: list[Any] = db.execute(f"SELECT {_columns(table)} FROM {table}").fetchall()
    return rows


def _columns(table: str) -> str:
    return ", ".join(_OWN_NAMES.get(name, name) for name in COLUMNS[table])
