"""Text that a terminal is sent can show, but not drive."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from wcwidth import wcswidth, wcwidth

from nacre.cli.screen.plain import cell_width, cut_to_cells, one_line, plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2Jgone", "␛[2Jgone"),
        ("\x1b]52;c;aGk=\x07", "␛]52;c;aGk=␇"),
        ("\x9b31m", "\ufffd31m"),
        ("seen\rhidden", "seenhidden"),
        ("a\r\nb\tc", "a\nb\tc"),
        ("\u202etxt.exe", "\ufffdtxt.exe"),
        ("lone \ud83d half", "lone \ufffd half"),
        ("naïve 船 🐚", "naïve 船 🐚"),
    ],
)
def test_what_could_drive_a_terminal_becomes_visible(text: str, shown: str) -> None:
    """Escape sequences, clipboard writes, overwriting and reordering show up as text."""
    assert plain(text) == shown


@given(st.text())
def test_no_control_character_gets_through(text: str) -> None:
    """Whatever comes in, only line feeds and tabs are left of the control characters."""
    shown = plain(text)
    assert not [c for c in shown if (ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160]
    shown.encode("utf-8")


def test_one_line_joins_white_space() -> None:
    """Line feeds in a tool's summary do not break the line that shows it."""
    assert one_line(" a\n\n b\x1b ") == "a b␛"


@pytest.mark.parametrize(
    ("text", "cells"), [("abc", 3), ("船名", 4), ("e\u0301", 1), ("", 0), ("❤️", 2), ("👩‍🌾", 2)]
)
def test_wide_characters_take_two_columns(text: str, cells: int) -> None:
    """Columns are counted, not characters."""
    assert cell_width(text) == cells


def test_what_needs_no_table_of_widths_has_the_width_of_the_table() -> None:
    """Latin letters and signs are counted without the library that knows all widths, and take as much."""
    characters = [chr(code) for code in range(0x20, 0x3000) if wcwidth(chr(code)) >= 0]
    assert [cell_width(each) for each in characters] == [wcwidth(each) for each in characters]


@given(st.text(), st.integers(min_value=0, max_value=30))
def test_cut_text_fits(text: str, cells: int) -> None:
    """A cut text never takes more columns than it may."""
    assert cell_width(cut_to_cells(text, cells)) <= cells


def test_a_cut_shows() -> None:
    """What was cut ends in an ellipsis; what fits stays as it is."""
    assert cut_to_cells("船の名前", 6) == "船の…"
    assert cut_to_cells("boat", 4) == "boat"


@given(st.text(st.characters(max_codepoint=0x2060, categories=["L", "N", "P", "S", "Zs", "Cf"])))
def test_the_short_way_to_a_width_ends_at_the_same_number(text: str) -> None:
    """Texts of Latin letters and their punctuation are not looked up, and are as wide as if they were."""
    assert cell_width(text) == max(wcswidth(text), 0)
