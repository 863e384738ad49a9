"""The vectors of sentences as signed bytes, several in a row, and their cosines; numpy is imported here, too.

A row belongs to a text: a search compares all sentences of some texts, and wants the best of each.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import cast

from nacre.memory.vectors.vector_math import question


def to_int8(vector: Sequence[float]) -> bytes:
    """A vector's direction in signed bytes, 127 its greatest number: a cosine changes by thousandths."""
    import numpy as np

    values = np.frombuffer(question(vector), dtype="<f4")
    return bytes(np.rint(values * (127 / max(float(np.abs(values).max(initial=0.0)), 1e-9))).astype("i1"))


def plain_question_int8(asked: bytes) -> bytes:
    """A question from `plain_question` as `to_int8` would have it, without waiting for numpy's import."""
    values = struct.unpack(f"<{len(asked) // 4}f", asked)
    scale = 127 / max(max(map(abs, values), default=0.0), 1e-9)
    return struct.pack(f"{len(values)}b", *(round(number * scale) for number in values))


def best_int8(asked: bytes, rows: Sequence[bytes]) -> list[float]:
    """For each row of vectors from `to_int8`, one behind the other, the best cosine of such a question."""
    import numpy as np

    if not rows:
        return []
    one = np.frombuffer(asked, dtype="i1").astype("<f4")
    stored = np.frombuffer(b"".join(rows), dtype="i1").reshape(-1, len(asked)).astype("<f4")
    lengths = np.sqrt(np.vecdot(stored, stored)) * np.sqrt(np.vecdot(one, one))
    ends = np.cumsum([len(row) // len(asked) for row in rows])
    firsts = np.concatenate(([0], ends[:-1]))
    best = np.maximum.reduceat(np.vecdot(stored, one) / np.maximum(lengths, 1.0), firsts)
    return cast("list[float]", best.tolist())
