"""Writes files with their chunks, words and vectors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, LiteralString

from nacre.extensions.postgres.memory_reading import code_text, stored_meta, vector_text
from nacre.extensions.postgres.memory_words import Moment, Tokens
from nacre.memory.contracts.index_rules import (
    believable_ns,
    is_later,
    kept_chunks,
    pieces_of_whole_chunks,
    refuse_other_lengths,
)
from nacre.memory.contracts.records import Chunk, FailedFile, Source
from nacre.memory.contracts.store import FileState, IndexedFile, Piece, Vector
from nacre.memory.vectors.identity import is_index_of
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
# An update rewrites the whole vector and its place in the index, so rows that a chunk keeps are skipped.
_USE = """
UPDATE memory_vectors SET used_at = %(now_seconds)s
WHERE agent = %(agent)s AND id = ANY(%(ids)s) AND used_at < %(now_seconds)s AND NOT (SELECT EXISTS (
    SELECT 1 FROM memory_chunk_vectors AS attached
    WHERE attached.agent = %(agent)s AND attached.vector_id = memory_vectors.id
))
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
_NEXT_VECTOR_IDS = """
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


_UPSERT_FILE = """
INSERT INTO memory_files (agent, build, source, path, content_hash, size, mtime_ns, inode, read_at_ns)
VALUES (%(agent)s, %(build)s, %(source)s, %(path)s, %(content_hash)s, %(size)s, %(mtime_ns)s, %(inode)s,
    %(read_at_ns)s)
ON CONFLICT (agent, build, source, path) DO UPDATE SET content_hash = excluded.content_hash,
    size = excluded.size, mtime_ns = excluded.mtime_ns, inode = excluded.inode,
    read_at_ns = excluded.read_at_ns
"""
_TOUCH_FILE = """
UPDATE memory_files SET size = %(size)s, mtime_ns = %(mtime_ns)s, inode = %(inode)s,
    read_at_ns = %(read_at_ns)s
WHERE agent = %(agent)s AND build = %(build)s AND source = %(source)s AND path = %(path)s
    AND content_hash = %(content_hash)s AND (read_at_ns <= %(read_at_ns)s OR read_at_ns > %(believable_ns)s)
"""
_NAMED: LiteralString = "FROM unnest(%(sources)s::text[], %(paths)s::text[]) AS named (source, path)"
_READ_AT = f"""
SELECT named.source, named.path, read_at_ns, mtime_ns {_NAMED} CROSS JOIN LATERAL (
    SELECT read_at_ns, mtime_ns FROM memory_files WHERE agent = %(agent)s AND build = %(build)s
        AND memory_files.source = named.source AND memory_files.path = named.path OFFSET 0
) AS files
"""
_STORED_CHUNKS = f"""
SELECT named.source, named.path, heading_path, day, content_hash, id, ordinal, start_line, end_line
{_NAMED} CROSS JOIN LATERAL (
    SELECT heading_path, day, content_hash, id, ordinal, start_line, end_line FROM memory_chunks
    WHERE agent = %(agent)s AND build = %(build)s
        AND memory_chunks.source = named.source AND memory_chunks.path = named.path OFFSET 0
) AS chunks ORDER BY ordinal DESC
"""
_MOVE_CHUNK = """
UPDATE memory_chunks SET ordinal = %(ordinal)s, start_line = %(start_line)s, end_line = %(end_line)s
WHERE agent = %(agent)s AND build = %(build)s AND id = %(id)s
"""
_INSERT_CHUNK = """
INSERT INTO memory_chunks (agent, build, id, source, path, ordinal, start_line, end_line, heading_path, day,
    content_hash, text)
VALUES (%(agent)s, %(build)s, %(id)s, %(source)s, %(path)s, %(ordinal)s, %(start_line)s, %(end_line)s,
    %(heading_path)s, %(day)s, %(content_hash)s, %(text)s)
"""
_INSERT_WORDS = """
INSERT INTO memory_words (agent, build, chunk_id, tokens, words)
VALUES (%(agent)s, %(build)s, %(id)s, %(tokens)s, %(words)s::tsvector)
"""
_REMOVE_WORDS = """
DELETE FROM memory_words WHERE agent = %(agent)s AND build = %(build)s AND chunk_id = ANY(%(ids)s)
RETURNING tokens
"""
_REMOVE_VECTORS = """
DELETE FROM memory_chunk_vectors WHERE agent = %(agent)s AND build = %(build)s AND chunk_id = ANY(%(ids)s)
"""
_REMOVE_CHUNKS = """
DELETE FROM memory_chunks WHERE agent = %(agent)s AND build = %(build)s AND id = ANY(%(ids)s)
"""
_NEXT_IDS = """
UPDATE memory_builds SET next_chunk = next_chunk + %(count)s
WHERE agent = %(agent)s AND build = %(build)s RETURNING next_chunk - %(count)s
"""
_COUNT = """
UPDATE memory_builds SET chunks = chunks + %(chunks)s, tokens = tokens + %(tokens)s, changed = changed + 1
WHERE agent = %(agent)s AND build = %(build)s
"""
_FORGET_FAILURES = """
DELETE FROM memory_failures
WHERE agent = %(agent)s AND build = %(build)s AND source = %(source)s AND path = ANY(%(paths)s)
"""
_PUT_FAILURE = """
INSERT INTO memory_failures (agent, build, source, path, problem, attempts, retry_at_seconds)
VALUES (%(agent)s, %(build)s, %(source)s, %(path)s, %(problem)s, %(attempts)s, %(retry_at_seconds)s)
ON CONFLICT (agent, build, source, path) DO UPDATE SET problem = excluded.problem,
    attempts = excluded.attempts, retry_at_seconds = excluded.retry_at_seconds
"""
_PUT_META = """
INSERT INTO memory_meta (agent, build, key, value) VALUES (%(agent)s, %(build)s, %(key)s, %(value)s)
ON CONFLICT (agent, build, key) DO UPDATE SET value = excluded.value
"""


class PostgresWriter:
    """Implements `Writer`. The caller holds the transaction and the build's lock."""

    def __init__(self, moment: Moment, tokens: Tokens) -> None:
        self._moment = moment
        self._tokens = tokens
        self._chunks = self._words = 0
        self.has_attached = False

    def finish(self) -> None:
        """Updates the build's counts. Call it last in the transaction."""
        self._moment.change(_COUNT, chunks=self._chunks, tokens=self._words)

    def meta(self) -> Mapping[str, str]:
        return stored_meta(self._moment)

    def set_meta(self, values: Mapping[str, str]) -> None:
        self._moment.change_each(_PUT_META, ({"key": key, "value": value} for key, value in values.items()))

    def replace_files(self, files: Sequence[IndexedFile]) -> None:
        for batch in _each_once(files):
            self._replace(batch)

    def _replace(self, files: Sequence[IndexedFile]) -> None:
        names = {
            "sources": [file.state.source for file in files],
            "paths": [file.state.path for file in files],
        }
        read = {
            (source, path): (read_at_ns, mtime_ns)
            for source, path, read_at_ns, mtime_ns in self._moment.rows(_READ_AT, **names)
        }
        files = [file for file in files if not is_later(read.get(_key(file)), file.state)]
        self._moment.change_each(_UPSERT_FILE, (_state_values(file.state) for file in files))
        stored: dict[tuple[str, str], list[tuple[Hashable, int, int, int, int]]] = defaultdict(list)
        for source, path, headings, day, digest, *place in self._moment.rows(_STORED_CHUNKS, **names):
            chunk_id, ordinal, start_line, end_line = place
            key = (tuple(headings), day, digest)
            stored[source, path].append((key, chunk_id, ordinal, start_line, end_line))
        added: list[tuple[IndexedFile, int]] = []
        moved: list[dict[str, int]] = []
        gone: list[int] = []
        for file in files:
            kept = kept_chunks(file.chunks, stored.get(_key(file), ()), _chunk_key)
            added += ((file, at) for at in kept.new)
            moved += (_moved_values(*each) for each in kept.moved)
            gone += kept.gone
        self._moment.change_each(_MOVE_CHUNK, moved)
        self._remove_chunks(gone)
        self._add_chunks(added)
        for source in {file.state.source for file in files}:
            cleared = [file.state.path for file in files if file.state.source == source]
            self._moment.change(_FORGET_FAILURES, source=source, paths=cleared)

    def _add_chunks(self, added: Sequence[tuple[IndexedFile, int]]) -> None:
        if not added:
            return
        first = self._moment.value(_NEXT_IDS, count=len(added))
        texts, words = [], []
        for chunk_id, (file, at) in enumerate(added, start=first):
            texts.append(_chunk_values(chunk_id, file.chunks[at]))
            vector, tokens = self._tokens.words(file.fields[at])
            words.append({"id": chunk_id, "tokens": tokens, "words": vector})
            self._words += tokens
        self._chunks += len(added)
        self._moment.change_each(_INSERT_CHUNK, texts)
        self._moment.change_each(_INSERT_WORDS, words)

    def _remove_chunks(self, ids: Sequence[int]) -> None:
        if not ids:
            return
        removed = self._moment.rows(_REMOVE_WORDS, ids=list(ids))
        self._words -= sum(tokens for (tokens,) in removed)
        self._chunks -= len(removed)
        self._moment.change(_REMOVE_VECTORS, ids=list(ids))
        self._moment.change(_REMOVE_CHUNKS, ids=list(ids))

    def touch_files(self, states: Sequence[FileState]) -> None:
        self._moment.change_each(_TOUCH_FILE, map(_state_values, states))

    def remove_files(self, source: Source, paths: Sequence[str]) -> None:
        values = {"source": source, "paths": list(paths)}
        ids = self._moment.rows(
            "SELECT id FROM memory_chunks WHERE agent = %(agent)s AND build = %(build)s"
            " AND source = %(source)s AND path = ANY(%(paths)s)",
            **values,
        )
        self._remove_chunks([row[0] for row in ids])
        self._moment.change(
            "DELETE FROM memory_files WHERE agent = %(agent)s AND build = %(build)s"
            " AND source = %(source)s AND path = ANY(%(paths)s)",
            **values,
        )
        self._moment.change(_FORGET_FAILURES, **values)

    def set_failures(self, source: Source, failed: Sequence[FailedFile], cleared: Sequence[str]) -> None:
        self._moment.change(_FORGET_FAILURES, source=source, paths=list(cleared))
        self._moment.change_each(_PUT_FAILURE, ({"source": source, **asdict(item)} for item in failed))

    def attach_known(self, embedder: str, pieces: Sequence[Piece], *, now_seconds: int) -> set[bytes]:
        """Attaches vectors to a chunk if all its pieces have one.

        If another process or a fallback has changed the index's embedder in the meantime, nothing is
        attached, because vectors of two embedders must not be mixed.
        """
        self.has_attached = True
        hashes = {piece.text_hash for piece in pieces}
        embedder_id = self._embedder_id(embedder)
        stored = self._moment.rows(_KNOWN, embedder_id=embedder_id, hashes=sorted(hashes))
        known: dict[bytes, int] = {bytes(text_hash): vector_id for text_hash, vector_id in stored}
        self._moment.change(_USE, ids=sorted(known.values()), now_seconds=now_seconds)
        whole = pieces_of_whole_chunks(pieces, known) if is_index_of(self.meta(), embedder) else []
        if whole:
            self._moment.change(
                _ATTACH,
                chunk_ids=[piece.chunk_id for piece in whole],
                pieces=[piece.piece for piece in whole],
                vector_ids=[known[piece.text_hash] for piece in whole],
            )
        return hashes - known.keys()

    def put_vectors(self, embedder: str, vectors: Mapping[bytes, Vector | None], *, now_seconds: int) -> None:
        # A zero vector is stored as refused, because nothing can be near it. Existing rows stay, because
        # chunks reference them.
        embedder_id = self._embedder_id(embedder)
        asked = {key: None if vector is None else question(vector) for key, vector in vectors.items()}
        kept = {key: None if vector is None or is_zero(vector) else vector for key, vector in asked.items()}
        lengths = {len(vector) // 4 for vector in kept.values() if vector is not None}
        refuse_other_lengths(lengths, stored=self._moment.value(_LENGTH, embedder_id=embedder_id))
        first = self._moment.value(_NEXT_VECTOR_IDS, count=len(kept))
        self._moment.change_each(
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

    def detach_vectors(self) -> None:
        self._moment.change("DELETE FROM memory_chunk_vectors WHERE agent = %(agent)s AND build = %(build)s")

    def evict(self, *, keep_unused: int | None) -> int:
        return 0 if keep_unused is None else self._moment.change(_EVICT, keep_unused=keep_unused)

    def _embedder_id(self, name: str) -> int:
        found = self._moment.value(_EMBEDDER, name=name)
        return int(found if found is not None else self._moment.value(_ADD_EMBEDDER, name=name))


def _each_once(files: Sequence[IndexedFile]) -> Iterator[list[IndexedFile]]:
    """Splits files into runs without duplicates, because a later version must see the earlier one stored."""
    batch: dict[tuple[str, str], IndexedFile] = {}
    for file in files:
        if _key(file) in batch:
            yield [*batch.values()]
            batch = {}
        batch[_key(file)] = file
    if batch:
        yield [*batch.values()]


def _chunk_key(chunk: Chunk) -> Hashable:
    return chunk.heading_path, chunk.date, chunk.content_hash


def _moved_values(chunk_id: int, chunk: Chunk) -> dict[str, int]:
    lines = {"ordinal": chunk.ordinal, "start_line": chunk.start_line, "end_line": chunk.end_line}
    return {"id": chunk_id, **lines}


def _key(file: IndexedFile) -> tuple[str, str]:
    return file.state.source, file.state.path


def _state_values(state: FileState) -> dict[str, Any]:
    return {**state._asdict(), "believable_ns": believable_ns(state)}


def _chunk_values(chunk_id: int, chunk: Chunk) -> dict[str, Any]:
    return {
        "id": chunk_id,
        "source": chunk.source,
        "path": chunk.path,
        "ordinal": chunk.ordinal,
        "start_line": chunk.start_line,
        "end_line": chunk.end_line,
        "heading_path": list(chunk.heading_path),
        "day": chunk.date,
        "content_hash": chunk.content_hash,
        "text": chunk.text,
    }
