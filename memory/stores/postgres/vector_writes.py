"""What changes vectors: they are stored by their text, attached to chunks, and kept when the text is gone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from nacre.memory.contracts.embedder import VectorsDiffer
from nacre.memory.contracts.store import Piece, Vector
from nacre.memory.stores.postgres.reading.moment import Moment
from nacre.memory.stores.postgres.reading.nearest import code_text, vector_text
from nacre.memory.vectors.identity import embedder_key, stored_identity
from nacre.memory.vectors.vector_math import is_zero, question, question_code

_EMBEDDER = "SELECT id FROM memory_embedders WHERE agent = %(agent)s AND name = %(name)s"
_ADD_EMBEDDER = """
INSERT INTO memory_embedders (agent, name, id) SELECT %(agent)s, %(name)s, coalesce(max(id), 0) + 1
FROM memory_embedders WHERE agent = %(agent)s RETURNING id
"""
_KNOWN = """
SELECT text_hash, id FROM memory_vectors
WHERE agent = %(agent)s AND embedder_id = %(embedder_id)s AND text_hash = ANY(%(hashes)s)
"""
# A change writes the whole vector again, so what is not news is not written.
_USE = """
UPDATE memory_vectors SET used_at = %(now_seconds)s
WHERE agent = %(agent)s AND id = ANY(%(ids)s) AND used_at < %(now_seconds)s
"""
_ATTACH = """
INSERT INTO memory_chunk_vectors (agent, build, chunk_id, piece, vector_id, code)
SELECT %(agent)s, %(build)s, given.chunk_id, given.piece, vectors.id, vectors.code
FROM unnest(%(chunk_ids)s::bigint[], %(pieces)s::integer[], %(vector_ids)s::bigint[])
    AS given (chunk_id, piece, vector_id)
CROSS JOIN LATERAL (
    SELECT id, code FROM memory_vectors WHERE agent = %(agent)s AND id = given.vector_id OFFSET 0
) AS vectors
WHERE (SELECT EXISTS (
    SELECT 1 FROM memory_chunks WHERE agent = %(agent)s AND build = %(build)s AND id = given.chunk_id
))
ON CONFLICT DO NOTHING
"""
_LENGTH = """
SELECT vector_dims(embedding) FROM memory_vectors
WHERE agent = %(agent)s AND embedder_id = %(embedder_id)s AND embedding IS NOT NULL LIMIT 1
"""
_NEXT_IDS = """
UPDATE memory_indexes SET next_vector = next_vector + %(count)s WHERE agent = %(agent)s
RETURNING next_vector - %(count)s
"""
_PUT = """
INSERT INTO memory_vectors (agent, id, embedder_id, text_hash, used_at, embedding, code)
VALUES (%(agent)s, %(id)s, %(embedder_id)s, %(text_hash)s, %(now_seconds)s, %(embedding)s::vector,
    %(code)s::varbit)
ON CONFLICT (agent, embedder_id, text_hash) DO UPDATE SET used_at = excluded.used_at
WHERE memory_vectors.used_at < excluded.used_at
"""
_EVICT = """
DELETE FROM memory_vectors WHERE agent = %(agent)s AND id IN (
    SELECT id FROM memory_vectors AS vectors WHERE vectors.agent = %(agent)s AND NOT EXISTS (
        SELECT 1 FROM memory_chunk_vectors AS attached
        WHERE attached.agent = %(agent)s AND attached.vector_id = vectors.id
    ) ORDER BY used_at DESC, id DESC OFFSET %(keep_unused)s
)
"""


def attach_known(
    moment: Moment, meta: Mapping[str, str], embedder: str, pieces: Sequence[Piece], *, now_seconds: int
) -> set[bytes]:
    """A chunk gets its vectors when every piece has one; the hashes of the texts without.

    Another process, or a fallback, may have made the index another embedder's since the caller looked: then
    nothing is attached, because vectors of two embedders must not be mixed.
    """
    hashes = {piece.text_hash for piece in pieces}
    stored = moment.rows(_KNOWN, embedder_id=_embedder_id(moment, embedder), hashes=sorted(hashes))
    known: dict[bytes, int] = {bytes(text_hash): vector_id for text_hash, vector_id in stored}
    moment.change(_USE, ids=sorted(known.values()), now_seconds=now_seconds)
    identity = stored_identity(meta)
    if identity and embedder_key(identity) != embedder:
        return hashes - known.keys()
    by_chunk: dict[int, list[Piece]] = defaultdict(list)
    for piece in pieces:
        by_chunk[piece.chunk_id].append(piece)
    whole = [
        piece
        for parts in by_chunk.values()
        if all(part.text_hash in known for part in parts)
        for piece in parts
    ]
    if whole:
        moment.change(
            _ATTACH,
            chunk_ids=[piece.chunk_id for piece in whole],
            pieces=[piece.piece for piece in whole],
            vector_ids=[known[piece.text_hash] for piece in whole],
        )
    return hashes - known.keys()


def put_vectors(
    moment: Moment, embedder: str, vectors: Mapping[bytes, Vector | None], *, now_seconds: int
) -> None:
    """Stores vectors by text hash. A zero vector is stored as refused, for nothing can be near it.

    What is stored for a text already stays: chunks point to its row.
    """
    embedder_id = _embedder_id(moment, embedder)
    asked = {key: None if vector is None else question(vector) for key, vector in vectors.items()}
    kept = {key: None if vector is None or is_zero(vector) else vector for key, vector in asked.items()}
    _check_lengths(moment, embedder_id, {len(vector) // 4 for vector in kept.values() if vector is not None})
    first = moment.value(_NEXT_IDS, count=len(kept))
    moment.change_each(
        _PUT,
        (
            {
                "id": vector_id,
                "embedder_id": embedder_id,
                "text_hash": key,
                "now_seconds": now_seconds,
                "embedding": None if vector is None else vector_text(vector),
                "code": None if vector is None else code_text(question_code(vector)),
            }
            for vector_id, (key, vector) in enumerate(kept.items(), start=first)
        ),
    )


def detach_vectors(moment: Moment) -> None:
    """No chunk of the build has a vector any more."""
    moment.change("DELETE FROM memory_chunk_vectors WHERE agent = %(agent)s AND build = %(build)s")


def evict(moment: Moment, keep_unused: int) -> int:
    """Deletes vectors that no chunk of any build uses, least recently used first; how many."""
    return moment.change(_EVICT, keep_unused=keep_unused)


def _check_lengths(moment: Moment, embedder_id: int, found: set[int]) -> None:
    stored: int | None = moment.value(_LENGTH, embedder_id=embedder_id)
    wanted = stored if stored is not None else min(found, default=0)
    if other := found - {wanted}:
        raise VectorsDiffer(
            f"The embedder gave vectors of {min(other)} numbers, those before had {wanted}: its "
            "model is not the same any more, and no answer is used. Choose another name or "
            "memorySearch.outputDimensionality, or delete the index, to have all vectors made again."
        )


def _embedder_id(moment: Moment, name: str) -> int:
    found = moment.value(_EMBEDDER, name=name)
    return int(found if found is not None else moment.value(_ADD_EMBEDDER, name=name))
