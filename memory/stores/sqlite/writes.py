"""What changes rows of the index. Each function is one step inside a transaction that the caller holds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import chain

from nacre.memory.contracts.records import Chunk, FailedFile, Source
from nacre.memory.contracts.store import FileState, IndexedFile
from nacre.memory.stores.sqlite.connection import Connection
from nacre.memory.text.lexical import FTS_COLUMNS

MERGE_PAGES = 1_000
"""Pages that one step of a merge writes: some milliseconds of the write lock."""

LONGEST_PASS_NS = 600 * 1_000_000_000
"""What was read later than this after a file that is stored now was read by a clock that has been set back;
without a bound such a file would not be followed until the clock has caught up."""

_INSERT_CHUNK = """
INSERT INTO chunks (id, file_id, ordinal, start_line, end_line, heading_path, day, content_hash, text)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_INSERT_FTS = f"INSERT INTO chunks_fts (rowid, {', '.join(FTS_COLUMNS)}) VALUES (?{', ?' * len(FTS_COLUMNS)})"
_UPSERT_FILE = """
INSERT INTO files (source, path, content_hash, size, mtime_ns, inode, read_at_ns) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (source, path) DO UPDATE SET content_hash = excluded.content_hash, size = excluded.size,
    mtime_ns = excluded.mtime_ns, inode = excluded.inode, read_at_ns = excluded.read_at_ns
RETURNING id
"""


def replace_files(connection: Connection, files: Sequence[IndexedFile]) -> None:
    """Puts each file's chunks in the place of what was stored for it, unless that was read later.

    The words of all files come last: any other statement in between would make the full-text index write
    down what it has gathered so far, which costs a segment, and a merge of segments, for each file.
    """
    words: dict[int, list[tuple[int | str, ...]]] = {}
    stored: list[tuple[str, str]] = []
    next_id = connection.execute(
        "SELECT coalesce(max(seq), 0) + 1 FROM sqlite_sequence WHERE name = 'chunks'"
    ).get
    for file in files:
        state = file.state
        newer = connection.execute(
            "SELECT 1 FROM files WHERE source = ? AND path = ? AND (read_at_ns, mtime_ns) > (?, ?)"
            " AND read_at_ns <= ?",
            (state.source, state.path, state.read_at_ns, state.mtime_ns, _believable(state)),
        ).get
        if newer:
            continue
        file_id = connection.execute(_UPSERT_FILE, _state_row(state)).get
        _remove_chunks(connection, file_id)
        ids = range(next_id, next_id + len(file.chunks))
        next_id = ids.stop
        connection.executemany(
            _INSERT_CHUNK,
            [_chunk_row(chunk_id, file_id, chunk) for chunk_id, chunk in zip(ids, file.chunks, strict=True)],
        )
        stored.append((state.source, state.path))
        words[file_id] = [(chunk_id, *fields) for chunk_id, fields in zip(ids, file.fields, strict=True)]
    connection.executemany("DELETE FROM failures WHERE source = ? AND path = ?", stored)
    connection.executemany(_INSERT_FTS, chain.from_iterable(words.values()))


def merge_words(connection: Connection, *, first: bool) -> bool:
    """One step of merging the full-text index, which makes queries faster; whether more is left."""
    before = connection.total_changes()
    pages = -MERGE_PAGES if first else MERGE_PAGES
    connection.execute("INSERT INTO chunks_fts (chunks_fts, rank) VALUES ('merge', ?)", (pages,))
    return connection.total_changes() - before >= 2


def touch_files(connection: Connection, states: Sequence[FileState]) -> None:
    """Stores new stat values of files whose stored content is still the one that was read."""
    connection.executemany(
        "UPDATE files SET size = ?, mtime_ns = ?, inode = ?, read_at_ns = ?"
        " WHERE source = ? AND path = ? AND content_hash = ? AND (read_at_ns <= ? OR read_at_ns > ?)",
        (
            (
                *(state.size, state.mtime_ns, state.inode, state.read_at_ns),
                *(state.source, state.path, state.content_hash, state.read_at_ns, _believable(state)),
            )
            for state in states
        ),
    )


def remove_files(connection: Connection, source: Source, paths: Sequence[str]) -> None:
    """Forgets files, their chunks and what hangs on them."""
    for path in paths:
        row = connection.execute(
            "DELETE FROM files WHERE source = ? AND path = ? RETURNING id", (source, path)
        ).get
        if row is not None:
            _remove_chunks(connection, row)
        connection.execute("DELETE FROM failures WHERE source = ? AND path = ?", (source, path))


def set_meta(connection: Connection, values: Mapping[str, str]) -> None:
    """Writes rows of `meta`."""
    connection.executemany(
        "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        values.items(),
    )


def set_failures(
    connection: Connection, source: Source, failed: Sequence[FailedFile], cleared: Sequence[str]
) -> None:
    """Records failures and forgets those of `cleared`."""
    connection.executemany(
        "DELETE FROM failures WHERE source = ? AND path = ?", ((source, path) for path in cleared)
    )
    connection.executemany(
        "INSERT OR REPLACE INTO failures (source, path, problem, attempts, retry_at_seconds)"
        " VALUES (?, ?, ?, ?, ?)",
        ((source, item.path, item.problem, item.attempts, item.retry_at_seconds) for item in failed),
    )


def _remove_chunks(connection: Connection, file_id: int) -> None:
    ids = [row[0] for row in connection.execute("SELECT id FROM chunks WHERE file_id = ?", (file_id,))]
    if not ids:
        return
    each = [(chunk_id,) for chunk_id in ids]
    connection.executemany("DELETE FROM chunk_vectors WHERE chunk_id = ?", each)
    connection.executemany("DELETE FROM chunks_fts WHERE rowid = ?", each)
    connection.execute("DELETE FROM chunks WHERE file_id = ?", (file_id,))


def _believable(state: FileState) -> int:
    """How late a reading of the same file may be stored to count as later than this one."""
    return state.read_at_ns + LONGEST_PASS_NS


def _state_row(state: FileState) -> tuple[str | int, ...]:
    return (
        state.source,
        state.path,
        state.content_hash,
        state.size,
        state.mtime_ns,
        state.inode,
        state.read_at_ns,
    )


def _chunk_row(chunk_id: int, file_id: int, chunk: Chunk) -> tuple[str | int | None, ...]:
    return (
        chunk_id,
        file_id,
        chunk.ordinal,
        chunk.start_line,
        chunk.end_line,
        json.dumps(chunk.heading_path, ensure_ascii=False) if chunk.heading_path else "[]",
        chunk.date.isoformat() if chunk.date else None,
        chunk.content_hash,
        chunk.text,
    )
