"""Streamed text breaks between words, wherever the stream was cut."""

from __future__ import annotations

import time

from hypothesis import given, strategies as st

from nacre.cli.screen.plain import cell_width
from nacre.cli.screen.screen import WordWrap


def wrapped(pieces: list[str], columns: int) -> str:
    wrap = WordWrap()
    return "".join(wrap.feed(piece, columns) for piece in pieces) + wrap.finish(columns)


def test_lines_break_at_spaces_and_beside_wide_characters() -> None:
    """Words stay whole, indentation stays, and Chinese needs no spaces."""
    text = "The quick brown fox\n\n    over 船の名前はハルシオンです the dog"
    assert wrapped([text], 12) == ("The quick\nbrown fox\n\n    over 船\nの名前はハル\nシオンです\nthe dog")


def test_a_word_longer_than_a_line_is_left_to_the_terminal() -> None:
    """It starts on a line of its own, and the text after it goes on where it ended."""
    assert wrapped(["see https://example.org/ ok"], 12) == "see\nhttps://example.org/ ok"


def test_a_word_waits_for_its_end() -> None:
    """Half a word is not shown, because it may have to move to the next line."""
    wrap = WordWrap()
    assert wrap.feed("one tw", 8) == "one"
    assert wrap.is_in_line
    assert wrap.feed("elve ", 8) == "\ntwelve"


def test_a_long_line_goes_on_under_its_text() -> None:
    """Behind a label, or its indentation, unless that leaves too little room for what follows."""
    lines = {
        "/new   a fresh session, and more": "/new   a fresh\n       session,\n       and more",
        "  indented a bit": "  indented a bit",
        "  indented a bit more": "  indented a bit\n  more",
        "a long label here  with text and more": "a long label here\nwith text and more",
        "x  abcdefghijklmnopqr": "x\nabcdefghijklmnopqr",
    }
    wrap = WordWrap(hangs=True)

    assert wrap.feed("\n".join(lines), 18) + wrap.finish(18) == "\n".join(lines.values())


def test_a_line_of_megabytes_without_a_space_is_shown_at_once() -> None:
    """Letters of a word are counted once, not once more with each letter that follows."""
    started = time.process_time()
    assert len(wrapped(["x" * 600_000], 80)) == 600_000
    assert time.process_time() - started < 3


@given(st.text(alphabet="ab 船\n", max_size=60), st.integers(min_value=1, max_value=60))
def test_pieces_do_not_matter(text: str, size: int) -> None:
    """Cut into any pieces, the same text gives the same lines."""
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    assert wrapped(pieces, 10) == wrapped([text], 10)


@given(st.lists(st.sampled_from(["a", "boat", "船", "harbour"]), max_size=30))
def test_lines_fit(words: list[str]) -> None:
    """No line is wider than the screen, and no word is lost."""
    shown = wrapped([" ".join(words)], 9)
    assert all(cell_width(line) <= 9 for line in shown.split("\n"))
    assert "".join(shown.split()) == "".join(words)
