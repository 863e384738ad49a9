"""One of two files of the index that import numpy: vectors as bytes, their sign codes, and the coarse pass.

A vector is stored as 16-bit whole numbers in proportion, the largest of them `LARGEST`: only its direction
counts. That is half as large as float32, and cosines are off by a millionth or two.
A code is one bit for each number of a vector: its sign. Hamming distance between codes follows the angle
between vectors closely enough to choose candidates; who uses it scores them exactly afterwards.
"""

from __future__ import annotations

import math
import struct
import sys
from array import array
from collections.abc import Sequence
from operator import mul
from typing import TYPE_CHECKING, Any, TypeAlias, cast

if TYPE_CHECKING:
    import numpy
    import numpy.typing

    Places: TypeAlias = numpy.typing.NDArray[numpy.intp]
    Mask: TypeAlias = numpy.typing.NDArray[numpy.bool_]

Row: TypeAlias = tuple[int, int, int, bytes, bytes | None]

LARGEST = 32_767
NUMBER_BYTES = 2
"""What a number of a stored vector takes."""

_FIRST_WORDS = 4
"""64-bit words of a long code that the first look compares: memory bandwidth is what costs."""

_FIRST_KEEP = 8
"""How many times the wanted number the first look keeps."""

_FARTHEST = 32_767
"""A distance in bits that no code has, and to which the bits of a whole code can be added."""

_BLOCK = 32_768
"""Codes compared at a time, so that intermediate results stay in the processor's cache."""


def to_blob(vector: Sequence[float]) -> bytes:
    """A vector as it is stored; numbers that are not finite count as 0."""
    return _whole_numbers(_normal(vector))


def whole_numbers(blob: Any) -> bytes | None:
    """As `to_blob`, of what indexes before version 3 stored: float32, little-endian."""
    import numpy as np

    return None if blob is None else _whole_numbers(np.frombuffer(blob, dtype="<f4"))


def question(vector: Sequence[float]) -> bytes:
    """A vector of length one as float32: what stored ones are compared with."""
    return bytes(_normal(vector).tobytes())


def _normal(vector: Sequence[float]) -> Any:
    import numpy as np

    values = np.asarray(vector, dtype="<f4")
    if not np.isfinite(norm := float(np.linalg.norm(values))):
        values = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
        norm = float(np.linalg.norm(values))
    return (values / norm if norm > 0 else values).astype("<f4")


def _whole_numbers(values: Any) -> bytes:
    import numpy as np

    largest = float(np.abs(values).max(initial=0.0)) or 1.0
    return bytes(np.rint(values * (LARGEST / largest)).astype("<i2").tobytes())


def plain_question(vector: Sequence[float]) -> bytes:
    """As `question`, without waiting for numpy's import."""
    values = [number if math.isfinite(number) else 0.0 for number in vector]
    norm = math.hypot(*values)
    return struct.pack(f"<{len(values)}f", *(number / norm for number in values) if norm > 0 else values)


def plain_cosine(asked: Sequence[float], blob: bytes) -> float:
    """The cosine of a question's numbers and a stored vector, without waiting for numpy's import."""
    numbers = array("h", blob)
    if sys.byteorder == "big":
        numbers.byteswap()
    product: float = sum(map(mul, numbers, asked))
    return product / (math.hypot(*numbers) or 1.0)


def cosines(asked: bytes, blobs: Sequence[bytes]) -> list[float]:
    """The cosines of a question and stored vectors, all of the same number of dimensions."""
    import numpy as np

    stored = np.frombuffer(b"".join(blobs), dtype="<i2").reshape(len(blobs), -1)
    return cast("list[float]", _cosines(stored, asked).tolist())


def _cosines(stored: Any, asked: bytes) -> Any:
    import numpy as np

    numbers = stored.astype("<f4")
    # Not a matrix product: BLAS would spread it over threads, and wait for them on a busy machine.
    return np.vecdot(numbers, np.frombuffer(asked, dtype="<f4")) / np.sqrt(np.vecdot(numbers, numbers))


def plain_question_code(blob: bytes) -> bytes:
    """As `question_code`, without waiting for numpy's import."""
    signs = "".join("1" if number > 0 else "0" for number in struct.unpack(f"<{len(blob) // 4}f", blob))
    return int(signs.ljust(-(-len(signs) // 64) * 64, "0"), 2).to_bytes(-(-len(signs) // 64) * 8, "big")


def is_zero(blob: bytes) -> bool:
    """Whether a vector, stored or asked, points nowhere: it is like nothing, and nothing is like it."""
    return not any(blob)


def code_of(blob: bytes) -> bytes:
    """The sign code of a stored vector, padded with zeros to whole 64-bit words."""
    return _code(blob, "<i2")


def question_code(asked: bytes) -> bytes:
    """The sign code of a question."""
    return _code(asked, "<f4")


def _code(blob: bytes, kind: str) -> bytes:
    import numpy as np

    bits = np.packbits(np.frombuffer(blob, dtype=kind) > 0).tobytes()
    return bits + b"\0" * (-len(bits) % 8)


class VectorTable:
    """Vectors of one length in memory, with the ids of their rows, their chunks, and the vectors as stored.

    Of each it holds the sign code, and the vector itself until all of them would take more than `most_bytes`.
    Rows are only added; a place in the table is an index into them.
    """

    def __init__(self, dimensions: int, *, most_bytes: int) -> None:
        self.dimensions = dimensions
        self._most = most_bytes // (NUMBER_BYTES * dimensions) if dimensions else 0
        self.whole = self._most > 0
        """Whether the vectors themselves are held, and not their codes alone."""
        self._words = -(-dimensions // 64)
        # The words that every search compares lie word by word, the others row by row.
        self._first = _FIRST_WORDS if self._words >= 2 * _FIRST_WORDS else self._words
        self._count = 0
        self._keys: Any = None
        self._columns: Any = None
        self._rest: Any = None
        self._vectors: Any = None
        self._by_chunk: Any = None

    def __len__(self) -> int:
        return self._count

    def add(self, rows: Sequence[Row]) -> None:
        """Adds (row id, chunk id, vector id, code, vector); what has another length is passed over."""
        import numpy as np

        code_bytes, vector_bytes = 8 * self._words, NUMBER_BYTES * self.dimensions
        if self.whole and self._count + len(rows) > self._most:
            self.whole, self._vectors = False, None
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
            self._vectors[span] = vectors.reshape(-1, self.dimensions)
        self._count += len(rows)
        self._by_chunk = None

    def coarse(self, code: bytes, count: int, *, outside: Mask | None = None) -> Places:
        """The places of about the `count` codes nearest to `code`, rising, without what `outside` marks."""
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
        differing = np.bitwise_count(self._rest[places] ^ query[self._first :])
        return places[_smallest(distances[places] + differing.sum(axis=1, dtype=np.uint16), count)]

    def all_but(self, chunk_ids: Sequence[int]) -> Mask:
        """A mark at every place whose vector belongs to none of these chunks."""
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
        # For each chunk firsts[i], firsts[i] + 1, … up to ends[i], one behind the other.
        before = np.cumsum(counts) - counts
        return cast("Places", order[np.repeat(firsts - before, counts) + np.arange(counts.sum())])

    def keys(self, places: Places) -> list[list[int]]:
        """[row id, chunk id, vector id] at each of these places."""
        return cast("list[list[int]]", self._keys[places].tolist()) if len(places) else []

    def cosines(self, asked: bytes, places: Places) -> list[tuple[int, int, float]]:
        """(row id, chunk id, cosine) at these places, highest cosine first. For a table that is `whole`."""
        import numpy as np

        if not len(places):
            return []
        cosines = _cosines(self._vectors[places], asked)
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


def _grown(old: Any, new: Any, count: int) -> Any:
    if count:
        new[:count] = old[:count]
    return new


def _smallest(distances: Any, count: int) -> Places:
    """Places of the `count` smallest distances, and of some that are as small as the last of them."""
    import numpy as np

    if count >= len(distances):
        return np.arange(len(distances))
    threshold = int(np.searchsorted(np.cumsum(np.bincount(distances)), count))
    places = np.flatnonzero(distances <= threshold)
    if len(places) <= 2 * count:
        return places
    return np.sort(places[np.argpartition(distances[places], count)[:count]])
