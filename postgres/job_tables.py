"""Brings procrastinate's tables to the version that is installed. Edge.

The library has its tables as one file, and as a file for each change since. Which of them a database has had
stands in `nacre_job_migrations`.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from nacre.postgres.errors import DatabaseUnusable

if TYPE_CHECKING:
    from nacre.postgres.pool import Connection

_LOCK = 0x6E6163726A
"""The number of the lock: `nacrj`."""
_TABLE = """
CREATE TABLE IF NOT EXISTS nacre_job_migrations (
    name TEXT PRIMARY KEY, applied_at TIMESTAMPTZ NOT NULL DEFAULT now()
)
"""


def bring_job_tables(connection: Connection) -> None:
    """Makes the tables or brings them up to date, within a transaction; whoever starts at once waits.

    Raises:
        DatabaseUnusable: procrastinate is missing, or a newer one made the tables.
    """
    try:
        from procrastinate.schema import SchemaManager
    except ImportError as error:
        raise DatabaseUnusable(
            f"Workers need procrastinate, which cannot be used here ({error}). Install it with "
            "`pip install 'nacre[postgres]'`."
        ) from error
    changes = {
        file.name: file.read_text(encoding="utf-8")
        for file in files("procrastinate.sql").joinpath("migrations").iterdir()
        if file.name.endswith(".sql")
    }
    if _applied(connection) >= set(changes):
        _refuse_newer(_applied(connection), set(changes))
        return
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
    connection.execute(_TABLE)
    applied = _applied(connection)
    _refuse_newer(applied, set(changes))
    if not applied:
        connection.execute(SchemaManager.get_schema().encode())
    for name in sorted(set(changes) - applied):
        if applied:
            connection.execute(changes[name].encode())
        connection.execute("INSERT INTO nacre_job_migrations (name) VALUES (%s)", (name,))


def _applied(connection: Connection) -> set[str]:
    if connection.execute("SELECT to_regclass('nacre_job_migrations')").fetchone() == (None,):
        return set()
    return {str(name) for (name,) in connection.execute("SELECT name FROM nacre_job_migrations")}


def _refuse_newer(applied: set[str], known: set[str]) -> None:
    if newer := sorted(applied - known):
        raise DatabaseUnusable(
            f"A newer procrastinate made the tables of jobs ({newer[-1]} is not known here). Use the version "
            "of Nacre that made them; nothing was changed."
        )
