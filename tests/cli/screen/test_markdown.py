"""Markdown on a terminal: it fits, no word is lost, and it drives nothing."""

from __future__ import annotations

import io
import re

import pyte
import pytest
from hypothesis import given, settings, strategies as st

from nacre.cli.screen.markdown import StreamedMarkdown, markdown_blocks, markdown_lines
from nacre.cli.screen.plain import cell_width, plain
from nacre.cli.screen.screen import Screen

STYLE = re.compile(r"\x1b\[[0-9;]*m")
PIECES = st.lists(
    st.sampled_from(
        ["# Head", "#", "- item", "  - inner", "1. one", "> said", "```", "```py", "| a | b |", "|---|---|"]
    )
    | st.sampled_from(["**bold", "**", "`code`", "word", "船の名前", "🎉", "---", "===", "<b>", "[a]: x"])
    | st.sampled_from(["\n", "\n\n", " ", "    in", "\x1b[2J"]),
    max_size=25,
)


def words(lines: list[str]) -> list[str]:
    return [STYLE.sub("", line) for line in lines]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("one\ntwo", ["one", "two"]),
        ("# Head", ["Head"]),
        ("a <b>bold</b> &#x202e;word", ["a <b>bold</b> \ufffdword"]),
        ("[a]: https://example.org", ["[a]: https://example.org"]),
        ("[here](https://example.org)", ["here (https://example.org)"]),
        ("```\nx = 1\n\ny = 2\n```", ["  x = 1", "", "  y = 2"]),
        ("| a | b |\n|---|---|\n| 船 | 1 |", ["a    b", "──────", "船   1"]),
    ],
)
def test_what_markdown_looks_like(text: str, lines: list[str]) -> None:
    """Lines stay lines, addresses are seen, HTML and references are text, what reorders words is a sign."""
    assert words(markdown_lines(text, 40, is_colored=True)) == lines


def test_without_colours_only_the_weight_differs() -> None:
    """Bold stays bold; no colour is sent, also not for code."""
    drawn = "\n".join(markdown_lines("**bold** `code`\n\n```py\nx = 1\n```", 40, is_colored=False))
    assert set(STYLE.findall(drawn)) <= {"\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[3m"}
    assert "\x1b[1mbold" in drawn


def test_half_a_line_changes_nothing_before_it() -> None:
    """`#` behind a paragraph is not taken for a heading before its line is whole."""
    assert markdown_blocks("words\n#") == ["words\n#"]
    assert markdown_blocks("words\n#\n") == ["words\n", "#\n"]


@settings(max_examples=25)
@given(PIECES)
def test_a_stream_looks_like_the_whole(pieces: list[str]) -> None:
    """Painted after each piece, an answer stands there as if drawn once; it fits and drives nothing."""
    painted, whole = io.StringIO(), io.StringIO()
    often = StreamedMarkdown(Screen(painted, is_live=True, is_colored=True))
    for piece in pieces:
        often.feed(piece)
        often.paint()
    often.end()
    once = StreamedMarkdown(Screen(whole, is_live=True, is_colored=True))
    once.feed("".join(pieces))
    once.end()

    assert _scrolled(painted.getvalue()) == _scrolled(whole.getvalue())
    assert "\x1b[2J" not in painted.getvalue()
    for block in markdown_blocks(plain("".join(pieces))):
        assert all(cell_width(line) <= 20 for line in words(markdown_lines(block, 20, is_colored=True)))


def _scrolled(written: str) -> list[str]:
    """What stands on a terminal of 80 columns and 24 rows, and above it in the scroll-back."""
    screen = pyte.HistoryScreen(80, 24, history=1_000, ratio=0.5)
    pyte.Stream(screen).feed(written.replace("\n", "\r\n"))
    above = ["".join(row[column].data for column in range(80)) for row in screen.history.top]
    return [line.rstrip() for line in (*above, *screen.display)]
