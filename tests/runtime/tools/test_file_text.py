"""Pages of a text, and the replacement of one passage."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from nacre.runtime.tools.file_tools import encoded, is_binary, page, replaced_once, text_to_change
from nacre.runtime.tools.toolbox import MAX_PAGE_CHARS, ToolFailed


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
    assert page("a\nb\nc\nd\n", from_line=from_line, lines=lines, page_chars=MAX_PAGE_CHARS) == shown


def test_page_behind_the_end_and_of_nothing() -> None:
    """Asking behind the end is an error with the number of lines; an empty file says that it is empty."""
    with pytest.raises(ToolFailed, match="Line 3 is past the end: the file has 2 lines"):
        page("a\nb\n", from_line=3, lines=None, page_chars=MAX_PAGE_CHARS)
    assert page("", from_line=1, lines=None, page_chars=MAX_PAGE_CHARS) == "(The file is empty.)"


@given(st.lists(st.text(alphabet="ab", max_size=400), min_size=1, max_size=200))
def test_pages_joined_are_the_file(lines: list[str]) -> None:
    """Following the note from page to page shows every line once, and no page is too long."""
    text = "\n".join([*lines, "end\n"])
    seen: list[str] = []
    while len(seen) < len(lines) + 1:
        shown = page(text, from_line=len(seen) + 1, lines=None, page_chars=MAX_PAGE_CHARS)
        assert len(shown) < MAX_PAGE_CHARS + 100
        body = shown.rsplit("\n\n[Lines ", 1)[0] if "[Lines " in shown else shown
        seen += body.split("\n")

    assert seen == [*lines, "end"]


def test_a_line_longer_than_a_page_is_cut_visibly() -> None:
    """One endless line is shown up to the limit, with the way to its rest."""
    shown = page("a\n" + "x" * 107 + "\nb", from_line=2, lines=None, page_chars=100)

    assert shown == "x" * 100 + "\n\n[Line 2 of 3, 7 more characters; go on with from=2, char=101.]"


@given(st.text(alphabet="ab\n", min_size=1, max_size=300), st.integers(1, 40))
def test_a_text_of_any_lines_can_be_read_to_its_end(text: str, page_chars: int) -> None:
    """Following the notes through long lines and short ones shows every character once, in order."""
    seen, from_line, from_char = "", 1, 1
    for _ in range(len(text) + 2):
        shown = page(text, from_line=from_line, from_char=from_char, lines=None, page_chars=page_chars)
        body, _, note = shown.partition("\n\n[Line")
        go_on = re.search(r"go on with from=(\d+)(?:, char=(\d+))?", note)
        seen += body
        if go_on is None:
            break
        seen += "" if go_on[2] else "\n"
        from_line, from_char = int(go_on[1]), int(go_on[2] or 1)

    assert seen.replace("\n", "") == text.replace("\n", "")


def test_page_behind_the_end_of_a_line() -> None:
    """Asking for more of a line than it has is an error with its length."""
    with pytest.raises(ToolFailed, match="Character 4 is past the end: line 1 has 3 characters"):
        page("abc\n", from_line=1, from_char=4, lines=None, page_chars=100)


def test_one_occurrence_is_replaced() -> None:
    """The passage is replaced exactly, also over several lines and to nothing."""
    assert replaced_once("a\nb\nc\n", "b\nc", "x", name="n.md") == "a\nx\n"
    assert replaced_once("a b c", " b", "", name="n.md") == "a c"


def test_windows_line_ends_are_kept() -> None:
    """A passage given with plain line feeds is found in a CRLF file, also below a line that has them."""
    for end in ("\r\n", "\n"):
        found = replaced_once(f"a\r\nb{end}c{end}d\n", "a\nb\nc", "x\ny", name="n.md")
        assert found == f"x\r\ny{end}d\n"
    assert replaced_once("a\r\nb\n", "a\nb\n", "x\n", name="n.md") == "x\r\n"


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("", "x", "old_text is empty"),
        ("a", "a", "are the same"),
        ("zzz", "x", r"was not found in n\.md\. Read the file again"),
        ("one  two", "x", "The file has it with different white space"),
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
