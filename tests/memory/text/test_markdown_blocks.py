"""Seams and headings of Markdown lines."""

from __future__ import annotations

import time

import pytest

from nacre.memory.text.markdown_blocks import (
    MAX_HEADING_CHARS,
    SEAM_BLOCK,
    SEAM_HEADING,
    SEAM_ITEM,
    SEAM_NEVER,
    outline,
)


def test_heading_paths_follow_the_levels() -> None:
    """A heading closes those of its level and below; what lines have in common is the path over them."""
    lines = ["# A", "x", "## B", "x", "### C", "x", "## D", "x", "# E", "x"]
    headings = outline(lines).headings

    assert headings.path_over(1, 1) == ("A",)
    assert headings.path_over(5, 5) == ("A", "B", "C")
    assert headings.path_over(5, 7) == ("A",)
    assert headings.path_over(7, 9) == ()
    assert headings.path_over(9, 9) == ("E",)


def test_underlined_headings_count_and_rules_do_not() -> None:
    """`Title` over `===` or `---` is a heading; `---` after a blank line or a list is not."""
    lines = ["Title", "=====", "x", "", "Part", "---", "x", "", "---", "- item", "---"]

    assert outline(lines).headings.paths == (("Title",), ("Title", "Part"))


def test_closing_hashes_are_not_part_of_a_heading() -> None:
    """`## B ##` is the heading B, and `#hashtag` is none."""
    assert outline(["## B ##", "#hashtag"]).headings.paths == (("B",),)


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("# C #", ("C",)),
        ("# C#", ("C#",)),
        ("#\tA \t##  ", ("A",)),
        ("## #", ("Top",)),
        ("###", ("Top",)),
        ("   ### B # b", ("Top", "B # b")),
        ("#\u00a0no heading", None),
    ],
)
def test_headings_are_read_as_markdown_says(line: str, path: tuple[str, ...] | None) -> None:
    """Signs close a heading only behind a blank, and a heading may have no text."""
    assert outline(["# Top", line]).headings.paths[1:] == (() if path is None else (path,))


def test_a_paragraph_over_a_rule_does_not_stand_in_every_chunk() -> None:
    """Markdown takes it for a heading; what the chunks below it carry is bounded."""
    (path,) = outline(["many words " * 500, "---", "text"]).headings.paths

    assert path[0].startswith("many words")
    assert len(path[0]) <= MAX_HEADING_CHARS


def test_a_heading_of_blanks_is_read_at_once() -> None:
    """Half a megabyte of blanks inside a heading costs no more than reading it."""
    started = time.process_time()

    assert outline(["# a" + " " * 500_000 + "b #"]).headings.lines == (0,)
    assert time.process_time() - started < 2


def test_seams_rank_headings_over_blocks_over_items_over_lines() -> None:
    """The higher the seam, the better the place to cut."""
    lines = ["# A", "x", "", "para", "goes on", "- item", "  on", "- item", "## B", "x"]
    seams = outline(lines).seams

    assert seams[8] > seams[3] > seams[7] > seams[4] > SEAM_NEVER
    assert seams[8] >= SEAM_HEADING
    assert (seams[3], seams[7]) == (SEAM_BLOCK, SEAM_ITEM)
    assert seams[1] == SEAM_NEVER


def test_a_fence_ends_only_with_its_own_kind() -> None:
    """Tildes do not close backticks, and an unclosed fence reaches to the end."""
    closed = outline(["```", "~~~", "# no", "```", "# yes"])
    unclosed = outline(["```", "# no"])

    assert closed.headings.paths == (("yes",),)
    assert unclosed.headings.paths == ()
