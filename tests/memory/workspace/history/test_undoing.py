"""A change taken back out of a text that went on since."""

from __future__ import annotations

from hypothesis import given, strategies as st

from nacre.memory.workspace.history.undo import Conflict, reverted

LINES = st.lists(st.sampled_from(["a\n", "b\n", "\n", "c\n"]), max_size=8)


def test_what_was_written_beside_it_stays() -> None:
    """Lines right before and right behind an added block are no part of it."""
    before = ["# Log\n"]
    after = ["# Log\n", "- added\n", "- too\n"]
    now = ["# Log\n", "- between\n", "- added\n", "- too\n", "- later\n"]

    assert reverted(before, after, now) == ["# Log\n", "- between\n", "- later\n"]


def test_a_line_that_was_changed_again_is_a_conflict() -> None:
    """It is named by where it stands now."""
    now = ["new\n", "# Log\n", "- added, and corrected\n"]

    assert reverted(["# Log\n"], ["# Log\n", "- added\n"], now) == Conflict(line=3)
    assert reverted(["# Log\n"], ["# Log\n", "- added\n"], ["# Log\n"]) == Conflict(line=2)


@given(LINES, LINES)
def test_a_change_and_its_undoing_are_nothing(before: list[str], after: list[str]) -> None:
    """Where nothing came since, the text before is there again."""
    assert reverted(before, after, after) == before


@given(LINES, LINES, LINES, LINES)
def test_lines_around_it_stay(before: list[str], after: list[str], first: list[str], last: list[str]) -> None:
    """Whatever was put around a text that the change is inside of is kept."""
    first, last = [f"> {line}" for line in first], [f"< {line}" for line in last]
    before, after = [["top\n", *lines, "end\n"] for lines in (before, after)]

    assert reverted(before, after, [*first, *after, *last]) == [*first, *before, *last]
