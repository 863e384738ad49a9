"""Vectors of one length in memory: a coarse pass over sign codes, and exact cosines of its candidates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from nacre.memory.vectors.vector_math import NUMBER_BYTES, lengths

if TYPE_CHECKING:
    import numpy
    import numpy.typing

    Places: TypeAlias = numpy.typing.NDArray[numpy.intp]
    Mask: TypeAlias = numpy.typing.NDArray[numpy.bool_]

Row: TypeAlias = tuple[int, int, int, bytes, bytes | None]

_FIRST_WORDS = 4
"""The 64-bit words of a long code that the first step compares, because memory bandwidth is the limit."""

_FIRST_KEEP = 8
"""How many times the wanted number the first step keeps."""

_FARTHEST = 32_767
"""A distance above that of any code, to which the distance of a whole code can be added."""

_BLOCK = 32_768
"""The number of codes to compare at a time, so that results stay in the processor's cache."""

_FEW_VECTORS = 1_500
_GROWTH = 0.3

_SAMPLED = 8_192
"""The number of distances that estimate a threshold."""


def candidates_for(dimensions: int, limit: int, count: int = 0) -> int:
    """The number of coarse candidates, which grows with shorter codes and with more vectors.

    With 384 numbers, .98 of the true nearest 30 are among them, from 1,000 to 39,000 vectors of real texts
    (docs/recall.md).
    """
    growing: float = (count / _FEW_VECTORS) ** _GROWTH * min(1.0, 384 / dimensions)
    return max(2 * limit, round(300 * max(1.0 if dimensions >= 384 else 2.0, growing)))


class VectorTable:
    """The sign codes and ids of vectors of one length, and the vectors themselves up to `most_bytes`.

    Rows are only added; a place in the table is an index of a row.
    """

    def __init__(self, dimensions: int, *, most_bytes: int) -> None:
        self.dimensions = dimensions
        self._most = most_bytes // (NUMBER_BYTES * dimensions) if dimensions else 0
        self.whole = self._most > 0
        """Whether the table has the vectors and not only their codes."""
        self._words = -(-dimensions // 64)
        # The words that every search compares are stored column by column, the others row by row.
        self._first = _FIRST_WORDS if self._words >= 2 * _FIRST_WORDS else self._words
        self._count = 0
        self._keys: Any = None
        self._columns: Any = None
        self._rest: Any = None
        self._vectors: Any = None
        self._lengths: Any = None
        self._by_chunk: Any = None

    def __len__(self) -> int:
        return self._count

    def add(self, rows: Sequence[Row]) -> None:
        """Adds (row id, chunk id, vector id, code, vector) and skips other lengths."""
        import numpy as np

        code_bytes, vector_bytes = 8 * self._words, NUMBER_BYTES * self.dimensions
        if self.whole and self._count + len(rows) > self._most:
            self.whole, self._vectors, self._lengths = False, None, None
        rows = [
            row
            for row in rows
            if len(row[3]) == code_bytes and (not self.whole or len(row[4] or b"") == vector_bytes)
        ]
        if not rows:
            return
        self._reserve(self._count + len(rows))
        span = slice(self._count, self._count + len(rows))
        self._keys[span] = [row[:3] for row in rows]
        codes = np.frombuffer(b"".join(row[3] for row in rows), dtype=np.uint64).reshape(-1, self._words)
        self._columns[:, span] = codes[:, : self._first].T
        self._rest[span] = codes[:, self._first :]
        if self.whole:
            vectors = np.frombuffer(b"".join(row[4] or b"" for row in rows), dtype="<i2")
            self._vectors[span] = vectors = vectors.reshape(-1, self.dimensions)
            self._lengths[span] = lengths(vectors.astype("<f4"))
        self._count += len(rows)
        self._by_chunk = None

    def coarse(self, code: bytes, count: int, *, outside: Mask | None = None) -> Places:
        """The places of about `count` codes nearest to `code`, ascending, except those marked by
        `outside`."""
        import numpy as np

        query = np.frombuffer(code, dtype=np.uint64)
        if not self._count or len(query) != self._words:
            return np.empty(0, dtype=np.intp)
        inside = self._count if outside is None else self._count - int(np.count_nonzero(outside))
        if count >= inside:
            return np.arange(self._count) if outside is None else np.flatnonzero(~outside)
        distances = self._first_distances(query)
        if outside is not None:
            distances[outside] = _FARTHEST
        if self._first == self._words:
            return _smallest(distances, count)
        places = _smallest(distances, min(inside, count * _FIRST_KEEP))
        differing = np.bitwise_count(self._rest.take(places, axis=0) ^ query[self._first :])
        return places[_smallest(distances[places] + differing.sum(axis=1, dtype=np.uint16), count)]

    def likeliest(self, query: bytes, places: Places, count: int) -> Places:
        """The `count` places at which the question's numbers agree best with the stored signs.

        This is closer to the cosine than the distance in bits, which ignores the size of numbers.
        """
        import numpy as np

        if len(places) <= count:
            return places
        codes = np.concatenate(
            (self._columns.take(places, axis=1).T, self._rest.take(places, axis=0)), axis=1
        ).view(np.uint8)
        signs = np.unpackbits(codes, axis=1, count=self.dimensions).astype("<f4")
        agreeing = np.vecdot(signs, np.frombuffer(query, dtype="<f4"))
        return np.sort(places[np.argpartition(-agreeing, count)[:count]])

    def all_but(self, chunk_ids: Sequence[int]) -> Mask:
        """Marks every place except those of these chunks."""
        import numpy as np

        outside = np.ones(self._count, dtype=np.bool_)
        outside[self.places_of(chunk_ids)] = False
        return outside

    def places_of(self, chunk_ids: Sequence[int]) -> Places:
        """The places of these chunks' vectors."""
        import numpy as np

        if not self._count:
            return np.empty(0, dtype=np.intp)
        if self._by_chunk is None:
            chunks = self._keys[: self._count, 1]
            order = np.argsort(chunks, kind="stable")
            self._by_chunk = order, chunks[order]
        order, chunks = self._by_chunk
        firsts, ends = np.searchsorted(chunks, chunk_ids), np.searchsorted(chunks, chunk_ids, side="right")
        counts = ends - firsts
        # firsts[i], firsts[i] + 1, … up to ends[i] for each chunk.
        before = np.cumsum(counts) - counts
        return cast("Places", order[np.repeat(firsts - before, counts) + np.arange(counts.sum())])

    def keys(self, places: Places) -> list[list[int]]:
        """[row id, chunk id, vector id] at each of these places."""
        return cast("list[list[int]]", self._keys[places].tolist()) if len(places) else []

    def cosines(self, query: bytes, places: Places) -> list[tuple[int, int, float]]:
        """(row id, chunk id, cosine) at these places, the highest cosine first. The table must be `whole`."""
        import numpy as np

        if not len(places):
            return []
        numbers = self._vectors.take(places, axis=0).astype("<f4")
        cosines = np.vecdot(numbers, np.frombuffer(query, dtype="<f4")) / self._lengths.take(places)
        order = np.argsort(-cosines, kind="stable")
        rows, chunks, _ = self._keys[places[order]].T.tolist()
        return list(zip(rows, chunks, cosines[order].tolist(), strict=True))

    def _first_distances(self, query: numpy.typing.NDArray[numpy.uint64]) -> Any:
        import numpy as np

        distances = np.zeros(self._count, dtype=np.uint16)
        differing = np.empty(_BLOCK, dtype=np.uint64)
        counted = np.empty(_BLOCK, dtype=np.uint8)
        for start in range(0, self._count, _BLOCK):
            end = min(self._count, start + _BLOCK)
            size = end - start
            total = distances[start:end]
            for word in range(self._first):
                np.bitwise_xor(self._columns[word, start:end], query[word], out=differing[:size])
                np.bitwise_count(differing[:size], out=counted[:size])
                np.add(total, counted[:size], out=total)
        return distances

    def _reserve(self, count: int) -> None:
        import numpy as np

        held = 0 if self._keys is None else len(self._keys)
        if count > held:
            size = max(count, held + held // 2)
            self._keys = _grown(self._keys, np.empty((size, 3), dtype=np.int64), self._count)
            columns = np.empty((self._first, size), dtype=np.uint64)
            if self._count:
                columns[:, : self._count] = self._columns[:, : self._count]
            self._columns = columns
            rest = np.empty((size, self._words - self._first), dtype=np.uint64)
            self._rest = _grown(self._rest, rest, self._count)
            if self.whole:
                vectors = np.empty((min(size, self._most), self.dimensions), dtype=np.int16)
                self._vectors = _grown(self._vectors, vectors, self._count)
                self._lengths = _grown(self._lengths, np.empty(len(vectors), dtype="<f4"), self._count)


def _grown(old: Any, new: Any, count: int) -> Any:
    if count:
        new[:count] = old[:count]
    return new


def _smallest(distances: Any, count: int) -> Places:
    import numpy as np

    if count >= len(distances):
        return np.arange(len(distances))
    # A sample gives the threshold; counting all distances would take twice as long.
    step = -(-len(distances) // _SAMPLED)
    threshold = int(np.searchsorted(np.cumsum(np.bincount(distances[::step])), count / step))
    near = distances <= threshold
    while np.count_nonzero(near) < count:
        threshold += 1
        near = distances <= threshold
    while np.count_nonzero(nearer := distances < threshold) >= count:
        threshold -= 1
        near = nearer
    places = np.flatnonzero(near)
    if len(places) <= 2 * count:
        return places
    return np.sort(places[np.argpartition(distances[places], count)[:count]])
