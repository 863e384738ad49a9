"""Which chunks a search may return, as a condition in SQL."""

from __future__ import annotations

from typing import get_args

from nacre.memory.contracts.records import Source
from nacre.memory.contracts.store import Scope
from nacre.memory.stores.sqlite.connection import Connection
from nacre.record import Record


class Narrowed(Record):
    """The chunks that a scope admits: a SELECT of their ids, and its arguments."""

    members: str
    arguments: tuple[str, ...]

    def admits(self, chunk_id: str) -> str:
        """A condition on a column with chunk ids. It is looked up row by row, so few rows cost little."""
        return f"EXISTS ({self.members} AND chunks.id = {chunk_id})"


def narrowed(connection: Connection, scope: Scope) -> Narrowed | None:
    """What `scope` leaves of the index; `None` when it admits everything."""
    conditions: list[str] = []
    arguments: list[str] = []
    for operator, day in ((">=", scope.after), ("<=", scope.before)):
        if day is not None:
            conditions.append(f"day {operator} ?")
            arguments.append(day.isoformat())
    # Without the sources, an index of the days alone answers.
    tables = "chunks"
    others = [source for source in get_args(Source) if source not in scope.sources]
    if any(
        connection.execute("SELECT EXISTS (SELECT 1 FROM files WHERE source = ?)", (source,)).get
        for source in others
    ):
        tables = "chunks JOIN files ON files.id = chunks.file_id"
        conditions.append(f"source IN ({', '.join('?' * len(scope.sources))})")
        arguments += scope.sources
    if scope.below:
        tables = "chunks JOIN files ON files.id = chunks.file_id"
        # `0` follows `/`: all that begins with the folder's name and a slash.
        conditions.append("files.path >= ? AND files.path < ?")
        arguments += (f"{scope.below}/", f"{scope.below}0")
    if not conditions:
        return None
    members = f"SELECT chunks.id FROM {tables} WHERE {' AND '.join(conditions)}"
    return Narrowed(members=members, arguments=tuple(arguments))
