"""Edits are done one by one, in any selection, and touch no other line."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, strategies as st

from nacre.extensions.curation.edits import Edit, Place, tidied

PATH = "MEMORY.md"
LINES = ("- a", "- b", "- b", "", "## H", "text", "## K", "", "```", "# no heading", "```")


def _place(number: int, text: str) -> Place:
    return Place(path=PATH, number=number, text=text)


@given(st.lists(st.sampled_from(LINES), max_size=12), st.data())
def test_only_named_lines_go_and_only_written_ones_come(lines: list[str], data: st.DataObject) -> None:
    """Whatever the note and the selection: all other lines are there, in their order."""
    there = [number for number, line in enumerate(lines, start=1) if line.strip()]
    gone = data.draw(st.lists(st.sampled_from(there), unique=True, max_size=3) if there else st.just([]))
    edits = [
        Edit(kind="superseded", evidence=(), removed=(_place(number, lines[number - 1]),)) for number in gone
    ] + [Edit(kind="fold", evidence=(), added=("- new",), under=data.draw(st.sampled_from(["", "H", "New"])))]

    made = tidied(PATH, "\n".join(lines), edits)

    def told(text: str) -> Counter[str]:
        return Counter(line for line in text.split("\n") if line.strip())

    came = told(made.after) - told("\n".join(lines))
    assert told("\n".join(lines)) - told(made.after) <= Counter(lines[number - 1] for number in gone)
    assert came in (Counter(["- new"]), Counter(["- new", "## New"]), Counter(["- new", "## H"]))
    assert len(made.edits) == len(edits)


def test_the_nearest_of_equal_lines_goes() -> None:
    """A line that stands twice is known by its number, also after lines above went."""
    text = "- x\n- b\n- c\n- b\n"

    made = tidied(
        PATH,
        text,
        [
            Edit(kind="superseded", evidence=(), removed=(_place(1, "- x"),)),
            Edit(kind="superseded", evidence=(), removed=(_place(4, "- b"),)),
        ],
    )

    assert made.after == "- b\n- c\n"


def test_an_edit_whose_line_is_not_there_is_left_out() -> None:
    """As where the owner did not want the edit that would have written it."""
    made = tidied(PATH, "- a\n", [Edit(kind="superseded", evidence=(), removed=(_place(1, "- z"),))])

    assert (made.after, made.edits, made.diff) == ("- a\n", (), "")


def test_line_ends_of_windows_stay() -> None:
    """A note with CRLF gets CRLF, and the diff has no other line."""
    edit = Edit(kind="fold", evidence=(), removed=(_place(3, "- a"),), added=("- b",))

    assert tidied(PATH, "# T\r\n\r\n- a\r\n- c\r\n", [edit]).after == "# T\r\n\r\n- b\r\n- c\r\n"


def test_a_first_note_is_made() -> None:
    """Without a MEMORY.md the diff makes one, under the heading that was named."""
    made = tidied(PATH, None, [Edit(kind="fold", evidence=(), added=("- a",), under="Facts")])

    assert made.after == "## Facts\n\n- a\n"
    assert "--- /dev/null" in made.diff
