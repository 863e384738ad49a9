"""Vectors as bytes, codes, and how well the coarse pass finds what the exact one finds."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from nacre.memory.contracts.store import Piece
from nacre.memory.stores.sqlite.connection import open_connection
from nacre.memory.stores.sqlite.nearest import RESIDENT_BYTES, VectorReader, VectorTable, add_vector_functions
from nacre.memory.stores.sqlite.store import SqliteStore
from nacre.memory.vectors.vector_math import (
    code_of,
    cosines,
    is_zero,
    plain_floats,
    plain_question,
    plain_question_code,
    question,
    question_code,
    to_blob,
    whole_numbers,
)
from tests.memory.stores.sample_index import MEMORY, attach_known, chunk, indexed, put, put_vectors

CHUNKS = 2_500


def _clustered(count: int, dimensions: int, seed: int) -> np.ndarray:
    """Unit vectors in clusters, as embeddings of texts on few subjects are."""
    random = np.random.default_rng(seed)
    centres = random.standard_normal((count // 60, dimensions))
    spread = centres[random.integers(0, len(centres), count)]
    vectors = spread + 0.7 * random.standard_normal((count, dimensions))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize(
    ("vector", "expected"),
    [([3.0, 4.0], [0.6, 0.8]), ([math.nan, 2.0], [0.0, 1.0]), ([math.inf, -1.0], [0.0, -1.0])],
)
def test_vectors_are_stored_by_their_direction(vector: list[float], expected: list[float]) -> None:
    """As 16-bit numbers in proportion; numbers that are not finite count as zero."""
    stored = np.frombuffer(to_blob(vector), dtype="<i2") / 32_767
    largest = max(map(abs, expected))
    assert stored.tolist() == pytest.approx([number / largest for number in expected], abs=1 / 65_000)
    assert whole_numbers(np.array(expected, dtype="<f4").tobytes()) == to_blob(vector)


def test_a_zero_vector_points_nowhere() -> None:
    """It survives as zeros and says so."""
    assert is_zero(to_blob([0.0, 0.0, math.nan]))
    assert not is_zero(to_blob([0.0, 0.1]))


@pytest.mark.parametrize("dimensions", [3, 384, 1536, 4096])
def test_cosines_of_stored_vectors_are_exact_enough(dimensions: int) -> None:
    """They are off by a few millionths, with numpy and without it; by more where there are three numbers."""
    vectors = _clustered(200, dimensions, seed=dimensions)
    asked = question(vectors[0].tolist())
    blobs = [to_blob(vector.tolist()) for vector in vectors]
    exact = (vectors @ vectors[0]).tolist()

    assert cosines(asked, b"".join(blobs)) == pytest.approx(exact, abs=4e-5)
    plain = [np.frombuffer(plain_floats(blob), "<f4") for blob in blobs]
    assert [float(numbers @ vectors[0] / np.linalg.norm(numbers)) for numbers in plain] == pytest.approx(
        exact, abs=4e-5
    )


@pytest.mark.parametrize("dimensions", [256, 384, 1536])
def test_a_code_is_whole_words(dimensions: int) -> None:
    """One bit for a number, in 64-bit words, so that odd dimensions work as well."""
    vector = [1.0, -1.0] * (dimensions // 2)

    assert len(code_of(to_blob(vector))) == dimensions // 8
    assert len(code_of(to_blob(vector[:-3]))) == dimensions // 8


@pytest.mark.parametrize(("dimensions", "most_bytes"), [(256, 0), (256, 1 << 30), (1024, 0)])
def test_a_table_finds_its_own_rows_and_keeps_to_allowed_chunks(dimensions: int, most_bytes: int) -> None:
    """The nearest code to a row's own code is that row; other lengths and other chunks are passed over."""
    vectors = _clustered(3_000, dimensions, seed=1)
    rows = [
        (at, at % 7, at + 1, code_of(blob), blob) for at, blob in enumerate(map(to_blob, vectors.tolist()))
    ]
    table = VectorTable(dimensions, most_bytes=most_bytes)
    table.add(rows[:1000])
    table.add(rows[1000:])
    table.add([(9_999, 1, 1, b"\0" * 8, b"\0" * 256)])

    def near(at: int, count: int, chunk_ids: list[int] | None = None) -> list[int]:
        outside = table.all_but(chunk_ids) if chunk_ids else None
        return [key[0] for key in table.keys(table.coarse(rows[at][3], count, outside=outside))]

    assert len(table) == 3_000
    assert all(at in near(at, 5) for at in range(0, 3_000, 97))
    assert {row % 7 for row in near(3, 50, [3, 4])} <= {3, 4}
    assert near(3, 5, [3])[0] % 7 == 3
    assert 3 in near(3, 5, [3])
    assert near(3, 500, [3]) == list(range(3, 3_000, 7))
    assert len(near(3, 10_000)) == 3_000
    assert table.keys(table.coarse(b"\0" * 8, 5)) == []
    assert sorted(table.keys(table.places_of([3, 99]))) == [[at, 3, at + 1] for at in range(3, 3_000, 7)]


@pytest.mark.parametrize("dimensions", [3, 64, 384, 1000])
def test_a_question_is_prepared_without_numpy_as_with_it(dimensions: int) -> None:
    """The first question of a process has the same bytes and the same code as any later one."""
    vector = np.random.default_rng(dimensions).standard_normal(dimensions).tolist()
    vector[1] = math.nan

    plain, asked = plain_question(vector), question(vector)

    assert np.frombuffer(plain, "<f4") == pytest.approx(np.frombuffer(asked, "<f4"), abs=1e-7)
    assert plain_question_code(asked) == question_code(asked)
    assert is_zero(plain_question([0.0, math.inf]))


def test_a_table_that_outgrows_its_memory_keeps_the_codes() -> None:
    """Exact cosines come highest first while the vectors fit; then codes alone still find."""
    vectors = _clustered(300, 128, seed=1)
    blobs = [to_blob(vector) for vector in vectors.tolist()]
    rows = [(at, at, at, code_of(blob), blob) for at, blob in enumerate(blobs)]
    table = VectorTable(128, most_bytes=200 * 128 * 2)
    table.add(rows[:150])

    scored = table.cosines(question(vectors[7].tolist()), table.places_of(list(range(150))))
    expected = np.sort(vectors[:150] @ vectors[7])[::-1]
    assert [cosine for _, _, cosine in scored] == pytest.approx(expected.tolist(), abs=1e-5)
    assert scored[0][:2] == (7, 7)
    table.add(rows[150:])

    assert (table.whole, len(table)) == (False, 300)
    assert [7, 7, 7] in table.keys(table.coarse(rows[7][3], 5))


@pytest.mark.parametrize(
    ("dimensions", "resident_bytes"),
    [
        (384, RESIDENT_BYTES),
        (384, 0),
        pytest.param(1536, RESIDENT_BYTES, marks=pytest.mark.slow),
        pytest.param(1536, 0, marks=pytest.mark.slow),
    ],
)
@pytest.mark.covers("SEED-19", "PART-24")
async def test_the_coarse_pass_finds_what_the_exact_one_finds(
    tmp_path: Path, dimensions: int, resident_bytes: int
) -> None:
    """Recall@10 against exact comparison is at least 0.99 on clustered vectors, in memory and on disk."""
    vectors = _clustered(CHUNKS, dimensions, seed=2)
    store = await SqliteStore.open(tmp_path / "main.sqlite")
    await put(store, indexed(*(chunk(f"n{at}", ordinal=at) for at in range(CHUNKS))))
    rows = await store.read(lambda index: index.without_vectors(above_id=0, limit=CHUNKS))
    pieces = [Piece(chunk_id=row[0], piece=0, text_hash=row[1].text.encode()) for row in rows]
    await put_vectors(
        store, "e", {piece.text_hash: vectors[at] for at, piece in enumerate(pieces)}, now_seconds=1
    )
    await attach_known(store, "e", pieces, now_seconds=1)
    await store.close()
    connection = open_connection(tmp_path / "main.sqlite", read_only=True)
    reader = VectorReader(add_vector_functions, resident_bytes=resident_bytes)

    found = 0
    random = np.random.default_rng(3)
    for at in random.integers(0, CHUNKS, 40):
        query = vectors[at] + 0.05 * random.standard_normal(dimensions)
        cosines = vectors @ (query / np.linalg.norm(query))
        exact = {pieces[place].chunk_id: cosines[place] for place in np.argsort(-cosines)[:10]}
        nearest = reader.begin_nearest(connection, query.tolist(), 10, MEMORY)()
        found += len(exact.keys() & nearest.keys())
        again = reader.cosines(connection, query.tolist(), list(exact))
        assert again == pytest.approx(exact, abs=1e-5)
    asked = (vectors[5].tolist(), 10, MEMORY)
    fresh = VectorReader(add_vector_functions).begin_nearest(connection, *asked)()
    assert fresh.keys() == reader.begin_nearest(connection, *asked)().keys()
    connection.close()

    assert found / 400 >= 0.99
