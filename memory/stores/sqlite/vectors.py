"""Vectors in the index: attached to chunks, and kept as a cache when their text is gone.

Writes are steps inside a transaction that the caller holds. `sqlite_nearest` searches what this stores.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import cast

from nacre.memory.contracts.embedder import VectorsDiffer
from nacre.memory.contracts.records import Chunk
from nacre.memory.contracts.store import Piece, Vector
from nacre.memory.stores.sqlite.connection import Connection
from nacre.memory.stores.sqlite.reads import CHUNK_COLUMNS, chunk_from_row
from nacre.memory.vectors.identity import embedder_key, stored_identity
from nacre.memory.vectors.vector_math import code_of, is_zero, to_blob


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
    """Attaches stored vectors to chunks of which every piece has one; returns the hashes without one.

    Another process, or a fallback, may have made the index another embedder's since the caller looked: then
    nothing is attached, because vectors of two embedders must not be mixed.
    """
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
    is_own = _index_embedder(connection) in (None, embedder)
    rows = [
        (chunk_id, piece.piece, *known[piece.text_hash], chunk_id)
        for chunk_id, parts in by_chunk.items()
        if is_own and all(piece.text_hash in known for piece in parts)
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
    """Stores vectors by text hash; a zero vector is stored as refused, for nothing can be near it.

    What is stored for a text already stays: chunks point to its row, which a replacement would delete.

    Raises:
        VectorsDiffer: they are not as long as those stored for this embedder.
    """
    embedder_id = _embedder_id(connection, embedder)
    rows = []
    for text_hash, vector in vectors.items():
        blob = None if vector is None else to_blob(vector)
        rows.append((embedder_id, text_hash, now_seconds, None if blob is None or is_zero(blob) else blob))
    _check_lengths(connection, embedder_id, {len(row[3]) for row in rows if row[3] is not None})
    connection.executemany(
        "INSERT INTO vectors (embedder_id, text_hash, used_at, embedding) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (embedder_id, text_hash) DO UPDATE SET used_at = excluded.used_at",
        rows,
    )


def _index_embedder(connection: Connection) -> str | None:
    """The name of the embedder whose vectors the index has; `None` for an index that is not marked yet."""
    rows = connection.execute("SELECT key, value FROM meta WHERE key GLOB 'identity.*'")
    identity = stored_identity(dict(cast("list[tuple[str, str]]", rows.fetchall())))
    return embedder_key(identity) if identity else None


def _check_lengths(connection: Connection, embedder_id: int, found: set[int]) -> None:
    stored = connection.execute(
        "SELECT length(embedding) FROM vectors WHERE embedder_id = ? AND embedding IS NOT NULL LIMIT 1",
        (embedder_id,),
    ).get
    wanted = stored if stored is not None else min(found, default=0)
    if other := found - {wanted}:
        raise VectorsDiffer(
            f"The embedder gave vectors of {min(other) // 4} numbers, those before had {wanted // 4}: its "
            "model is not the same any more, and no answer is used. Choose another name or "
            "memorySearch.outputDimensionality, or delete the index, to have all vectors made again."
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
