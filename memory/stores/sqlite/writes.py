"""Changes of the index's rows: files with their words, vectors, failures, and metadata.

Vectors are attached to chunks, and stay as a cache when their text is removed.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import cast

from nacre.memory.contracts.index_rules import (
    believable_ns,
    is_later,
    kept_chunks,
    pieces_of_whole_chunks,
    refuse_other_lengths,
)
from nacre.memory.contracts.records import Chunk, FailedFile, Source
from nacre.memory.contracts.store import FileState, IndexedFile, Piece, Vector
from nacre.memory.contracts.words import FIELDS, WordFields
from nacre.memory.stores.sqlite.connection import Connection
from nacre.memory.stores.sqlite.snapshot import STATE_COLUMNS, stored_meta
from nacre.memory.vectors.identity import is_index_of
from nacre.memory.vectors.vector_math import NUMBER_BYTES, code_of, is_zero, to_blob

MERGE_PAGES = 1_000
"""Pages written by one step of a merge, which holds the write lock for some milliseconds."""

_INSERT_CHUNK = """
INSERT INTO chunks (id, file_id, ordinal, start_line, end_line, heading_path, day, content_hash, text)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_MOVE_CHUNK = "UPDATE chunks SET ordinal = ?, start_line = ?, end_line = ? WHERE id = ?"
_READ_AT = "SELECT read_at_ns, mtime_ns FROM files WHERE source = ? AND path = ?"
_INSERT_FTS = f"INSERT INTO chunks_fts (rowid, {', '.join(FIELDS)}) VALUES (?{', ?' * len(FIELDS)})"
_STATE_ROW = attrgetter("source", *STATE_COLUMNS)
_UPSERT_FILE = f"""
INSERT INTO files (source, {", ".join(STATE_COLUMNS)}) VALUES (?{", ?" * len(STATE_COLUMNS)})
ON CONFLICT (source, path) DO UPDATE SET content_hash = excluded.content_hash, size = excluded.size,
    mtime_ns = excluded.mtime_ns, inode = excluded.inode, read_at_ns = excluded.read_at_ns
RETURNING id
"""


class SqliteWriter:
    """`Writer`, whose methods are documented there. The caller holds the transaction and the lock."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def meta(self) -> Mapping[str, str]:
        return stored_meta(self._connection)

    def set_meta(self, values: Mapping[str, str]) -> None:
        self._connection.executemany(
            "INSERT INTO meta (key, value) VALUES (?, ?)"
            " ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            values.items(),
        )

    def replace_files(self, files: Sequence[IndexedFile]) -> None:
        # The words of all files come last: another statement in between would make the full-text index
        # write its buffer, which costs a segment, and later a merge, for each file.
        words: dict[int, WordFields] = {}
        stored: list[tuple[str, str]] = []
        next_id = self._connection.execute(
            "SELECT coalesce(max(seq), 0) + 1 FROM sqlite_sequence WHERE name = 'chunks'"
        ).get
        for file in files:
            state = file.state
            stored_at = self._connection.execute(_READ_AT, (state.source, state.path)).fetchone()
            if is_later(stored_at, state):
                continue
            file_id = self._connection.execute(_UPSERT_FILE, _STATE_ROW(state)).get
            new, moved, gone = kept_chunks(file.chunks, self._stored_chunks(file_id), _key)
            self._connection.executemany(_MOVE_CHUNK, map(_moved_row, moved))
            _remove_chunks(self._connection, gone)
            for chunk_id in gone:
                words.pop(chunk_id, None)
            ids = range(next_id, next_id + len(new))
            next_id = ids.stop
            added = [*zip(ids, new, strict=True)]
            self._connection.executemany(
                _INSERT_CHUNK, [_chunk_row(chunk_id, file_id, file.chunks[at]) for chunk_id, at in added]
            )
            stored.append((state.source, state.path))
            words.update((chunk_id, file.fields[at]) for chunk_id, at in added)
        self._connection.executemany("DELETE FROM failures WHERE source = ? AND path = ?", stored)
        self._connection.executemany(_INSERT_FTS, ((chunk_id, *fields) for chunk_id, fields in words.items()))

    def _stored_chunks(self, file_id: int) -> Iterator[tuple[Hashable, int, int, int, int]]:
        rows = self._connection.execute(
            "SELECT heading_path, day, content_hash, id, ordinal, start_line, end_line FROM chunks"
            " WHERE file_id = ? ORDER BY ordinal DESC",
            (file_id,),
        )
        for headings, day, digest, chunk_id, ordinal, start_line, end_line in rows:
            yield (headings, day, digest), chunk_id, ordinal, start_line, end_line

    def touch_files(self, states: Sequence[FileState]) -> None:
        self._connection.executemany(
            "UPDATE files SET size = ?, mtime_ns = ?, inode = ?, read_at_ns = ?"
            " WHERE source = ? AND path = ? AND content_hash = ? AND (read_at_ns <= ? OR read_at_ns > ?)",
            (
                (
                    *(state.size, state.mtime_ns, state.inode, state.read_at_ns),
                    *(state.source, state.path, state.content_hash, state.read_at_ns, believable_ns(state)),
                )
                for state in states
            ),
        )

    def remove_files(self, source: Source, paths: Sequence[str]) -> None:
        for path in paths:
            file_id = self._connection.execute(
                "DELETE FROM files WHERE source = ? AND path = ? RETURNING id", (source, path)
            ).get
            if file_id is not None:
                ids = self._connection.execute("SELECT id FROM chunks WHERE file_id = ?", (file_id,))
                _remove_chunks(self._connection, [row[0] for row in ids])
            self._connection.execute("DELETE FROM failures WHERE source = ? AND path = ?", (source, path))

    def set_failures(self, source: Source, failed: Sequence[FailedFile], cleared: Sequence[str]) -> None:
        self._connection.executemany(
            "DELETE FROM failures WHERE source = ? AND path = ?", ((source, path) for path in cleared)
        )
        self._connection.executemany(
            "INSERT OR REPLACE INTO failures (source, path, problem, attempts, retry_at_seconds)"
            " VALUES (?, ?, ?, ?, ?)",
            ((source, item.path, item.problem, item.attempts, item.retry_at_seconds) for item in failed),
        )

    def attach_known(self, embedder: str, pieces: Sequence[Piece], *, now_seconds: int) -> set[bytes]:
        """Attaches vectors to a chunk if all its pieces have one.

        If another process or a fallback has given the index another embedder in the meantime, nothing is
        attached, because vectors of two embedders must not be mixed.
        """
        embedder_id = _embedder_id(self._connection, embedder)
        known: dict[bytes, tuple[int, bytes | None]] = {}
        unknown: set[bytes] = set()
        for text_hash in {piece.text_hash for piece in pieces}:
            row = self._connection.execute(
                "UPDATE vectors SET used_at = ? WHERE embedder_id = ? AND text_hash = ?"
                " RETURNING id, embedding",
                (now_seconds, embedder_id, text_hash),
            ).fetchone()
            if row is None:
                unknown.add(text_hash)
            else:
                known[text_hash] = (int(row[0]), None if row[1] is None else code_of(row[1]))
        whole = pieces_of_whole_chunks(pieces, known) if is_index_of(self.meta(), embedder) else []
        rows = [(piece.chunk_id, piece.piece, *known[piece.text_hash], piece.chunk_id) for piece in whole]
        self._connection.executemany(
            "INSERT OR IGNORE INTO chunk_vectors (chunk_id, piece, vector_id, code)"
            " SELECT ?, ?, ?, ? WHERE EXISTS (SELECT 1 FROM chunks WHERE id = ?)",
            rows,
        )
        return unknown

    def put_vectors(self, embedder: str, vectors: Mapping[bytes, Vector | None], *, now_seconds: int) -> None:
        # A zero vector is stored as refused, because nothing can be near it. Stored vectors stay, because
        # chunks refer to their rows, which a replacement would delete.
        embedder_id = _embedder_id(self._connection, embedder)
        rows = []
        for text_hash, vector in vectors.items():
            blob = None if vector is None else to_blob(vector)
            rows.append(
                (embedder_id, text_hash, now_seconds, None if blob is None or is_zero(blob) else blob)
            )
        lengths = {len(row[3]) // NUMBER_BYTES for row in rows if row[3] is not None}
        refuse_other_lengths(lengths, stored=_stored_length(self._connection, embedder_id))
        self._connection.executemany(
            # `sentences` is not filled any more; an empty row stays out of that column's index.
            "INSERT INTO vectors (embedder_id, text_hash, used_at, embedding, sentences)"
            " VALUES (?, ?, ?, ?, x'')"
            " ON CONFLICT (embedder_id, text_hash) DO UPDATE SET used_at = excluded.used_at",
            rows,
        )

    def detach_vectors(self) -> None:
        self._connection.execute("DELETE FROM chunk_vectors")

    def evict(self, *, keep_unused: int | None) -> int:
        # finding unused ones takes thirty times as long as counting all
        if keep_unused is None or self._vector_count() <= keep_unused:
            return 0
        self._connection.execute(
            "DELETE FROM vectors WHERE id IN (SELECT id FROM vectors WHERE NOT EXISTS"
            " (SELECT 1 FROM chunk_vectors WHERE vector_id = vectors.id)"
            " ORDER BY used_at DESC, id DESC LIMIT -1 OFFSET ?)",
            (keep_unused,),
        )
        return self._connection.changes()

    def _vector_count(self) -> int:
        [(count,)] = self._connection.execute("SELECT count(*) FROM vectors")
        return int(count)


def merge_words(connection: Connection, *, first: bool) -> bool:
    """Runs one step of merging the full-text index, which speeds up queries; whether more remains."""
    before = connection.total_changes()
    pages = -MERGE_PAGES if first else MERGE_PAGES
    connection.execute("INSERT INTO chunks_fts (chunks_fts, rank) VALUES ('merge', ?)", (pages,))
    return connection.total_changes() - before >= 2


def _remove_chunks(connection: Connection, ids: Sequence[int]) -> None:
    each = [(chunk_id,) for chunk_id in ids]
    connection.executemany("DELETE FROM chunk_vectors WHERE chunk_id = ?", each)
    connection.executemany("DELETE FROM chunks_fts WHERE rowid = ?", each)
    connection.executemany("DELETE FROM chunks WHERE id = ?", each)


def _chunk_row(chunk_id: int, file_id: int, chunk: Chunk) -> tuple[str | int | None, ...]:
    return (
        chunk_id,
        file_id,
        chunk.ordinal,
        chunk.start_line,
        chunk.end_line,
        _headings(chunk),
        chunk.date.isoformat() if chunk.date else None,
        chunk.content_hash,
        chunk.text,
    )


def _key(chunk: Chunk) -> Hashable:
    return _headings(chunk), chunk.date.isoformat() if chunk.date else None, chunk.content_hash


def _moved_row(moved: tuple[int, Chunk]) -> tuple[int, ...]:
    chunk_id, chunk = moved
    return chunk.ordinal, chunk.start_line, chunk.end_line, chunk_id


def _headings(chunk: Chunk) -> str:
    return json.dumps(chunk.heading_path, ensure_ascii=False) if chunk.heading_path else "[]"


def _stored_length(connection: Connection, embedder_id: int) -> int | None:
    size_bytes = connection.execute(
        "SELECT length(embedding) FROM vectors WHERE embedder_id = ? AND embedding IS NOT NULL LIMIT 1",
        (embedder_id,),
    ).get
    return None if size_bytes is None else size_bytes // NUMBER_BYTES


def _embedder_id(connection: Connection, name: str) -> int:
    connection.execute("INSERT OR IGNORE INTO embedders (name) VALUES (?)", (name,))
    return cast("int", connection.execute("SELECT id FROM embedders WHERE name = ?", (name,)).get)
