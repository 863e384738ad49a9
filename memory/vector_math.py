"""The only file of the index that imports numpy: vectors as bytes, their sign codes, and the coarse pass.

A code is one bit for each number of a vector: its sign. Hamming distance between codes follows the angle
between vectors closely enough to choose candidates; who uses it scores them exactly afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy
    import numpy.typing

_FIRST_WORDS = 8
"""64-bit words of each code that the first look compares; it is memory bandwidth that costs."""

_FIRST_KEEP = 4
"""How many times the wanted number the first look keeps."""

_BLOCK = 32_768
"""Codes compared at a time, so that intermediate results stay in the processor's cache."""


def to_blob(vector: Sequence[float]) -> bytes:
    """A vector of length one as little-endian float32; numbers that are not finite count as 0."""
    import numpy as np

    values = np.nan_to_num(np.asarray(vector, dtype="<f4"), nan=0.0, posinf=0.0, neginf=0.0)
    norm = float(np.linalg.norm(values))
    return bytes((values / norm if norm > 0 else values).astype("<f4").tobytes())


def is_zero(blob: bytes) -> bool:
    """Whether a vector from `to_blob` points nowhere: it is like nothing, and nothing is like it."""
    return not any(blob)


def code_of(blob: bytes) -> bytes:
    """The sign code of a vector, padded with zeros to whole 64-bit words."""
    import numpy as np

    bits = np.packbits(np.frombuffer(blob, dtype="<f4") > 0).tobytes()
    return bits + b"\0" * (-len(bits) % 8)


def cosine_distance(left: bytes, right: bytes) -> float:
    """1 − cosine of two vectors of length one; stands in for sqlite-vec's function of that meaning."""
    import numpy as np

    return 1.0 - float(np.dot(np.frombuffer(left, dtype="<f4"), np.frombuffer(right, dtype="<f4")))


class CodeTable:
    """Sign codes in memory, with the id of the row that each belongs to. Rows are only added."""

    def __init__(self, code_bytes: int) -> None:
        self.code_bytes = code_bytes
        self._words = code_bytes // 8
        self._count = 0
        self._ids: Any = None
        self._chunks: Any = None
        self._columns: Any = None

    def __len__(self) -> int:
        return self._count

    def add(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Adds (row id, chunk id, code); codes of another length than the table's are passed over."""
        import numpy as np

        rows = [row for row in rows if len(row[2]) == self.code_bytes]
        if not rows:
            return
        codes = np.frombuffer(b"".join(row[2] for row in rows), dtype=np.uint64).reshape(-1, self._words)
        self._reserve(self._count + len(rows))
        span = slice(self._count, self._count + len(rows))
        self._ids[span] = [row[0] for row in rows]
        self._chunks[span] = [row[1] for row in rows]
        self._columns[:, span] = codes.T
        self._count += len(rows)

    def nearest(self, code: bytes, count: int, *, chunk_ids: Collection[int] | None = None) -> list[int]:
        """Row ids of about the `count` codes nearest to `code`, among `chunk_ids` when given, in no order."""
        import numpy as np

        if not self._count or len(code) != self.code_bytes:
            return []
        query = np.frombuffer(code, dtype=np.uint64)
        places: Any = None
        if chunk_ids is not None:
            wanted = np.fromiter(chunk_ids, dtype=np.int64, count=len(chunk_ids))
            places = np.flatnonzero(np.isin(self._chunks[: self._count], wanted))
        elif self._words > _FIRST_WORDS and self._count > count * _FIRST_KEEP:
            first = self._distances(query, range(_FIRST_WORDS))
            places = _smallest(first, count * _FIRST_KEEP)
        if places is None:
            return [
                int(row) for row in self._ids[_smallest(self._distances(query, range(self._words)), count)]
            ]
        full = np.bitwise_count(self._columns[:, places] ^ query[:, None]).sum(axis=0, dtype=np.uint16)
        return [int(row) for row in self._ids[places[_smallest(full, count)]]]

    def _distances(self, query: numpy.typing.NDArray[numpy.uint64], words: range) -> Any:
        import numpy as np

        distances = np.zeros(self._count, dtype=np.uint16)
        differing = np.empty(_BLOCK, dtype=np.uint64)
        counted = np.empty(_BLOCK, dtype=np.uint8)
        for start in range(0, self._count, _BLOCK):
            end = min(self._count, start + _BLOCK)
            size = end - start
            total = distances[start:end]
            for word in words:
                np.bitwise_xor(self._columns[word, start:end], query[word], out=differing[:size])
                np.bitwise_count(differing[:size], out=counted[:size])
                np.add(total, counted[:size], out=total)
        return distances

    def _reserve(self, count: int) -> None:
        import numpy as np

        held = 0 if self._ids is None else len(self._ids)
        if count <= held:
            return
        size = max(count, held + held // 2)
        ids, chunks = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
        columns = np.empty((self._words, size), dtype=np.uint64)
        if self._count:
            ids[: self._count], chunks[: self._count] = self._ids[: self._count], self._chunks[: self._count]
            columns[:, : self._count] = self._columns[:, : self._count]
        self._ids, self._chunks, self._columns = ids, chunks, columns


def _smallest(distances: Any, count: int) -> Any:
    """Places of the `count` smallest distances, and of some that are as small as the last of them."""
    import numpy as np

    if count >= len(distances):
        return np.arange(len(distances))
    threshold = int(np.searchsorted(np.cumsum(np.bincount(distances)), count))
    places = np.flatnonzero(distances <= threshold)
    if len(places) <= 2 * count:
        return places
    return places[np.argpartition(distances[places], count)[:count]]
