"""Pages of a text, and the replacement of one passage."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.runtime.file_text import MAX_PAGE_CHARS, encoded, is_binary, page, replaced_once, text_to_change
from nacre.runtime.tools import ToolFailed


@pytest.mark.parametrize(
    ("from_line", "lines", "shown"),
    [
        (1, None, "a\nb\nc\nd"),
        (1, 4, "a\nb\nc\nd"),
        (2, 2, "b\nc\n\n[Lines 2-3 of 4; go on with from=4.]"),
        (4, 10, "d\n\n[Lines 4-4 of 4.]"),
    ],
)
def test_page_says_what_it_shows(from_line: int, lines: int | None, shown: str) -> None:
    """A whole file comes plain; a part says which lines of how many it is, and where to go on."""
    assert page("a\nb\nc\nd\n", from_line=from_line, lines=lines) == shown


def test_page_behind_the_end_and_of_nothing() -> None:
    """Asking behind the end is an error with the number of lines; an empty file says that it is empty."""
    with pytest.raises(ToolFailed, match="Line 3 is behind the end: the file has 2 lines"):
        page("a\nb\n", from_line=3, lines=None)
    assert page("", from_line=1, lines=None) == "(The file is empty.)"


@given(st.lists(st.text(alphabet="ab", max_size=400), min_size=1, max_size=200))
def test_pages_joined_are_the_file(lines: list[str]) -> None:
    """Following the note from page to page shows every line once, and no page is too long."""
    text = "\n".join([*lines, "end\n"])
    seen: list[str] = []
    while len(seen) < len(lines) + 1:
        shown = page(text, from_line=len(seen) + 1, lines=None)
        assert len(shown) < MAX_PAGE_CHARS + 100
        body = shown.rsplit("\n\n[Lines ", 1)[0] if "[Lines " in shown else shown
        seen += body.split("\n")

    assert seen == [*lines, "end"]


def test_a_line_longer_than_a_page_is_cut_visibly() -> None:
    """One endless line is shown up to the limit, with the number of characters that follow."""
    shown = page("x" * (MAX_PAGE_CHARS + 7), from_line=1, lines=None)

    assert shown == "x" * MAX_PAGE_CHARS + " […7 more characters]"


def test_one_occurrence_is_replaced() -> None:
    """The passage is replaced exactly, also over several lines and to nothing."""
    assert replaced_once("a\nb\nc\n", "b\nc", "x", name="n.md") == "a\nx\n"
    assert replaced_once("a b c", " b", "", name="n.md") == "a c"


def test_windows_line_ends_are_kept() -> None:
    """A passage given with plain line feeds is found in a CRLF file, which stays one."""
    assert replaced_once("a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", name="n.md") == "x\r\ny\r\nz\r\nc\r\n"


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("", "x", "old_text is empty"),
        ("a", "a", "are the same"),
        ("zzz", "x", r"was not found in n\.md\. Read the file again"),
        ("one  two", "x", "is there with different white space"),
        ("dup", "x", r"found 3 times in n\.md \(lines 2, 2, 3\)"),
    ],
)
def test_what_cannot_be_replaced_is_explained(old: str, new: str, problem: str) -> None:
    """Each refusal says why and what to do."""
    with pytest.raises(ToolFailed, match=problem):
        replaced_once("one two\ndup dup\ndup\na\n", old, new, name="n.md")


def test_only_readable_text_is_changed() -> None:
    """Binary files and broken UTF-8 are refused before anything is overwritten; broken input too."""
    assert is_binary(b"PK\0\1")
    with pytest.raises(ToolFailed, match="binary"):
        text_to_change(b"PK\0\1", "n.zip")
    with pytest.raises(ToolFailed, match=r"not valid UTF-8 \(byte 3\)"):
        text_to_change(b"caf\xe9", "n.md")
    with pytest.raises(ToolFailed, match="broken character at position 1"):
        encoded("a\ud800", "n.md")
    assert text_to_change("é".encode(), "n.md") == "é"
