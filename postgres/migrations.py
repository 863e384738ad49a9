"""Brings the tables of a database to the version that this program knows. Edge.

The files in `schema/` are applied in the order of their numbers, all that are missing in one transaction and
under a lock of the server, so that programs which start at once do it once. `nacre_migrations` says which
were applied, with a checksum of each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from nacre.postgres.errors import DatabaseUnusable

if TYPE_CHECKING:
    from nacre.postgres.pool import Connection

_LOCK = 0x6E61637265
"""The number of the lock: `nacre`. Such locks are of one database."""
_TABLE = """
CREATE TABLE IF NOT EXISTS nacre_migrations (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL,
    applied_at TIMESTAMPTZ NOT NULL DEFAULT now()
)
"""


@dataclass(frozen=True, kw_only=True)
class Migration:
    """One numbered file of SQL."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """What tells this text from any other."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


def packaged_migrations() -> tuple[Migration, ...]:
    """The files of `schema/`, `<number>_<name>.sql`, in order."""
    found = [file for file in files("nacre.postgres").joinpath("schema").iterdir() if file.name[0].isdigit()]
    return tuple(
        Migration(
            number=int(file.name.split("_")[0]),
            name=file.name.removesuffix(".sql"),
            sql=file.read_text(encoding="utf-8"),
        )
        for file in sorted(found, key=lambda file: file.name)
    )


def migrate(connection: Connection, migrations: Sequence[Migration]) -> tuple[str, ...]:
    """Applies what is missing, all of it or nothing; the names of what was applied.

    Raises:
        DatabaseUnusable: a newer program made the tables, or a file that was applied is another one now.
        psycopg.Error: the server refused; nothing was changed.
    """
    if not _missing(_applied(connection), migrations):
        return ()
    with connection.transaction():
        # Before the table is made: two that make it at once would stand in each other's way.
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        connection.execute(_TABLE)
        missing = _missing(_applied(connection), migrations)
        for migration in missing:
            connection.execute(migration.sql.encode())
            connection.execute(
                "INSERT INTO nacre_migrations (number, name, checksum) VALUES (%s, %s, %s)",
                (migration.number, migration.name, migration.checksum),
            )
    return tuple(migration.name for migration in missing)


def _applied(connection: Connection) -> dict[int, tuple[str, str]]:
    if connection.execute("SELECT to_regclass('nacre_migrations')").fetchone() == (None,):
        return {}
    rows = connection.execute("SELECT number, name, checksum FROM nacre_migrations").fetchall()
    return {number: (name, checksum) for number, name, checksum in rows}


def _missing(applied: Mapping[int, tuple[str, str]], known: Sequence[Migration]) -> list[Migration]:
    numbers = {migration.number for migration in known}
    newer = [name for number, (name, _) in sorted(applied.items()) if number not in numbers]
    if newer:
        raise DatabaseUnusable(
            f"A newer Nacre made the tables of this database ({newer[-1]} is not known here). "
            "Use that version; nothing was changed."
        )
    for migration in known:
        name, checksum = applied.get(migration.number, ("", migration.checksum))
        if checksum != migration.checksum:
            raise DatabaseUnusable(
                f"The database was made with another text of {name} than this program has. Use the "
                "version of Nacre that made it; nothing was changed."
            )
    return [migration for migration in known if migration.number not in applied]
