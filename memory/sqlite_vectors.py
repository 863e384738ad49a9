"""Vectors in the index: attached to chunks, kept as a cache, found by a coarse pass and scored exactly.

Writes are steps inside a transaction that the caller holds. `VectorReader` lives on one reader thread and
keeps the sign codes in memory; it follows what others write by the rows' rising ids.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import cast

from nacre.memory.records import Chunk
from nacre.memory.sqlite_connection import Connection
from nacre.memory.sqlite_reads import CHUNK_COLUMNS, chunk_from_row, scope_condition
from nacre.memory.store import Piece, Scope, Scored, Vector
from nacre.memory.vector_math import CodeTable, code_of, is_zero, to_blob

EXACT_UP_TO = 1_500
"""With no more vectors than this, each one is compared exactly: the coarse pass would not be faster."""

_LOAD_ROWS = 8_192


def without_vectors(connection: Connection, above_id: int, limit: int) -> list[tuple[int, Chunk]]:
    """The next chunks, by id, that have no vectors attached."""
    rows = connection.execute(
        f"{CHUNK_COLUMNS} WHERE chunks.id > ? AND NOT EXISTS"
        " (SELECT 1 FROM chunk_vectors WHERE chunk_id = chunks.id) ORDER BY chunks.id LIMIT ?",
        (above_id, limit),
    )
    return [(row[0], chunk_from_row(row)) for row in rows]


def attach_known(
    connection: Connection, embedder: str, pieces: Sequence[Piece], now_seconds: int
) -> set[bytes]:
    """Attaches stored vectors to chunks of which every piece has one; returns the hashes without one."""
    by_chunk: dict[int, list[Piece]] = defaultdict(list)
    for piece in pieces:
        by_chunk[piece.chunk_id].append(piece)
    embedder_id = _embedder_id(connection, embedder)
    known: dict[bytes, tuple[int, bytes | None]] = {}
    unknown: set[bytes] = set()
    for text_hash in {piece.text_hash for piece in pieces}:
        row = connection.execute(
            "UPDATE vectors SET used_at = ? WHERE embedder_id = ? AND text_hash = ? RETURNING id, embedding",
            (now_seconds, embedder_id, text_hash),
        ).fetchone()
        if row is None:
            unknown.add(text_hash)
        else:
            known[text_hash] = (int(row[0]), None if row[1] is None else code_of(row[1]))
    rows = [
        (chunk_id, piece.piece, *known[piece.text_hash], chunk_id)
        for chunk_id, parts in by_chunk.items()
        if all(piece.text_hash in known for piece in parts)
        for piece in parts
    ]
    connection.executemany(
        "INSERT OR IGNORE INTO chunk_vectors (chunk_id, piece, vector_id, code)"
        " SELECT ?, ?, ?, ? WHERE EXISTS (SELECT 1 FROM chunks WHERE id = ?)",
        rows,
    )
    return unknown


def put_vectors(
    connection: Connection, embedder: str, vectors: Mapping[bytes, Vector | None], now_seconds: int
) -> None:
    """Stores vectors by text hash; a zero vector is stored as refused, for nothing can be near it."""
    embedder_id = _embedder_id(connection, embedder)
    rows = []
    for text_hash, vector in vectors.items():
        blob = None if vector is None else to_blob(vector)
        rows.append((embedder_id, text_hash, now_seconds, None if blob is None or is_zero(blob) else blob))
    connection.executemany(
        "INSERT OR REPLACE INTO vectors (embedder_id, text_hash, used_at, embedding) VALUES (?, ?, ?, ?)",
        rows,
    )


def _embedder_id(connection: Connection, name: str) -> int:
    connection.execute("INSERT OR IGNORE INTO embedders (name) VALUES (?)", (name,))
    return cast("int", connection.execute("SELECT id FROM embedders WHERE name = ?", (name,)).get)


def detach_vectors(connection: Connection) -> None:
    """No chunk has a vector any more."""
    connection.execute("DELETE FROM chunk_vectors")


def evict(connection: Connection, keep_unused: int | None) -> int:
    """Deletes vectors that no chunk uses, the longest unused first, down to `keep_unused`."""
    if keep_unused is None:
        return 0
    connection.execute(
        "DELETE FROM vectors WHERE id IN (SELECT id FROM vectors WHERE NOT EXISTS"
        " (SELECT 1 FROM chunk_vectors WHERE vector_id = vectors.id)"
        " ORDER BY used_at DESC, id DESC LIMIT -1 OFFSET ?)",
        (keep_unused,),
    )
    return connection.changes()


class VectorReader:
    """Nearest chunks, over one reader connection. Not to be shared between threads."""

    def __init__(self, *, exact_up_to: int = EXACT_UP_TO) -> None:
        self._exact_up_to = exact_up_to
        self._table = CodeTable(0)
        self._last_row = 0
        self._data_version = -1

    def nearest(self, connection: Connection, vector: Vector, limit: int, scope: Scope) -> list[Scored]:
        """The chunks whose best piece has the highest cosine, best first."""
        blob = to_blob(vector)
        if is_zero(blob):
            return []
        where, arguments = scope_condition(connection, scope)
        code = code_of(blob)
        if self._table.code_bytes != len(code):
            self._reset(len(code))
        self._follow(connection)
        if len(self._table) <= self._exact_up_to:
            condition = f"WHERE chunk_id IN ({where})" if where else ""
            return _best_pieces(_distances(connection, blob, condition, arguments), limit)
        allowed = None
        if where:
            allowed = {row[0] for row in connection.execute(where, arguments)}
        wanted = candidates_for(len(vector), limit)
        scores, rows = self._score(connection, blob, wanted, allowed)
        if len(scores) < rows * 3 // 4:
            # Many of the codes in memory belong to rows that are gone.
            self._reset(len(code))
            self._follow(connection)
            scores, _ = self._score(connection, blob, wanted, allowed)
        return _best_pieces(scores, limit)

    def _score(
        self, connection: Connection, blob: bytes, wanted: int, allowed: set[int] | None
    ) -> tuple[list[tuple[int, float]], int]:
        rows = sorted(self._table.nearest(code_of(blob), wanted, chunk_ids=allowed))
        condition = "WHERE chunk_vectors.id IN (SELECT value FROM json_each(?))"
        return _distances(connection, blob, condition, (json.dumps(rows),)), len(rows)

    def _follow(self, connection: Connection) -> None:
        """Adds the codes that were written since the last time."""
        version = connection.pragma("data_version")
        if version == self._data_version:
            return
        while rows := connection.execute(
            "SELECT id, chunk_id, code FROM chunk_vectors"
            " WHERE id > ? AND code IS NOT NULL ORDER BY id LIMIT ?",
            (self._last_row, _LOAD_ROWS),
        ).fetchall():
            self._table.add(rows)
            self._last_row = cast("int", rows[-1][0])
        self._data_version = version

    def _reset(self, code_bytes: int) -> None:
        self._table, self._last_row, self._data_version = CodeTable(code_bytes), 0, -1


def cosines(connection: Connection, vector: Vector, chunk_ids: Sequence[int]) -> dict[int, float]:
    """The exact cosine of each chunk's best piece."""
    blob = to_blob(vector)
    if is_zero(blob):
        return {}
    condition = "WHERE chunk_id IN (SELECT value FROM json_each(?))"
    scored = _best_pieces(_distances(connection, blob, condition, (json.dumps(list(chunk_ids)),)), None)
    return {item.chunk_id: item.score for item in scored}


def candidates_for(dimensions: int, limit: int) -> int:
    """How many coarse candidates are scored exactly: the fewer bits a code has, the more."""
    return max(2 * limit, 200 if dimensions >= 1024 else 300 if dimensions >= 384 else 600)


def _distances(
    connection: Connection, blob: bytes, condition: str, arguments: Sequence[str]
) -> list[tuple[int, float]]:
    rows = connection.execute(
        "SELECT chunk_id, CASE WHEN length(embedding) = ? THEN 1 - vec_distance_cosine(embedding, ?) END"
        f" FROM chunk_vectors JOIN vectors ON vectors.id = vector_id {condition}",
        (len(blob), blob, *arguments),
    )
    return [(chunk_id, cosine) for chunk_id, cosine in rows if cosine is not None]


def _best_pieces(scores: Sequence[tuple[int, float]], limit: int | None) -> list[Scored]:
    best: dict[int, float] = {}
    for chunk_id, cosine in scores:
        if cosine > best.get(chunk_id, -2.0):
            best[chunk_id] = cosine
    ranked = sorted(best.items(), key=itemgetter(1), reverse=True)[:limit]
    return [Scored(chunk_id=chunk_id, score=cosine) for chunk_id, cosine in ranked]
