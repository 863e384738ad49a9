"""Statements about one build of one agent's index: each is given the agent, none sees another's rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, LiteralString, NamedTuple

if TYPE_CHECKING:
    from nacre.postgres.pool import Connection

BUILD_TABLES: tuple[LiteralString, ...] = (
    "memory_meta",
    "memory_files",
    "memory_chunks",
    "memory_words",
    "memory_chunk_vectors",
    "memory_failures",
    "memory_builds",
)
"""The tables whose rows belong to a build."""

_HEAD = """
SELECT build, chunks, tokens, changed FROM memory_builds
WHERE agent = %(agent)s AND build = coalesce(
    %(build)s, (SELECT live FROM memory_indexes WHERE memory_indexes.agent = %(agent)s), 1)
"""


class Head(NamedTuple):
    """A build as it is now: its number, how many chunks and words it has, and how often it was written."""

    build: int
    chunks: int
    tokens: int
    changed: int


@dataclass(frozen=True, kw_only=True)
class Moment:
    """A connection inside a transaction, and the build that statements are about."""

    connection: Connection
    agent: str
    build: int

    def rows(self, sql: LiteralString, **values: Any) -> list[tuple[Any, ...]]:
        """All rows of a statement; `%(agent)s` and `%(build)s` are there in it."""
        found: list[tuple[Any, ...]] = self.connection.execute(sql, self._with(values)).fetchall()
        return found

    def value(self, sql: LiteralString, **values: Any) -> Any:
        """The first column of the first row, or `None` without a row."""
        row = self.connection.execute(sql, self._with(values)).fetchone()
        return None if row is None else row[0]

    def change(self, sql: LiteralString, **values: Any) -> int:
        """How many rows a statement changed."""
        count: int = self.connection.execute(sql, self._with(values)).rowcount
        return count

    def change_each(self, sql: LiteralString, each: Iterable[Mapping[str, Any]]) -> None:
        """The same statement for many values, in few trips to the server."""
        if rows := [self._with(values) for values in each]:
            with self.connection.cursor() as cursor:
                cursor.executemany(sql, rows)

    def _with(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {"agent": self.agent, "build": self.build, **values}


def head_of(connection: Connection, agent: str, build: int | None) -> Head:
    """The build with this number, or the one that answers; an empty one where there is none yet."""
    row = connection.execute(_HEAD, {"agent": agent, "build": build}).fetchone()
    return Head(*row) if row else Head(build or 1, 0, 0, 0)
