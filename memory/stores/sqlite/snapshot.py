"""`Snapshot` over one SQLite connection: a read transaction, and the caches of one reader.

Everything runs on the thread that owns the connection. Nothing here writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TypeVar

from nacre.memory.contracts.records import (
    Chunk,
    ChunkPlace,
    FailedFile,
    Source,
    SourceCount,
    VectorEngine,
    citation,
)
from nacre.memory.contracts.store import FileState, Scope, Scores, Snapshot, StoreCounts, Vector
from nacre.memory.contracts.words import Atom, MatchQuery
from nacre.memory.stores.sqlite.connection import Connection, ConnectionThread, one_moment, open_connection
from nacre.memory.stores.sqlite.nearest import VectorReader
from nacre.memory.stores.sqlite.words import WordReader
from nacre.memory.vectors.vector_math import NUMBER_BYTES

T = TypeVar("T")

_CHUNK_COLUMNS = """
SELECT chunks.id, source, path, ordinal, start_line, end_line, heading_path, day, chunks.content_hash, text
FROM chunks JOIN files ON files.id = chunks.file_id
"""
STATE_COLUMNS = ("path", "content_hash", "size", "mtime_ns", "inode", "read_at_ns")
"""The columns of a `FileState`, in order."""

_FILE_COLUMNS = f"SELECT {', '.join(STATE_COLUMNS)} FROM files"

_AMONG_CHUNKS = "chunks.id IN (SELECT value FROM json_each(?))"
"""Takes the ids as a JSON list, so that one statement serves any number of them."""


class SnapshotThread:
    """A reader thread; each call sees one state of the index.

    `prepare_vectors` loads the vector functions into a connection before they are needed.
    `load_after_seconds` after the first vector query, when a one-shot command has ended, it reads the vectors
    into memory so that no later query waits for that.
    """

    def __init__(
        self,
        name: str,
        path: Path,
        prepare_vectors: Callable[[Connection], VectorEngine],
        *,
        load_after_seconds: float = 1.0,
    ) -> None:
        self._thread = ConnectionThread(name, lambda: open_connection(path, read_only=True))
        self._words = WordReader()
        self._vectors = VectorReader(prepare_vectors)
        self._load_after_seconds = load_after_seconds
        self._loads = False

    async def run(self, work: Callable[[Snapshot], T]) -> T:
        """Calls `work` with a snapshot and returns the result. Raises the errors of
        `ConnectionThread.run`."""

        def call(connection: Connection) -> T:
            with one_moment(connection):
                return work(SqliteSnapshot(connection, self._words, self._vectors))

        found = await self._thread.run(call)
        if self._vectors.questions == 1 and not self._loads:
            self._loads = True
            self._thread.later(self._load_after_seconds, self._load)
        return found

    async def close(self) -> None:
        """Waits for pending calls, then ends the thread."""
        await self._thread.close()
        self._vectors.close()

    def _load(self, connection: Connection) -> None:
        with one_moment(connection):
            if self._vectors.questions == 1 and (numbers := _dimensions(connection)):
                self._vectors.load(connection, numbers)


class SqliteSnapshot:
    """`Snapshot`, whose methods are documented there. The caller holds the read transaction."""

    def __init__(self, connection: Connection, words: WordReader, vectors: VectorReader) -> None:
        self._connection = connection
        self._words = words
        self._vectors = vectors

    def meta(self) -> Mapping[str, str]:
        return stored_meta(self._connection)

    def stored_file(self, source: Source, path: str) -> tuple[FileState, Sequence[Chunk]] | None:
        among = "WHERE source = ? AND path = ?"
        row = self._connection.execute(f"{_FILE_COLUMNS} {among}", (source, path)).fetchone()
        if row is None:
            return None
        rows = self._connection.execute(f"{_CHUNK_COLUMNS} {among} ORDER BY ordinal", (source, path))
        return FileState(source, *row), [_chunk_from_row(row) for row in rows]

    def file_states(self, source: Source) -> Mapping[str, FileState]:
        rows = self._connection.execute(f"{_FILE_COLUMNS} WHERE source = ?", (source,))
        return {state.path: state for state in (FileState(source, *row) for row in rows)}

    def failures(self, source: Source) -> Mapping[str, FailedFile]:
        rows = self._connection.execute(
            "SELECT path, problem, attempts, retry_at_seconds FROM failures WHERE source = ?", (source,)
        )
        return {
            path: FailedFile(path=path, problem=problem, attempts=attempts, retry_at_seconds=retry_at)
            for path, problem, attempts, retry_at in rows
        }

    def without_vectors(self, *, above_id: int, limit: int) -> Sequence[tuple[int, Chunk]]:
        rows = self._connection.execute(
            f"{_CHUNK_COLUMNS} WHERE chunks.id > ? AND NOT EXISTS"
            " (SELECT 1 FROM chunk_vectors WHERE chunk_id = chunks.id) ORDER BY chunks.id LIMIT ?",
            (above_id, limit),
        )
        return [(row[0], _chunk_from_row(row)) for row in rows]

    def refused(self, *, limit: int) -> Sequence[str]:
        rows = self._connection.execute(
            "SELECT DISTINCT path, start_line, end_line FROM chunk_vectors"
            " JOIN vectors ON vectors.id = vector_id JOIN chunks ON chunks.id = chunk_id"
            " JOIN files ON files.id = file_id WHERE embedding IS NULL ORDER BY path, start_line LIMIT ?",
            (limit,),
        )
        return [citation(path, start_line, end_line) for path, start_line, end_line in rows]

    def counts(self) -> StoreCounts:
        rows = self._connection.execute(
            "SELECT source, count(DISTINCT files.id), count(chunks.id) FROM files"
            " LEFT JOIN chunks ON chunks.file_id = files.id GROUP BY source ORDER BY source"
        )
        sources = tuple(
            SourceCount(source=source, files=files, chunks=chunks) for source, files, chunks in rows
        )
        used, stored, pending, pages, page_bytes = self._connection.execute(
            "SELECT (SELECT count(DISTINCT vector_id) FROM chunk_vectors), (SELECT count(*) FROM vectors),"
            " (SELECT count(*) FROM chunks) - (SELECT count(DISTINCT chunk_id) FROM chunk_vectors),"
            " page_count, page_size FROM pragma_page_count, pragma_page_size"
        ).get
        return StoreCounts(
            sources=sources,
            vectors=used,
            cached_vectors=stored - used,
            pending_chunks=pending,
            dimensions=self.dimensions(),
            size_bytes=pages * page_bytes,
        )

    def vector_engine(self) -> VectorEngine:
        return self._vectors.described_engine(self._connection, self.dimensions() or 0)

    def chunk_count(self) -> int:
        return self._words.count(self._connection)

    def dimensions(self) -> int | None:
        return _dimensions(self._connection)

    def lexical(self, query: MatchQuery, *, limit: int, scope: Scope) -> Scores:
        return self._words.lexical(self._connection, query, limit, scope)

    def is_known(self, atom: Atom) -> bool:
        return self._words.is_known(self._connection, atom)

    def counts_of(self, atoms: Sequence[Atom]) -> Sequence[int]:
        return self._words.counts_of(self._connection, atoms)

    def begin_nearest(self, vector: Vector, *, limit: int, scope: Scope) -> Callable[[], Scores]:
        return self._vectors.begin_nearest(self._connection, vector, limit, scope)

    def cosines(self, vector: Vector, chunk_ids: Sequence[int]) -> Scores:
        return self._vectors.cosines(self._connection, vector, chunk_ids)

    def places(self, chunk_ids: Sequence[int]) -> Mapping[int, ChunkPlace]:
        # These columns precede the text in a row, so long rows are not read.
        rows = self._connection.execute(
            "SELECT chunks.id, source, path, day, mtime_ns FROM chunks"
            f" JOIN files ON files.id = file_id WHERE {_AMONG_CHUNKS}",
            (json.dumps([*chunk_ids]),),
        )
        return {
            chunk_id: ChunkPlace(source=source, path=path, date=_day(day), changed_at_ns=mtime_ns)
            for chunk_id, source, path, day, mtime_ns in rows
        }

    def texts(self, chunk_ids: Sequence[int]) -> Mapping[int, str]:
        rows = self._connection.execute(
            f"SELECT id, text FROM chunks WHERE {_AMONG_CHUNKS}", (json.dumps([*chunk_ids]),)
        )
        return dict(rows)

    def sampled_texts(self, count: int) -> Sequence[str]:
        """The chunks above ids at even distances, each by one lookup."""
        first, last = next(self._connection.execute("SELECT min(id), max(id) FROM chunks"))
        if first is None:
            return ()
        looks = sorted({first + (last + 1 - first) * step // count for step in range(count)})
        query = "SELECT id, text FROM chunks WHERE id >= ? ORDER BY id LIMIT 1"
        found = dict(row for look in looks for row in self._connection.execute(query, (look,)))
        return tuple(found.values())

    def chunks(self, chunk_ids: Sequence[int]) -> Mapping[int, Chunk]:
        rows = self._connection.execute(
            f"{_CHUNK_COLUMNS} WHERE {_AMONG_CHUNKS}", (json.dumps([*chunk_ids]),)
        )
        return {row[0]: _chunk_from_row(row) for row in rows}


def stored_meta(connection: Connection) -> dict[str, str]:
    return {str(key): str(value) for key, value in connection.execute("SELECT key, value FROM meta")}


def _dimensions(connection: Connection) -> int | None:
    length: int | None = connection.execute(
        f"SELECT length(embedding) / {NUMBER_BYTES} FROM chunk_vectors"
        " JOIN vectors ON vectors.id = vector_id WHERE embedding IS NOT NULL LIMIT 1"
    ).get
    return length


def _chunk_from_row(row: tuple[int, Source, str, int, int, int, str, str | None, str, str]) -> Chunk:
    _, source, path, ordinal, start_line, end_line, heading_path, day, digest, text = row
    return Chunk(
        source=source,
        path=path,
        start_line=start_line,
        end_line=end_line,
        text=text,
        heading_path=tuple(json.loads(heading_path)) if heading_path != "[]" else (),
        date=_day(day),
        content_hash=digest,
        ordinal=ordinal,
    )


def _day(text: str | None) -> date | None:
    return date.fromisoformat(text) if text else None
