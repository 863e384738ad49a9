"""Vectors as bytes, their sign codes, and exact cosines. numpy is imported when it is needed.

Only the direction of a vector counts, so it is stored as 16-bit integers of which the largest is `LARGEST`.
That is half the size of float32, and cosines are off by one or two millionths. A code has the sign of each
number as one bit. The Hamming distance of codes follows the angle of vectors closely enough to select
candidates, whose exact cosines are computed afterwards.
"""

from __future__ import annotations

import math
import struct
import sys
from array import array
from collections.abc import Sequence
from typing import Any, cast

LARGEST = 32_767
NUMBER_BYTES = 2
"""The size of a number of a stored vector."""


def to_blob(vector: Sequence[float]) -> bytes:
    """A vector in the stored format; numbers that are not finite count as 0."""
    return _whole_numbers(_normal(vector))


def whole_numbers(blob: Any) -> bytes | None:
    """Like `to_blob`, for vectors of indexes before version 3: little-endian float32."""
    import numpy as np

    return None if blob is None else _whole_numbers(np.frombuffer(blob, dtype="<f4"))


def question(vector: Sequence[float]) -> bytes:
    """The vector of a question as float32 of length one, to compare with stored vectors."""
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
    """Like `question`, without importing numpy."""
    values = [number if math.isfinite(number) else 0.0 for number in vector]
    norm = math.hypot(*values)
    return struct.pack(f"<{len(values)}f", *(number / norm for number in values) if norm > 0 else values)


def plain_floats(blob: bytes) -> bytes:
    """A stored vector as float32 of any length, without importing numpy."""
    numbers = array("h", blob)
    if sys.byteorder == "big":
        numbers.byteswap()
    return array("f", numbers).tobytes()


def cosines(query: bytes, stored: bytes | bytearray) -> list[float]:
    """The cosines of a question and adjacent stored vectors with as many numbers."""
    import numpy as np

    one = np.frombuffer(query, dtype="<f4")
    numbers = np.frombuffer(stored, dtype="<i2").reshape(-1, len(one)).astype("<f4")
    # Not a matrix product, because BLAS would use threads and wait for them on a busy machine.
    return cast("list[float]", (np.vecdot(numbers, one) / lengths(numbers)).tolist())


def lengths(numbers: Any) -> Any:
    """The norm of each row of float32."""
    import numpy as np

    return np.sqrt(np.vecdot(numbers, numbers))


def plain_question_code(blob: bytes) -> bytes:
    """Like `question_code`, without importing numpy."""
    signs = "".join("1" if number > 0 else "0" for number in struct.unpack(f"<{len(blob) // 4}f", blob))
    return int(signs.ljust(-(-len(signs) // 64) * 64, "0"), 2).to_bytes(-(-len(signs) // 64) * 8, "big")


def is_zero(blob: bytes) -> bool:
    """Whether a stored vector or a question is a zero vector, which resembles nothing."""
    return not any(blob)


def code_of(blob: bytes) -> bytes:
    """The sign code of a stored vector, padded with zeros to whole 64-bit words."""
    return _code(blob, "<i2")


def question_code(query: bytes) -> bytes:
    return _code(query, "<f4")


def _code(blob: bytes, kind: str) -> bytes:
    import numpy as np

    bits = np.packbits(np.frombuffer(blob, dtype=kind) > 0).tobytes()
    return bits + b"\0" * (-len(bits) % 8)
