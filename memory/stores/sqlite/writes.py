"""Changes of the index's rows: files with their words, vectors, failures, and metadata.

Vectors are attached to chunks, and stay as a cache when their text is removed.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, cast

from nacre.memory.contracts.embedder import VectorsDiffer
from nacre.memory.contracts.records import Chunk, FailedFile, Source
from nacre.memory.contracts.store import FileState, IndexedFile, Piece, Vector
from nacre.memory.contracts.words import FIELDS, WordFields
from nacre.memory.stores.sqlite.connection import Connection
from nacre.memory.stores.sqlite.snapshot import STATE_COLUMNS, stored_meta
from nacre.memory.vectors.identity import embedder_key, stored_identity
from nacre.memory.vectors.vector_math import NUMBER_BYTES, code_of, is_zero, to_blob

MERGE_PAGES = 1_000
"""Pages written by one step of a merge, which holds the write lock for some milliseconds."""

LONGEST_PASS_NS = 600 * 1_000_000_000
"""A file state read later than this after the present one came from a clock that was since set back. Without
this bound, such a file would not be updated until the clock has caught up."""

_INSERT_CHUNK = """
INSERT INTO chunks (id, file_id, ordinal, start_line, end_line, heading_path, day, content_hash, text)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
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
            newer = self._connection.execute(
                "SELECT 1 FROM files WHERE source = ? AND path = ? AND (read_at_ns, mtime_ns) > (?, ?)"
                " AND read_at_ns <= ?",
                (state.source, state.path, state.read_at_ns, state.mtime_ns, _latest_credible(state)),
            ).get
            if newer:
                continue
            file_id = self._connection.execute(_UPSERT_FILE, _STATE_ROW(state)).get
            new, gone = self._keep_chunks(file_id, file.chunks)
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

    def _keep_chunks(self, file_id: int, chunks: Sequence[Chunk]) -> tuple[list[int], list[int]]:
        """Keeps stored chunks that did not change; the places of new chunks, and the ids of removed ones.

        Searches find a chunk by its text, headings and day, not by its lines, which are only updated.
        """
        stored: dict[tuple[Any, ...], list[tuple[int, ...]]] = defaultdict(list)
        rows = self._connection.execute(
            "SELECT heading_path, day, content_hash, id, ordinal, start_line, end_line FROM chunks"
            " WHERE file_id = ? ORDER BY ordinal DESC",
            (file_id,),
        )
        for *key, chunk_id, ordinal, start_line, end_line in rows:
            stored[tuple(key)].append((chunk_id, ordinal, start_line, end_line))
        new: list[int] = []
        moved: list[tuple[int, ...]] = []
        for at, chunk in enumerate(chunks if stored else ()):
            day = chunk.date.isoformat() if chunk.date else None
            same = stored.get((_headings(chunk), day, chunk.content_hash))
            if not same:
                new.append(at)
                continue
            chunk_id, *place = same.pop()
            if place != [chunk.ordinal, chunk.start_line, chunk.end_line]:
                moved.append((chunk.ordinal, chunk.start_line, chunk.end_line, chunk_id))
        self._connection.executemany(
            "UPDATE chunks SET ordinal = ?, start_line = ?, end_line = ? WHERE id = ?", moved
        )
        gone = [row[0] for left in stored.values() for row in left]
        return (new if stored else [*range(len(chunks))]), gone

    def touch_files(self, states: Sequence[FileState]) -> None:
        self._connection.executemany(
            "UPDATE files SET size = ?, mtime_ns = ?, inode = ?, read_at_ns = ?"
            " WHERE source = ? AND path = ? AND content_hash = ? AND (read_at_ns <= ? OR read_at_ns > ?)",
            (
                (
                    *(state.size, state.mtime_ns, state.inode, state.read_at_ns),
                    *(
                        state.source,
                        state.path,
                        state.content_hash,
                        state.read_at_ns,
                        _latest_credible(state),
                    ),
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
        by_chunk: dict[int, list[Piece]] = defaultdict(list)
        for piece in pieces:
            by_chunk[piece.chunk_id].append(piece)
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
        identity = stored_identity(self.meta())
        is_own = not identity or embedder_key(identity) == embedder
        rows = [
            (chunk_id, piece.piece, *known[piece.text_hash], chunk_id)
            for chunk_id, parts in by_chunk.items()
            if is_own and all(piece.text_hash in known for piece in parts)
            for piece in parts
        ]
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
        _check_lengths(self._connection, embedder_id, {len(row[3]) for row in rows if row[3] is not None})
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


def _latest_credible(state: FileState) -> int:
    """The latest time at which a stored reading of the same file counts as newer than this one."""
    return state.read_at_ns + LONGEST_PASS_NS


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


def _headings(chunk: Chunk) -> str:
    return json.dumps(chunk.heading_path, ensure_ascii=False) if chunk.heading_path else "[]"


def _check_lengths(connection: Connection, embedder_id: int, found: set[int]) -> None:
    stored = connection.execute(
        "SELECT length(embedding) FROM vectors WHERE embedder_id = ? AND embedding IS NOT NULL LIMIT 1",
        (embedder_id,),
    ).get
    wanted = stored if stored is not None else min(found, default=0)
    if other := found - {wanted}:
        raise VectorsDiffer(
            f"The embedder gave vectors of {min(other) // NUMBER_BYTES} numbers, those before had "
            f"{wanted // NUMBER_BYTES}: its "
            "model is not the same any more, and no answer is used. Choose another name or "
            "memorySearch.outputDimensionality, or delete the index, to have all vectors made again."
        )


def _embedder_id(connection: Connection, name: str) -> int:
    connection.execute("INSERT OR IGNORE INTO embedders (name) VALUES (?)", (name,))
    return cast("int", connection.execute("SELECT id FROM embedders WHERE name = ?", (name,)).get)
