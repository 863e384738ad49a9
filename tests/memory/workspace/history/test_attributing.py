"""Whose the changes of a note are, and a text with those of some writers alone."""

from __future__ import annotations

from hypothesis import given, strategies as st

from nacre.memory.workspace.history.commits import attributed, layer

LINES = st.lists(st.sampled_from(["a\n", "b\n", "# h\n", "\n", "c\n", "d\n"]), max_size=12)


def test_lines_of_two_writers_are_told_apart() -> None:
    """What a session added goes with its heading; a line between them that nobody knows is a hand's."""
    old = ["# Log\n", "- first\n"]
    new = ["# Log\n", "- first\n", "\n", "## Evening\n", "- from A\n", "- by hand\n", "- from B\n"]
    known = {4: "A", 6: "B"}

    changes = attributed(old, new, known.get, hand="hand")

    assert [(each.writer, each.lines) for each in changes] == [
        ("A", ("\n", "## Evening\n", "- from A\n")),
        ("hand", ("- by hand\n",)),
        ("B", ("- from B\n",)),
    ]
    assert layer(old, changes, frozenset({"hand"})) == [*old, "- by hand\n"]
    assert layer(old, changes, frozenset({"hand", "A"})) == new[:6]


def test_moved_lines_are_a_hands() -> None:
    """A known line that only changed its place was moved by hand."""
    old = ["x\n", "a\n", "b\n", "c\n"]

    changes = attributed(old, ["a\n", "b\n", "c\n", "x\n"], {3: "A"}.get, hand="hand")

    assert {each.writer for each in changes} == {"hand"}


@given(LINES, LINES, st.dictionaries(st.integers(0, 12), st.sampled_from("AB")))
def test_all_layers_together_are_the_text(old: list[str], new: list[str], known: dict[int, str]) -> None:
    """Without a writer a text is as it was, with all of them as it is."""
    changes = attributed(old, new, known.get, hand="hand")

    assert layer(old, changes, frozenset()) == old
    assert layer(old, changes, frozenset({"hand", "A", "B"})) == new
