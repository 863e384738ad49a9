"""What reads the index. Pure SELECTs on a connection that the caller owns; nothing here writes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import get_args

from nacre.memory.contracts.records import Chunk, ChunkPlace, FailedFile, Source, SourceCount, citation
from nacre.memory.contracts.store import FileState, Scope, StoreCounts
from nacre.memory.stores.sqlite.connection import Connection

CHUNK_COLUMNS = """
SELECT chunks.id, source, path, ordinal, start_line, end_line, heading_path, day, chunks.content_hash, text
FROM chunks JOIN files ON files.id = chunks.file_id
"""
_FILE_COLUMNS = "SELECT path, content_hash, size, mtime_ns, inode, read_at_ns FROM files"

AMONG_CHUNKS = "chunks.id IN (SELECT value FROM json_each(?))"
"""Takes the ids as a JSON list: one statement for any number of them."""


def meta(connection: Connection) -> dict[str, str]:
    """All rows of `meta`."""
    return {str(key): str(value) for key, value in connection.execute("SELECT key, value FROM meta")}


def stored_file(connection: Connection, source: Source, path: str) -> tuple[FileState, list[Chunk]] | None:
    """What is stored for one file."""
    row = connection.execute(f"{_FILE_COLUMNS} WHERE source = ? AND path = ?", (source, path)).fetchone()
    if row is None:
        return None
    rows = connection.execute(
        f"{CHUNK_COLUMNS} WHERE source = ? AND path = ? ORDER BY ordinal", (source, path)
    )
    return _state_from_row(source, row), [chunk_from_row(row) for row in rows]


def file_states(connection: Connection, source: Source) -> dict[str, FileState]:
    """Every indexed file of a source, by stored path."""
    rows = connection.execute(f"{_FILE_COLUMNS} WHERE source = ?", (source,))
    return {state.path: state for state in (_state_from_row(source, row) for row in rows)}


def _state_from_row(source: Source, row: tuple[str, str, int, int, int, int]) -> FileState:
    path, digest, size, mtime_ns, inode, read_at_ns = row
    return FileState(
        source=source,
        path=path,
        content_hash=digest,
        size=size,
        mtime_ns=mtime_ns,
        inode=inode,
        read_at_ns=read_at_ns,
    )


@dataclass(frozen=True, kw_only=True)
class Narrowed:
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
    if not conditions:
        return None
    members = f"SELECT chunks.id FROM {tables} WHERE {' AND '.join(conditions)}"
    return Narrowed(members=members, arguments=tuple(arguments))


def chunks(connection: Connection, chunk_ids: Sequence[int]) -> dict[int, Chunk]:
    """Chunks by id."""
    rows = connection.execute(f"{CHUNK_COLUMNS} WHERE {AMONG_CHUNKS}", (json.dumps(list(chunk_ids)),))
    return {row[0]: chunk_from_row(row) for row in rows}


def places(connection: Connection, chunk_ids: Sequence[int]) -> dict[int, ChunkPlace]:
    """Where chunks stand. The columns come before the text in the row, so no long row is read through."""
    rows = connection.execute(
        "SELECT chunks.id, source, path, day, mtime_ns FROM chunks"
        f" JOIN files ON files.id = file_id WHERE {AMONG_CHUNKS}",
        (json.dumps(list(chunk_ids)),),
    )
    return {
        chunk_id: ChunkPlace(
            source=source,
            path=path,
            date=date.fromisoformat(day) if day else None,
            changed_at_ns=mtime_ns,
        )
        for chunk_id, source, path, day, mtime_ns in rows
    }


def texts(connection: Connection, chunk_ids: Sequence[int]) -> dict[int, str]:
    """What chunks say."""
    return dict(
        connection.execute(
            f"SELECT id, text FROM chunks WHERE {AMONG_CHUNKS}", (json.dumps(list(chunk_ids)),)
        )
    )


def failures(connection: Connection, source: Source) -> dict[str, FailedFile]:
    """Files that could not be indexed."""
    rows = connection.execute(
        "SELECT path, problem, attempts, retry_at_seconds FROM failures WHERE source = ?", (source,)
    )
    return {
        path: FailedFile(path=path, problem=problem, attempts=attempts, retry_at_seconds=retry_at)
        for path, problem, attempts, retry_at in rows
    }


def refused(connection: Connection, limit: int) -> list[str]:
    """Citations of chunks that have a text without a vector."""
    rows = connection.execute(
        "SELECT DISTINCT path, start_line, end_line FROM chunk_vectors"
        " JOIN vectors ON vectors.id = vector_id JOIN chunks ON chunks.id = chunk_id"
        " JOIN files ON files.id = file_id WHERE embedding IS NULL ORDER BY path, start_line LIMIT ?",
        (limit,),
    )
    return [citation(path, start_line, end_line) for path, start_line, end_line in rows]


def counts(connection: Connection) -> StoreCounts:
    """How much is stored."""
    rows: Mapping[Source, tuple[int, int]] = {
        source: (files, chunk_count)
        for source, files, chunk_count in connection.execute(
            "SELECT source, count(DISTINCT files.id), count(chunks.id) FROM files"
            " LEFT JOIN chunks ON chunks.file_id = files.id GROUP BY source ORDER BY source"
        )
    }
    used = connection.execute("SELECT count(DISTINCT vector_id) FROM chunk_vectors").get
    pending = connection.execute(
        "SELECT (SELECT count(*) FROM chunks) - (SELECT count(DISTINCT chunk_id) FROM chunk_vectors)"
    ).get
    size_bytes = connection.execute(
        "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
    ).get
    return StoreCounts(
        sources=tuple(
            SourceCount(source=source, files=files, chunks=chunk_count)
            for source, (files, chunk_count) in rows.items()
        ),
        vectors=used,
        cached_vectors=connection.execute("SELECT count(*) FROM vectors").get - used,
        pending_chunks=pending,
        dimensions=dimensions(connection),
        size_bytes=size_bytes,
    )


def dimensions(connection: Connection) -> int | None:
    """How many numbers the vectors of the chunks have."""
    length: int | None = connection.execute(
        "SELECT length(embedding) / 4 FROM chunk_vectors JOIN vectors ON vectors.id = vector_id"
        " WHERE embedding IS NOT NULL LIMIT 1"
    ).get
    return length


def chunk_from_row(row: tuple[int, Source, str, int, int, int, str, str | None, str, str]) -> Chunk:
    """A row of `CHUNK_COLUMNS` as a chunk."""
    _, source, path, ordinal, start_line, end_line, heading_path, day, digest, text = row
    return Chunk(
        source=source,
        path=path,
        start_line=start_line,
        end_line=end_line,
        text=text,
        heading_path=tuple(json.loads(heading_path)) if heading_path != "[]" else (),
        date=date.fromisoformat(day) if day else None,
        content_hash=digest,
        ordinal=ordinal,
    )
