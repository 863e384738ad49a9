"""Chunks that every provider takes, whatever the script; golden cases of the acceptance list."""

from __future__ import annotations

from itertools import pairwise

import pytest

from nacre.memory.contracts.records import Chunk
from nacre.memory.text.chunker import MAX_CHUNK_BYTES, ChunkSizes, Document, chunk_document, content_hash


def _chunks(text: str, tokens: int = 400, overlap: int = 80) -> list[Chunk]:
    document = Document(source="memory", path="memory/a.md", lines=text.split("\n"), day=None)
    return chunk_document(document, ChunkSizes(tokens=tokens, overlap_tokens=overlap))


@pytest.mark.parametrize("unit", ["x", "é", "ж", "α", "ع", "प", "記", "ก", "한", "😀"])
@pytest.mark.parametrize("tokens", [400, 8192, 100_000])
@pytest.mark.covers("CHUNK-3", "CHUNK-4", "CHUNK-6")
def test_no_provider_gets_more_bytes_than_it_takes(unit: str, tokens: int) -> None:
    """CHUNK-3, 4, 6: lines of 9,000 characters are cut below 8,000 bytes, and join back to what they were."""
    text = unit * 9_000
    chunks = _chunks(text, tokens, overlap=0)

    assert "".join(chunk.text for chunk in chunks) == text
    for chunk in chunks:
        assert len(chunk.text.encode()) <= min(MAX_CHUNK_BYTES, 4 * tokens)
        assert (chunk.start_line, chunk.end_line) == (1, 1)
        assert chunk.content_hash == content_hash(chunk.text)


@pytest.mark.covers("Q-9")
def test_pieces_of_one_line_differ_by_their_number() -> None:
    """Quirk 9: equal pieces of a long line are different chunks of the same lines."""
    chunks = _chunks("a" * 4_800, overlap=0)

    assert len({chunk.content_hash for chunk in chunks}) == 1
    assert [chunk.ordinal for chunk in chunks] == [0, 1, 2]


@pytest.mark.parametrize(
    ("text", "tokens", "overlap", "ranges"),
    [
        ("a\nb\n", 400, 80, [(1, 2)]),
        ("\n".join(["x" * 100] * 20), 100, 20, None),
        ("\n".join(["a" * 200] * 50), 200, 0, None),
        ("\n".join(["abcdefghij"] * 10), 1, 0, [(1, 3), (4, 6), (7, 9), (10, 10)]),
    ],
)
@pytest.mark.covers("CHUNK-1")
def test_golden_inputs_keep_their_limits(
    text: str, tokens: int, overlap: int, ranges: list[tuple[int, int]] | None
) -> None:
    """CHUNK-1: the published inputs are cut at whole lines within the limit, which is at least 32."""
    chunks = _chunks(text, tokens, overlap)
    found = [(chunk.start_line, chunk.end_line) for chunk in chunks]

    assert all(len(chunk.text) <= max(32, 4 * tokens) for chunk in chunks)
    assert ranges is None or found == ranges
    if overlap == 0:
        assert all(left[1] + 1 == right[0] for left, right in pairwise(found))
    else:
        assert all(left[0] < right[0] <= left[1] + 1 for left, right in pairwise(found))
