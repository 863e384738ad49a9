"""Vectors as bytes, their sign codes, and exact cosines; numpy is imported here, where it is needed.

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
from typing import Any, cast

LARGEST = 32_767
NUMBER_BYTES = 2
"""What a number of a stored vector takes."""


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


def plain_floats(blob: bytes) -> bytes:
    """A stored vector as float32 of some length, without waiting for numpy's import."""
    numbers = array("h", blob)
    if sys.byteorder == "big":
        numbers.byteswap()
    return array("f", numbers).tobytes()


def cosines(asked: bytes, stored: bytes | bytearray) -> list[float]:
    """The cosines of a question and of stored vectors, one behind the other, of the same dimensions."""
    import numpy as np

    one = np.frombuffer(asked, dtype="<f4")
    numbers = np.frombuffer(stored, dtype="<i2").reshape(-1, len(one)).astype("<f4")
    # Not a matrix product: BLAS would spread it over threads, and wait for them on a busy machine.
    return cast("list[float]", (np.vecdot(numbers, one) / lengths(numbers)).tolist())


def lengths(numbers: Any) -> Any:
    """The length of each row of float32."""
    import numpy as np

    return np.sqrt(np.vecdot(numbers, numbers))


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
