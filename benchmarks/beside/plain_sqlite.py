"""Hybrid search as SQLite gives it without further ado: FTS5 over all words, sqlite-vec over all vectors.

What `benchmarks/search_speed.py` compares with. No ranking, no evidence, no snippets: only the two lists, and
the texts of the first six.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import apsw
import numpy as np
import sqlite_vec

from nacre.memory.text.lexical import match_query

POOL = 60
SHOWN = 6


class PlainSqlite:
    """The chunks and vectors of an index of ours, in tables as a tutorial would make them."""

    def __init__(self, index: Path, dimensions: int) -> None:
        """Copies the content of `index` into a database beside it, unless that was done before."""
        path = index.with_name("plain.sqlite")
        fresh = not path.exists()
        self._connection = apsw.Connection(str(path))
        self._connection.enable_load_extension(True)
        self._connection.load_extension(sqlite_vec.loadable_path())
        self._connection.pragma("mmap_size", 1 << 30)
        if fresh:
            self._fill(index, dimensions)

    def _fill(self, index: Path, dimensions: int) -> None:
        self._connection.create_scalar_function("as_floats", _as_floats, 1)
        self._connection.execute("ATTACH ? AS ours", (str(index),))
        with self._connection:
            self._connection.execute("CREATE VIRTUAL TABLE words USING fts5 (text, tokenize = 'porter')")
            self._connection.execute(f"CREATE VIRTUAL TABLE near USING vec0 (embedding float[{dimensions}])")
            self._connection.execute("INSERT INTO words (rowid, text) SELECT id, text FROM ours.chunks")
            self._connection.execute(
                "INSERT INTO near (rowid, embedding) SELECT chunk_id, as_floats(embedding)"
                " FROM ours.chunk_vectors JOIN ours.vectors ON vectors.id = vector_id"
                " WHERE piece = 0 AND embedding IS NOT NULL"
            )
        self._connection.execute("DETACH ours")

    def words(self, question: str) -> list[int]:
        """The best chunks by any word of the question that is no stop word."""
        query = match_query(question)
        if query is None:
            return []
        expression = " OR ".join(f'"{term}"' for term in query.terms)
        rows = self._connection.execute(
            "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?", (expression, POOL)
        )
        return [row[0] for row in rows]

    def nearest(self, vector: Sequence[float]) -> list[int]:
        """The nearest chunks, each one compared."""
        blob = np.asarray(vector, dtype="<f4").tobytes()
        rows = self._connection.execute(
            "SELECT rowid FROM near WHERE embedding MATCH ? AND k = ? ORDER BY distance", (blob, POOL)
        )
        return [row[0] for row in rows]

    async def search(self, question: str, vector: Sequence[float]) -> list[str]:
        """Both lists by reciprocal rank, and the texts of the first."""
        scores: dict[int, float] = {}
        for found in (self.words(question), self.nearest(vector)):
            for place, row in enumerate(found, start=1):
                scores[row] = scores.get(row, 0.0) + 1 / (60 + place)
        best = sorted(scores, key=scores.__getitem__, reverse=True)[:SHOWN]
        return [
            str(self._connection.execute("SELECT text FROM words WHERE rowid = ?", (row,)).get)
            for row in best
        ]

    def close(self) -> None:
        """Lets go of the file."""
        self._connection.close()


def _as_floats(blob: bytes) -> bytes:
    """A vector of an index of ours as sqlite-vec takes them."""
    numbers = np.frombuffer(blob, dtype="<i2").astype("<f4")
    return bytes((numbers / np.linalg.norm(numbers)).tobytes())
