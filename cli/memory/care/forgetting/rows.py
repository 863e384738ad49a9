"""Looks for words in all rows that a database has of one agent, whatever table they lie in. Edge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, LiteralString

from nacre.postgres.database import Database

if TYPE_CHECKING:
    from nacre.postgres.pool import Connection

OUT_OF_REACH = (
    "Of the database also: pages that the server has not used again, its log of changes, and its replicas."
)
_COLUMNS: LiteralString = """
SELECT relname, array_agg(quote_ident(attname) || CASE WHEN atttypid = 'bytea'::regtype
    THEN '' ELSE '::text' END ORDER BY attnum)
FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
    AND atttypid IN ('text'::regtype, 'bytea'::regtype, 'json'::regtype, 'jsonb'::regtype,
        'text[]'::regtype)
    AND NOT attisdropped AND (starts_with(relname::text, 'procrastinate_') OR EXISTS (
        SELECT FROM pg_attribute AS key WHERE key.attrelid = pg_class.oid AND key.attname = 'agent'))
GROUP BY relname ORDER BY relname
"""
"""Each table whose rows belong to agents, and those of the jobs, with their columns that may hold words."""


async def rows_with(
    database: Database, agent: str, says: Callable[[str], bool], *, but: Collection[str]
) -> dict[str, int]:
    """In how many rows of which tables, except the tables `but`, some column has what `says` is true of.

    Raises:
        DatabaseError: the database cannot be read.
    """

    def work(connection: Connection) -> dict[str, int]:
        found = Counter[str]()
        for table, columns in connection.execute(_COLUMNS).fetchall():
            if table in but:
                continue
            # Names that the server itself quoted, of its own catalogue.
            query = f'SELECT {", ".join(columns)} FROM "{table}" WHERE agent = %(agent)s'
            if table.startswith("procrastinate_"):
                query = f'SELECT {", ".join(columns)} FROM "{table}"'
            with connection.cursor(name="looked") as rows:
                rows.execute(query.encode(), {"agent": agent})
                found[table] += sum(any(says(_text(each)) for each in row) for row in rows)
        return {table: count for table, count in found.items() if count}

    return await database.read(work)


def _text(value: object) -> str:
    if isinstance(value, bytes | memoryview):
        return bytes(value).decode("utf-8", "replace")
    return str(value or "")
