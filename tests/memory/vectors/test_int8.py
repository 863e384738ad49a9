"""The vectors of sentences as signed bytes."""

from __future__ import annotations

import numpy as np
import pytest

from nacre.memory.vectors.int8 import best_int8, plain_question_int8, to_int8
from nacre.memory.vectors.vector_math import plain_question


def test_cosines_of_bytes_are_those_of_the_vectors() -> None:
    """Within thousandths, and of each row the best one."""
    random = np.random.default_rng(7)
    vectors = random.standard_normal((9, 384))
    asked = vectors[4] + 0.8 * random.standard_normal(384)
    exact = vectors @ asked / (np.linalg.norm(vectors, axis=1) * np.linalg.norm(asked))
    rows = [b"".join(map(to_int8, vectors[first:end].tolist())) for first, end in ((0, 3), (3, 4), (4, 9))]

    best = best_int8(to_int8(asked.tolist()), rows)

    assert best == pytest.approx([exact[:3].max(), exact[3], exact[4:].max()], abs=0.005)
    assert best_int8(to_int8(asked.tolist()), []) == []


def test_a_question_has_the_same_bytes_without_numpy() -> None:
    """Nothing depends on which of the two was loaded."""
    vector = np.random.default_rng(8).standard_normal(384).tolist()
    assert plain_question_int8(plain_question(vector)) == to_int8(vector)
    assert not any(plain_question_int8(plain_question([0.0, 0.0])))
    assert not any(to_int8([0.0, 0.0]))
