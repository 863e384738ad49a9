"""Chunks: size, line ranges, seams, headings, days."""

from __future__ import annotations

import time
from datetime import date
from itertools import pairwise

import pytest
from hypothesis import example, given, strategies as st

from nacre.memory.contracts.records import Chunk
from nacre.memory.text.chunker import (
    MAX_CHUNK_BYTES,
    ChunkSizes,
    Document,
    chunk_document,
    content_hash,
    cut_long_line,
    day_in_path,
    decode_markdown,
    units,
)

SMALL = ChunkSizes(tokens=20, overlap_tokens=5)
LINES = st.lists(
    st.one_of(
        st.sampled_from(
            ["", "# Title", "## Part 2026-02-10", "```", "| a | b |", "|---|---|", "- item", "===="]
        ),
        st.text(alphabet=st.characters(exclude_characters="\n", exclude_categories=("Cs",)), max_size=300),
    ),
    max_size=40,
)


def _chunks(text: str, sizes: ChunkSizes = SMALL, path: str = "memory/notes.md") -> list[Chunk]:
    lines = decode_markdown(text.encode())
    return chunk_document(Document(source="memory", path=path, lines=lines, day=day_in_path(path)), sizes)


def _ranges(chunks: list[Chunk]) -> list[tuple[int, int]]:
    return [(chunk.start_line, chunk.end_line) for chunk in chunks]


@given(LINES)
@example(["x" * 81, "x" * 80, ""])
@example(["a" * 79 + "😀", "记" * 50])
@pytest.mark.covers("Q-30")
def test_every_line_is_covered_exactly_and_no_chunk_is_too_large(lines: list[str]) -> None:
    """Each line with words lies in a chunk; a chunk says what its lines say; none is over the limit."""
    text = "\n".join(lines)
    said = decode_markdown(text.encode())
    chunks = _chunks(text)

    covered = {line for chunk in chunks for line in range(chunk.start_line, chunk.end_line + 1)}
    assert {number for number, line in enumerate(said, 1) if line.strip()} <= covered
    for chunk in chunks:
        assert units(chunk.text) <= SMALL.limit
        assert chunk.text.strip()
        assert chunk.content_hash == content_hash(chunk.text)
        whole = "\n".join(said[chunk.start_line - 1 : chunk.end_line])
        assert chunk.text == whole or (chunk.start_line == chunk.end_line and chunk.text in whole)
    assert [chunk.ordinal for chunk in chunks] == list(range(len(chunks)))
    assert _ranges(chunks) == sorted(_ranges(chunks))


@given(st.text(alphabet="ab .。记", min_size=200, max_size=900))
def test_a_long_line_is_cut_without_losing_a_word(line: str) -> None:
    """The pieces of a line hold every character but the spaces around cuts, in order."""
    pieces = [*cut_long_line(line, SMALL.limit)]

    assert "".join("".join(pieces).split()) == "".join(line.split())
    assert all(units(piece) <= SMALL.limit for piece in pieces)


@pytest.mark.parametrize(
    ("unit", "sizes"),
    [
        ("記憶", ChunkSizes()),
        ("\x00", ChunkSizes()),
        ("word ", ChunkSizes(tokens=8, overlap_tokens=0)),
    ],
)
def test_a_huge_line_takes_a_moment(unit: str, sizes: ChunkSizes) -> None:
    """The time grows with the line, not with its square: a megabyte once took half a minute."""
    started = time.process_time()
    chunks = _chunks(unit * 150_000, sizes)

    assert sum(len("".join(chunk.text.split())) for chunk in chunks) == 150_000 * len(unit.strip())
    assert time.process_time() - started < 4


@pytest.mark.parametrize("text", ["", "\n\n\n", "  \n\t\n", "\ufeff"])
@pytest.mark.covers("CHUNK-2")
def test_blank_files_have_no_chunks(text: str) -> None:
    """Nothing blank is ever indexed or embedded."""
    assert _chunks(text) == []


def test_a_small_file_is_one_chunk_without_its_blank_edges() -> None:
    """The range begins and ends at a line with words."""
    (chunk,) = _chunks("\n\n# Facts\n\n- one\n\n")

    assert (chunk.start_line, chunk.end_line, chunk.text) == (3, 5, "# Facts\n\n- one")


def test_a_heading_is_the_best_place_to_cut() -> None:
    """A section that does not fit goes to the next chunk whole, and nothing is shared across its heading."""
    text = "# A\n" + "word word word\n" * 3 + "## B\n" + "other other other\n" * 3

    chunks = _chunks(text)

    assert _ranges(chunks) == [(1, 4), (5, 8)]
    assert [chunk.heading_path for chunk in chunks] == [("A",), ("A", "B")]


def test_a_heading_is_never_the_last_line_of_a_chunk() -> None:
    """A heading stays with the first line below it, over blank lines too."""
    text = "para para para para para para para para para para para\n" * 1 + "## B\n\n" + "x " * 12

    for chunk in _chunks(text, ChunkSizes(tokens=16, overlap_tokens=0)):
        assert not chunk.text.rstrip().endswith("## B")


def test_code_is_not_cut_when_it_fits() -> None:
    """A fence goes to the next chunk whole; headings inside it are no headings."""
    code = "```sh\n# not a heading\nmake all\nmake test\n```"
    text = f"intro intro intro intro intro\n\n{code}\n\nafter after after\n"

    chunks = _chunks(text)

    fence = next(chunk for chunk in chunks if "```sh" in chunk.text)
    assert "make test\n```" in fence.text
    assert all(chunk.heading_path == () for chunk in chunks)


def test_a_table_keeps_its_head_with_its_first_row() -> None:
    """The cut is made before the table or between later rows."""
    text = "words words words words words words words\n| name | size |\n|---|---|\n" + "| aaaa | bbbb |\n" * 8

    for chunk in _chunks(text):
        assert not chunk.text.endswith(("| name | size |", "|---|---|"))


def test_list_items_are_cut_between_not_inside() -> None:
    """A cut falls before an item rather than before the second line of one."""
    text = "".join(f"- item {number} begins\n  and goes on\n" for number in range(8))

    for chunk in _chunks(text, ChunkSizes(tokens=20, overlap_tokens=0)):
        assert chunk.text.startswith("- item")


def test_neighbours_share_whole_lines() -> None:
    """The overlap is what fits into its tokens, from the end of the chunk before."""
    text = "\n".join(f"line number {number:02d}" for number in range(20))

    chunks = _chunks(text, ChunkSizes(tokens=20, overlap_tokens=8))

    for before, after in pairwise(chunks):
        assert before.start_line < after.start_line <= before.end_line


@pytest.mark.parametrize(("unit", "tokens"), [("記", 400), ("ก", 400), ("😀", 400), ("word ", 320)])
def test_dense_scripts_count_as_the_models_count_them(unit: str, tokens: int) -> None:
    """A Han, Thai or emoji character counts a whole token, so that a chunk stays near its size."""
    chunks = _chunks(unit * 2000, ChunkSizes())

    assert all(len(chunk.text) // len(unit) <= tokens for chunk in chunks)
    assert all(chunk.start_line == chunk.end_line == 1 for chunk in chunks)
    assert all("\ufffd" not in chunk.text for chunk in chunks)


@pytest.mark.covers("CHUNK-1")
def test_one_line_of_4825_letters_gives_chunks_of_at_most_1600() -> None:
    """The seeds' golden case: more than one chunk, none over the limit, none of equal place and text."""
    chunks = _chunks("a" * 4825, ChunkSizes(tokens=400, overlap_tokens=0))

    assert len(chunks) == 4
    assert all(len(chunk.text) <= 1600 for chunk in chunks)
    assert sum(len(chunk.text) for chunk in chunks) == 4825


@pytest.mark.covers("CHUNK-6")
def test_no_chunk_is_larger_than_any_provider_takes() -> None:
    """`chunking.tokens` above every provider's limit is cut down to it."""
    chunks = _chunks("word " * 10_000, ChunkSizes(tokens=100_000))

    assert all(len(chunk.text.encode()) <= MAX_CHUNK_BYTES for chunk in chunks)


@pytest.mark.parametrize(
    ("raw", "lines"),
    [
        (b"a\r\nb\n", ["a", "b", ""]),
        (b"\xef\xbb\xbfa", ["a"]),
        (b"caf\xe9", ["caf\u00e9"]),
        ("\u00fc ok\n".encode() + b"\x80 K\xf6ln\r\n\x81", ["\u00fc ok", "\u20ac K\u00f6ln", "\ufffd"]),
        ("\u00fc \u6771".encode()[:-1], ["\u00fc \ufffd"]),
        ("a\nb".encode("utf-16"), ["a", "b"]),
        (b"a\x00b", ["a\ufffdb"]),
        ("a\u2028b\x0cc".encode(), ["a\u2028b\x0cc"]),
    ],
)
def test_bytes_become_lines_as_editors_count_them(raw: bytes, lines: list[str]) -> None:
    """CRLF, a byte order mark, NUL and other separators do not shift line numbers. A line not in UTF-8 is
    Windows-1252, unless it ends inside a character.
    """
    assert decode_markdown(raw) == lines


def test_the_day_comes_from_the_nearest_heading_or_the_file_name() -> None:
    """A dated heading wins over the name; an impossible date is none."""
    dated = _chunks("# 2026-02-11 standup\n\nwords", path="memory/2026-02-10.md")
    named = _chunks("# Standup\n\nwords", path="memory/2026-02-10-standup.md")

    assert dated[0].date == date(2026, 2, 11)
    assert named[0].date == date(2026, 2, 10)
    assert day_in_path("memory/2026-02-30.md") is None
    assert day_in_path("memory/ticket-92025-06-15.md") is None
    assert _chunks("words", path="MEMORY.md")[0].date is None


def test_each_day_of_a_page_has_chunks_of_its_own() -> None:
    """A heading with another day begins a chunk; one below it without a day does not."""
    text = "# Wifi\n\nIn the hall.\n\n## 2026-01-12\n\ntulip\n\n### Guests\n\nfern\n\n## 2026-05-02\n\nrose\n"
    sizes = ChunkSizes()

    assert [(chunk.date, chunk.start_line, chunk.end_line) for chunk in _chunks(text, sizes)] == [
        (None, 1, 3),
        (date(2026, 1, 12), 5, 11),
        (date(2026, 5, 2), 13, 15),
    ]
    log = "Rain.\n\n# 2026-02-10\n\ntulip\n"
    assert len(_chunks(log, sizes, path="memory/2026-02-10.md")) == 1
