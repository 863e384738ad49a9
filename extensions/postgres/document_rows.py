"""The rows of one agent's workspace. A file is written only if it has not changed since it was read."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from nacre.extensions.postgres.server.connections import DatabaseError, StatementRefused
from nacre.memory.contracts.workspace import FileBusy
from nacre.record import Record

if TYPE_CHECKING:
    from nacre.extensions.postgres.server.connections import Connection
    from nacre.extensions.postgres.server.database import Database


_MARKS = "revision, changed_us, coalesce(octet_length(body), 0), body IS NULL"

REVISION = "SELECT revision FROM workspaces WHERE agent = %(agent)s"
COUNT = """
INSERT INTO workspaces AS counted (agent, revision) VALUES (%(agent)s, 1)
ON CONFLICT (agent) DO UPDATE SET revision = counted.revision + 1 RETURNING revision
"""
"""Numbers a write. No other write of the agent starts before the commit."""

NAMED = f"SELECT name, {_MARKS} FROM documents WHERE agent = %(agent)s AND name = ANY (%(names)s)"
BODIES = f"""
SELECT name, {_MARKS}, substring(body FROM 1 FOR %(most)s)
FROM documents WHERE agent = %(agent)s AND name = ANY (%(names)s)
"""
IN_RANGES = """
SELECT asked.number, found.* FROM unnest(%(lows)s::text[], %(highs)s::text[])
    WITH ORDINALITY AS asked (low, high, number)
CROSS JOIN LATERAL (
    SELECT name, revision, changed_us, coalesce(octet_length(body), 0), body IS NULL FROM documents
    WHERE agent = %(agent)s AND name >= asked.low COLLATE "C" AND name < asked.high COLLATE "C" OFFSET 0
) AS found
ORDER BY asked.number, found.name
"""
"""The rows in several ranges of names, range by range."""
ALL = "SELECT name, body, revision FROM documents WHERE agent = %(agent)s ORDER BY name"
SHAPE = """
SELECT
    EXISTS (SELECT FROM documents WHERE agent = %(agent)s AND name >= %(low)s AND name < %(high)s)
    OR EXISTS (SELECT FROM documents WHERE agent = %(agent)s AND name = %(name)s AND body IS NULL),
    EXISTS (SELECT FROM documents WHERE agent = %(agent)s AND name = ANY (%(above)s) AND body IS NOT NULL)
"""
"""Whether a name is a folder, and whether one of its parent folders is a file."""

PUT = """
INSERT INTO documents (agent, name, body, revision, changed_us)
VALUES (%(agent)s, %(name)s, %(body)s, %(revision)s,
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
ON CONFLICT (agent, name) DO UPDATE
SET body = EXCLUDED.body, revision = EXCLUDED.revision, changed_us = EXCLUDED.changed_us
"""
REMOVE = "DELETE FROM documents WHERE agent = %(agent)s AND name = %(name)s"

NOW = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, %(agent)s::text"
"""The server's time in microseconds since the epoch."""


T = TypeVar("T")
_LOCK_NOT_AVAILABLE = "55P03"
_LAST = "\U0010ffff"
"""The last character in byte order."""


class WorkspaceUnreachable(OSError):
    """The database refused, or cannot be reached. The message is the database's."""

    def __init__(self, sentence: str) -> None:
        super().__init__(errno.EIO, sentence)

    def __str__(self) -> str:
        return str(self.strerror)


class WrittenSince(Exception):
    """Somebody else wrote the file after it was read. Nothing was written."""


class Row(NamedTuple):
    """A file, or an explicitly created folder. `revision` is the number of the last write."""

    name: str
    revision: int
    changed_us: int
    size_bytes: int
    is_folder: bool

    @property
    def changed_ns(self) -> int:
        """The time of the last write by the server's clock, in nanoseconds since the epoch."""
        return self.changed_us * 1000


class Document(Record):
    """A file's content, and the number of the last write."""

    body: bytes
    revision: int


class NameRange(Record):
    """Names from `low`, inclusive, to `high`, exclusive, in byte order."""

    low: str
    high: str

    @classmethod
    def one(cls, name: str) -> NameRange:
        """The range of a single name: names contain no control characters."""
        return cls(low=name, high=f"{name}\x01")

    @classmethod
    def beginning(cls, text: str) -> NameRange:
        return cls(low=text, high=text + _LAST)


class Moment:
    """One transaction over the rows of one agent."""

    def __init__(self, connection: Connection, agent: str) -> None:
        self._connection = connection
        self._agent = agent
        self._number: int | None = None

    def run(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        cursor = self._connection.execute(statement, {"agent": self._agent, **values})
        return cursor.fetchall() if cursor.description else []

    def revision(self) -> int:
        """The number of writes so far."""
        found = self.run(REVISION)
        return int(found[0][0]) if found else 0

    def now_us(self) -> int:
        """The server's time in microseconds since the epoch."""
        return int(self.run(NOW)[0][0])

    def named(self, names: Sequence[str]) -> dict[str, Row]:
        """The rows of those names that exist."""
        return {row[0]: Row(*row) for row in self.run(NAMED, names=list(names))}

    def bodies(self, names: Sequence[str], *, max_bytes: int) -> dict[str, tuple[Row, bytes]]:
        """The rows of those names that exist, with up to `max_bytes` of each file."""
        found = self.run(BODIES, names=list(names), most=max_bytes)
        return {row[0]: (Row(*row), bytes(body or b"")) for *row, body in found}

    def in_ranges(self, ranges: Sequence[NameRange]) -> list[list[Row]]:
        """The rows in each range, sorted by name."""
        rows: list[list[Row]] = [[] for _ in ranges]
        lows, highs = [each.low for each in ranges], [each.high for each in ranges]
        for number, *row in self.run(IN_RANGES, lows=lows, highs=highs):
            rows[number - 1].append(Row(*row))
        return rows

    def all(self) -> dict[str, Document]:
        """Every file, by name."""
        found = self.run(ALL)
        return {
            name: Document(body=bytes(body), revision=revision)
            for name, body, revision in found
            if body is not None
        }

    def document(self, name: str) -> Document | None:
        """One whole file."""
        found = self.run(BODIES, names=[name], most=2**31 - 1)
        if not found or found[0][4]:
            return None
        return Document(body=bytes(found[0][-1]), revision=found[0][1])

    def is_folder(self, name: str) -> bool:
        return self._shape(name)[0]

    def begin_writing(self) -> int:
        """Starts writing and returns the number of this write. Nobody else writes until the commit."""
        if self._number is None:
            self._number = int(self.run(COUNT)[0][0])
        return self._number

    def put(self, name: str, body: bytes | None, *, seen: int | None) -> None:
        """Replaces a file whose last write is `seen`. `seen=None` creates it, `body=None` removes it.

        Raises:
            WrittenSince: somebody else wrote the file.
            OSError: the name is a folder, or one of its parent folders is a file.
        """
        number = self.begin_writing()
        present = self.named([name]).get(name)
        if (None if present is None or present.is_folder else present.revision) != seen:
            raise WrittenSince(f"Somebody else has written {name!r} in the meantime.")
        if body is None:
            self.run(REMOVE, name=name)
            return
        if seen is None:
            is_folder, is_below_file = self._shape(name)
            if is_folder:
                raise IsADirectoryError(errno.EISDIR, "it is a folder", name)
            if is_below_file:
                raise NotADirectoryError(errno.ENOTDIR, "one of its parent folders is a file", name)
        self.run(PUT, name=name, body=body, revision=number)

    def put_folder(self, name: str) -> None:
        """Creates a folder unless the name exists."""
        if name not in self.named([name]):
            self.run(PUT, name=name, body=None, revision=self.begin_writing())

    def _shape(self, name: str) -> tuple[bool, bool]:
        above = [str(each) for each in PurePosixPath(name).parents][:-1]
        inside = NameRange.beginning(f"{name}/")
        [(is_folder, is_below_file)] = self.run(
            SHAPE, name=name, above=above, low=inside.low, high=inside.high
        )
        return bool(is_folder), bool(is_below_file)


class DocumentRows:
    """The workspace of one agent in a database."""

    def __init__(self, database: Database, agent: str) -> None:
        self._database = database
        self._agent = agent

    @property
    def place(self) -> str:
        """The database and the agent, for people."""
        return f"{self._database.place}, agent {self._agent!r}"

    async def read(self, work: Callable[[Moment], T]) -> T:
        """Returns the result of `work`, which reads a consistent snapshot.

        Raises:
            WorkspaceUnreachable: the database refused or cannot be reached.
        """
        return await self._run(self._database.read, work)

    async def single(self, work: Callable[[Moment], T]) -> T:
        """Like `read`, for `work` with a single statement."""
        return await self._run(self._database.single, work)

    async def write(self, work: Callable[[Moment], T]) -> T:
        """Commits `work` in one transaction and returns its result. `work` may be called again.

        Raises:
            FileBusy: another process has been writing for too long.
            WorkspaceUnreachable: the database refused or cannot be reached.
        """
        return await self._run(self._database.write, work)

    async def change(self, name: str, change: Callable[[bytes | None], bytes | None]) -> None:
        """Replaces a file with `change(old bytes)`, which is called again if somebody wrote in the meantime.

        Raises:
            OSError: see `Moment.put` and `write`.
            FileBusy: see `write`.
        """

        def work(rows: Moment) -> None:
            old = rows.document(name)
            body = old.body if old is not None else None
            if (new := change(body)) != body:
                rows.put(name, new, seen=old.revision if old is not None else None)

        def alone(rows: Moment) -> None:
            rows.begin_writing()
            work(rows)

        try:
            await self.write(work)
        except WrittenSince:
            await self.write(alone)

    async def files(self) -> Mapping[str, Document]:
        """A consistent snapshot of all files, by name. Raises the same errors as `read`."""
        return await self.read(Moment.all)

    async def _run(self, run: Callable[..., Any], work: Callable[[Moment], T]) -> T:
        try:
            result: T = await run(lambda connection: work(Moment(connection, self._agent)))
        except StatementRefused as error:
            if error.sqlstate == _LOCK_NOT_AVAILABLE:
                raise FileBusy(f"Another process keeps writing. {error} Try again later.") from error
            raise WorkspaceUnreachable(str(error)) from error
        except DatabaseError as error:
            raise WorkspaceUnreachable(str(error)) from error
        return result
