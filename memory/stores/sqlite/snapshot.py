"""`Snapshot` over one SQLite connection: a read transaction, and what one reader keeps between searches.

Everything runs on the thread that owns the connection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from nacre.memory.contracts.records import Chunk, ChunkPlace
from nacre.memory.contracts.store import MatchQuery, Scope, Scores, Snapshot, Vector
from nacre.memory.stores.sqlite import reads
from nacre.memory.stores.sqlite.connection import Connection, one_moment
from nacre.memory.stores.sqlite.nearest import VectorReader
from nacre.memory.stores.sqlite.words import WordReader

T = TypeVar("T")


class SnapshotReader:
    """Runs searches on one connection, each in a transaction of its own. Not to be shared between threads.

    `prepare_vectors` gives the connection what compares vectors, before the first search by vector.
    """

    def __init__(self, prepare_vectors: Callable[[Connection], object]) -> None:
        self._words = WordReader()
        self._vectors = VectorReader(prepare_vectors)

    def run(self, connection: Connection, work: Callable[[Snapshot], T]) -> T:
        """Hands `work` one moment of the index and returns what it returns."""
        with one_moment(connection):
            return work(SqliteSnapshot(connection, self._words, self._vectors))


class SqliteSnapshot:
    """See `Snapshot`. The caller holds the read transaction."""

    def __init__(self, connection: Connection, words: WordReader, vectors: VectorReader) -> None:
        self._connection = connection
        self._words = words
        self._vectors = vectors

    def meta(self) -> Mapping[str, str]:
        """See `Snapshot.meta`."""
        return reads.meta(self._connection)

    def chunk_count(self) -> int:
        """See `Snapshot.chunk_count`."""
        return self._words.count(self._connection)

    def dimensions(self) -> int | None:
        """See `Snapshot.dimensions`."""
        return reads.dimensions(self._connection)

    def lexical(self, query: MatchQuery, *, limit: int, scope: Scope) -> Scores:
        """See `Snapshot.lexical`."""
        return self._words.lexical(self._connection, query, limit, scope)

    def nearest(self, vector: Vector, *, limit: int, scope: Scope) -> Scores:
        """See `Snapshot.nearest`."""
        return self._vectors.nearest(self._connection, vector, limit, scope)

    def cosines(self, vector: Vector, chunk_ids: Sequence[int]) -> Scores:
        """See `Snapshot.cosines`."""
        return self._vectors.cosines(self._connection, vector, chunk_ids)

    def places(self, chunk_ids: Sequence[int]) -> Mapping[int, ChunkPlace]:
        """See `Snapshot.places`."""
        return reads.places(self._connection, chunk_ids)

    def texts(self, chunk_ids: Sequence[int]) -> Mapping[int, str]:
        """See `Snapshot.texts`."""
        return reads.texts(self._connection, chunk_ids)

    def chunks(self, chunk_ids: Sequence[int]) -> Mapping[int, Chunk]:
        """See `Snapshot.chunks`."""
        return reads.chunks(self._connection, chunk_ids)
