"""`Snapshot` over a read transaction."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, LiteralString

from nacre.extensions.postgres.memory_words import Head, Moment, Tokens, WordReader, narrowed
from nacre.memory.contracts.records import (
    Chunk,
    ChunkPlace,
    FailedFile,
    Source,
    SourceCount,
    VectorEngine,
    citation,
)
from nacre.memory.contracts.store import FileState, Scope, Scores, StoreCounts, Vector
from nacre.memory.contracts.words import Atom, MatchQuery
from nacre.memory.vectors.vector_math import is_zero, question, question_code

EXACT_UP_TO = 1_500
"""Up to this many chunks, all vectors are compared exactly, because the coarse pass would not be faster."""

INDEXED_FROM = 20_000
"""A build with at least this many vectors has an index over the vectors of its embedder."""
MOST_INDEXED_DIMENSIONS = 4_000
"""pgvector indexes no longer vectors in half precision."""
EXPLORED = 400
"""The number of vectors that a search keeps while it explores this index; pgvector keeps at most 1,000."""

_FACTS = """
SELECT extversion, to_regprocedure('hamming_distance(bit,bit)') IS NOT NULL
FROM pg_extension WHERE extname = 'vector'
"""
_SMALL_CACHE = """
SELECT pg_size_pretty(cache), pg_size_pretty(size) FROM (
    SELECT pg_size_bytes(current_setting('shared_buffers')) AS cache, sum(pg_total_relation_size(oid)) AS size
    FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'
        AND starts_with(relname::text, 'memory_')
) AS used WHERE cache <= 128 * 1024 * 1024 AND size > 2 * cache -- the server's default
"""
_ONE_VECTOR: LiteralString = """
FROM memory_vectors WHERE agent = %(agent)s AND id = (
    SELECT vector_id FROM memory_chunk_vectors
    WHERE agent = %(agent)s AND build = %(build)s AND code IS NOT NULL LIMIT 1)
"""
EMBEDDER_IN_USE: LiteralString = f"SELECT embedder_id, vector_dims(embedding) {_ONE_VECTOR}"
_INDEXED_EMBEDDER = f"""
SELECT embedder_id, set_config('hnsw.ef_search', %(explored)s::text, TRUE)
FROM (SELECT embedder_id {_ONE_VECTOR}) AS used JOIN pg_index ON indisvalid AND indexrelid = to_regclass(
    %(prefix)s || embedder_id::text || '_' || %(dimensions)s::text)
"""
_VECTORS_OF_THE_BUILD: LiteralString = """
    SELECT chunk_id, vector_id FROM memory_chunk_vectors
    WHERE agent = %(agent)s AND build = %(build)s AND length(code) = %(bits)s
"""
_HAMMING: LiteralString = " ORDER BY hamming_distance(code, %(code)s::varbit) LIMIT %(wanted)s"
_BIT_COUNT: LiteralString = " ORDER BY bit_count(code # %(code)s::varbit) LIMIT %(wanted)s"
_INDEXED: LiteralString = """
SELECT chunk_id, max(cosine) AS cosine FROM (
    SELECT chunk_id, cosine FROM (
        SELECT id, -(embedding <#> %(asked)s::vector) AS cosine FROM memory_vectors
        WHERE agent = {agent} AND embedder_id = {embedder} AND vector_dims(embedding) = {dimensions}
        ORDER BY embedding::halfvec({dimensions}) <#> %(asked)s::halfvec({dimensions}) LIMIT {explored}
    ) AS nearest CROSS JOIN LATERAL (
        SELECT chunk_id FROM memory_chunk_vectors
        WHERE agent = %(agent)s AND build = %(build)s AND vector_id = nearest.id OFFSET 0
    ) AS attached LIMIT %(wanted)s
) AS candidates GROUP BY chunk_id ORDER BY cosine DESC, chunk_id
"""
"""Contains literals, because the index is partial and the planner must know the limit. The index is only read
until `wanted` rows are attached to the build."""
_COSINES: LiteralString = """
SELECT chunk_id, max(cosine) AS cosine FROM ({candidates}) AS candidates
CROSS JOIN LATERAL (
    SELECT -(embedding <#> %(asked)s::vector) AS cosine FROM memory_vectors
    WHERE agent = %(agent)s AND id = vector_id AND vector_dims(embedding) = %(dimensions)s OFFSET 0
) AS vectors
GROUP BY chunk_id ORDER BY cosine DESC, chunk_id
"""


class VectorReader:
    """Vector search for one store; caches the abilities of the server."""

    def __init__(self) -> None:
        self._facts: tuple[str, bool] | None = None

    def engine(self, moment: Moment) -> VectorEngine:
        """The name of the engine that compares vectors."""
        version, compares_codes = self._known(moment)
        problem = ""
        if not compares_codes:
            problem = (
                f"pgvector {version} cannot compare bits (0.7 can), so PostgreSQL counts those that differ"
            )
        elif small := moment.rows(_SMALL_CACHE):
            problem = (
                "the server caches {} (shared_buffers), and the indexes of notes take {}: searches are up to "
                "twice as fast if shared_buffers is a quarter of the machine's memory"
            ).format(*small[0])
        return VectorEngine(name=f"pgvector {version}", problem=problem)

    def nearest(
        self, moment: Moment, head: Head, vector: Vector, limit: int, scope: Scope
    ) -> dict[int, float]:
        """The chunks whose best piece has the highest cosine, best first."""
        asked = question(vector)
        if is_zero(asked):
            return {}
        inside = narrowed(moment, scope)
        code = question_code(asked)
        statement = ""
        if inside is None and head.chunks >= INDEXED_FROM:
            statement = _indexed(moment, len(vector), limit)
        wanted = 3 * limit  # a chunk may have several vectors
        if not statement:
            candidates = _VECTORS_OF_THE_BUILD
            candidates += inside.admits("memory_chunk_vectors.chunk_id") if inside else ""
            if head.chunks > EXACT_UP_TO:
                candidates += _HAMMING if self._known(moment)[1] else _BIT_COUNT
            statement = _COSINES.replace("{candidates}", candidates)
            wanted = candidates_for(len(vector), limit, head.chunks)
        rows = moment.searched(
            statement + " LIMIT %(limit)s",
            asked=vector_text(asked),
            dimensions=len(vector),
            code=code_text(code),
            bits=8 * len(code),
            wanted=wanted,
            limit=limit,
            **(inside.values if inside else {}),
        )
        return dict(rows)

    def cosines(self, moment: Moment, vector: Vector, chunk_ids: Sequence[int]) -> dict[int, float]:
        """The exact cosine of each chunk's best piece."""
        asked = question(vector)
        if is_zero(asked):
            return {}
        rows = moment.rows(
            _COSINES.replace("{candidates}", _VECTORS_OF_THE_BUILD + " AND chunk_id = ANY(%(ids)s)"),
            asked=vector_text(asked),
            dimensions=len(vector),
            bits=8 * len(question_code(asked)),
            ids=list(chunk_ids),
        )
        return dict(rows)

    def _known(self, moment: Moment) -> tuple[str, bool]:
        if self._facts is None:
            version, compares_codes = moment.rows(_FACTS)[0]
            self._facts = str(version), bool(compares_codes)
        return self._facts


def _indexed(moment: Moment, dimensions: int, limit: int) -> LiteralString:
    """The search in the index over the vectors of the build's embedder; empty without such an index."""
    explored = min(max(EXPLORED, 3 * limit), 1_000)
    values = {"prefix": near_index(moment.agent), "dimensions": dimensions, "explored": explored}
    embedder = moment.value(_INDEXED_EMBEDDER, **values)
    if embedder is None:
        return ""
    return of_index(moment, _INDEXED, embedder, dimensions).replace("{explored}", str(explored))


def near_index(agent: str) -> str:
    """The name of the indexes over an agent's vectors, without embedder and dimensions."""
    return f"memory_nearest_{hashlib.blake2b(agent.encode(), digest_size=8).hexdigest()}_"


def of_index(moment: Moment, statement: LiteralString, embedder: int, dimensions: int) -> LiteralString:
    """Inserts literals for `{agent}`, `{embedder}`, `{dimensions}` and `{index}`."""
    agent = "'" + moment.agent.replace("'", "''").replace("%", "%%") + "'"
    found = {"{agent}": agent, "{embedder}": str(embedder), "{dimensions}": str(dimensions)}
    found["{index}"] = f"{near_index(moment.agent)}{embedder}_{dimensions}"
    for name, text in found.items():
        statement = statement.replace(name, text)
    return statement


def candidates_for(dimensions: int, limit: int, chunks: int) -> int:
    """The number of coarse candidates to score exactly: more for short codes and for many chunks."""
    least = 1_000 if chunks >= INDEXED_FROM else 300 if dimensions >= 384 else 600
    return max(2 * limit, least)


def vector_text(asked: bytes) -> str:
    """A vector as a pgvector literal."""
    return "[" + ",".join(map(repr, struct.unpack(f"<{len(asked) // 4}f", asked))) + "]"


def code_text(code: bytes) -> str:
    """A sign code as a bit string literal."""
    return format(int.from_bytes(code, "big"), f"0{8 * len(code)}b")


# In these files, `LATERAL … OFFSET 0` and `(SELECT EXISTS …)` force a key lookup per row. The plan of a join
# would depend on statistics, which a new agent does not have yet.
_OF_THE_BUILD: LiteralString = "WHERE agent = %(agent)s AND build = %(build)s"
_CHUNK_COLUMNS: LiteralString = (
    "id, source, path, ordinal, start_line, end_line, heading_path, day, content_hash, text"
)
_CHUNKS: LiteralString = f"SELECT {_CHUNK_COLUMNS} FROM memory_chunks {_OF_THE_BUILD}"
_FILES: LiteralString = (
    "SELECT source, path, content_hash, size, mtime_ns, inode, read_at_ns FROM memory_files "
    f"{_OF_THE_BUILD} AND source = %(source)s"
)
_WITHOUT_VECTORS = f"""
{_CHUNKS} AND id > %(above_id)s AND NOT (SELECT EXISTS (
    SELECT 1 FROM memory_chunk_vectors AS attached
    WHERE attached.agent = %(agent)s AND attached.build = %(build)s AND attached.chunk_id = memory_chunks.id
)) ORDER BY id LIMIT %(limit)s
"""
_REFUSED = """
SELECT DISTINCT path, start_line, end_line FROM memory_chunk_vectors AS attached
JOIN memory_vectors AS vectors ON vectors.agent = %(agent)s AND vectors.id = attached.vector_id
JOIN memory_chunks AS chunks
    ON chunks.agent = %(agent)s AND chunks.build = %(build)s AND chunks.id = attached.chunk_id
WHERE attached.agent = %(agent)s AND attached.build = %(build)s AND embedding IS NULL
ORDER BY path, start_line LIMIT %(limit)s
"""
_SOURCES = f"""
SELECT source, files, coalesce(chunks, 0) FROM (
    SELECT source, count(*) AS files FROM memory_files {_OF_THE_BUILD} GROUP BY source
) AS counted LEFT JOIN (
    SELECT source, count(*) AS chunks FROM memory_chunks {_OF_THE_BUILD} GROUP BY source
) AS parts USING (source) ORDER BY source
"""
_COUNTS = f"""
SELECT
    (SELECT count(DISTINCT vector_id) FROM memory_chunk_vectors {_OF_THE_BUILD}),
    (SELECT count(*) FROM memory_vectors WHERE agent = %(agent)s),
    (SELECT count(DISTINCT chunk_id) FROM memory_chunk_vectors {_OF_THE_BUILD}),
    (SELECT coalesce(sum(pg_column_size(rows.*)), 0) FROM memory_chunks AS rows {_OF_THE_BUILD})
    + (SELECT coalesce(sum(pg_column_size(rows.*)), 0) FROM memory_words AS rows {_OF_THE_BUILD})
    + (SELECT coalesce(sum(pg_column_size(rows.*)), 0) FROM memory_vectors AS rows WHERE agent = %(agent)s)
    + (SELECT coalesce(sum(pg_column_size(rows.*)), 0) FROM memory_chunk_vectors AS rows {_OF_THE_BUILD})
"""
_DIMENSIONS: LiteralString = f"SELECT vector_dims(embedding) {_ONE_VECTOR}"
_PLACES = """
SELECT chunks.id, chunks.source, chunks.path, day, mtime_ns FROM memory_chunks AS chunks
CROSS JOIN LATERAL (
    SELECT mtime_ns FROM memory_files AS files WHERE files.agent = %(agent)s AND files.build = %(build)s
        AND files.source = chunks.source AND files.path = chunks.path OFFSET 0
) AS files
WHERE chunks.agent = %(agent)s AND chunks.build = %(build)s AND chunks.id = ANY(%(ids)s)
"""
_LOOKS = f"""
SELECT DISTINCT found.id, found.text FROM unnest(%(looks)s::bigint[]) AS looks (id), LATERAL (
    SELECT id, text FROM memory_chunks {_OF_THE_BUILD} AND memory_chunks.id >= looks.id ORDER BY id LIMIT 1
) AS found ORDER BY found.id
"""


class PostgresSnapshot:
    """Implements `Snapshot`. The caller holds the transaction."""

    def __init__(
        self, moment: Moment, head: Head, words: WordReader, vectors: VectorReader, tokens: Tokens
    ) -> None:
        self._moment = moment
        self._head = head
        self._words = words
        self._vectors = vectors
        self._tokens = tokens

    def meta(self) -> Mapping[str, str]:
        return stored_meta(self._moment)

    def stored_file(self, source: Source, path: str) -> tuple[FileState, Sequence[Chunk]] | None:
        values = {"source": source, "path": path}
        rows = self._moment.rows(f"{_FILES} AND path = %(path)s", **values)
        if not rows:
            return None
        chunks = self._moment.rows(
            f"{_CHUNKS} AND source = %(source)s AND path = %(path)s ORDER BY ordinal", **values
        )
        return FileState(*rows[0]), [_chunk_from_row(row) for row in chunks]

    def file_states(self, source: Source) -> Mapping[str, FileState]:
        return {row[1]: FileState(*row) for row in self._moment.rows(_FILES, source=source)}

    def failures(self, source: Source) -> Mapping[str, FailedFile]:
        rows = self._moment.rows(
            f"SELECT path, problem, attempts, retry_at_seconds FROM memory_failures {_OF_THE_BUILD}"
            " AND source = %(source)s",
            source=source,
        )
        return {
            path: FailedFile(path=path, problem=problem, attempts=attempts, retry_at_seconds=retry_at)
            for path, problem, attempts, retry_at in rows
        }

    def without_vectors(self, *, above_id: int, limit: int) -> Sequence[tuple[int, Chunk]]:
        rows = self._moment.rows(_WITHOUT_VECTORS, above_id=above_id, limit=limit)
        return [(row[0], _chunk_from_row(row)) for row in rows]

    def refused(self, *, limit: int) -> Sequence[str]:
        return [citation(*row) for row in self._moment.rows(_REFUSED, limit=limit)]

    def counts(self) -> StoreCounts:
        sources = tuple(
            SourceCount(source=source, files=files, chunks=chunks)
            for source, files, chunks in self._moment.rows(_SOURCES)
        )
        used, stored, attached, size_bytes = self._moment.rows(_COUNTS)[0]
        return StoreCounts(
            sources=sources,
            vectors=used,
            cached_vectors=stored - used,
            pending_chunks=self._head.chunks - attached,
            dimensions=self.dimensions(),
            size_bytes=int(size_bytes),
        )

    def vector_engine(self) -> VectorEngine:
        return self._vectors.engine(self._moment)

    def chunk_count(self) -> int:
        return self._head.chunks

    def dimensions(self) -> int | None:
        found: int | None = self._moment.value(_DIMENSIONS)
        return found

    def lexical(self, query: MatchQuery, *, limit: int, scope: Scope) -> Scores:
        return self._words.lexical(self._moment, self._head, query, limit, scope, self._tokens)

    def is_known(self, atom: Atom) -> bool:
        # Cached with the counts: every word of a question is looked up, each with a round trip.
        return self.counts_of([atom])[0] > 0

    def counts_of(self, atoms: Sequence[Atom]) -> Sequence[int]:
        return self._words.counts_of(self._moment, self._head, atoms, self._tokens)

    def begin_nearest(self, vector: Vector, *, limit: int, scope: Scope) -> Callable[[], Scores]:
        return lambda: self._vectors.nearest(self._moment, self._head, vector, limit, scope)

    def cosines(self, vector: Vector, chunk_ids: Sequence[int]) -> Scores:
        return self._vectors.cosines(self._moment, vector, chunk_ids)

    def places(self, chunk_ids: Sequence[int]) -> Mapping[int, ChunkPlace]:
        return {
            chunk_id: ChunkPlace(source=source, path=path, date=day, changed_at_ns=mtime_ns)
            for chunk_id, source, path, day, mtime_ns in self._moment.rows(_PLACES, ids=list(chunk_ids))
        }

    def texts(self, chunk_ids: Sequence[int]) -> Mapping[int, str]:
        return dict(
            self._moment.rows(
                f"SELECT id, text FROM memory_chunks {_OF_THE_BUILD} AND id = ANY(%(ids)s)",
                ids=list(chunk_ids),
            )
        )

    def sampled_texts(self, count: int) -> Sequence[str]:
        """The chunks next above evenly spaced ids, one table lookup each."""
        first, last = self._moment.rows(f"SELECT min(id), max(id) FROM memory_chunks {_OF_THE_BUILD}")[0]
        if first is None:
            return ()
        looks = sorted({first + (last + 1 - first) * step // count for step in range(count)})
        return tuple(text for _, text in self._moment.rows(_LOOKS, looks=looks))

    def chunks(self, chunk_ids: Sequence[int]) -> Mapping[int, Chunk]:
        rows = self._moment.rows(f"{_CHUNKS} AND id = ANY(%(ids)s)", ids=list(chunk_ids))
        return {row[0]: _chunk_from_row(row) for row in rows}


def stored_meta(moment: Moment) -> dict[str, str]:
    """All rows of `memory_meta`."""
    return dict(moment.rows(f"SELECT key, value FROM memory_meta {_OF_THE_BUILD}"))


def _chunk_from_row(row: tuple[Any, ...]) -> Chunk:
    _, source, path, ordinal, start_line, end_line, heading_path, day, digest, text = row
    return Chunk(
        source=source,
        path=path,
        start_line=start_line,
        end_line=end_line,
        text=text,
        heading_path=tuple(heading_path),
        date=day,
        content_hash=digest,
        ordinal=ordinal,
    )
