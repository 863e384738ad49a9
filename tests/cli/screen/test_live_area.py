"""The last lines of a terminal are drawn anew without a trace of what stood there."""

from __future__ import annotations

import pyte
from hypothesis import given, settings, strategies as st

from nacre.cli.screen.screen import cleared, repaint

COLUMNS, ROWS = 10, 50
AREA = st.lists(st.sampled_from(["", "a", "boat", "船の名", "0123456789"]), max_size=6)


def shown(*written: str, columns: int = COLUMNS) -> list[str]:
    """What stands on a screen; a line feed goes to the beginning of a line, as a terminal makes it."""
    screen = pyte.Screen(columns, ROWS)
    stream = pyte.Stream(screen)
    for text in written:
        stream.feed(text.replace("\n", "\r\n"))
    return [line.rstrip() for line in screen.display]


@settings(max_examples=30)
@given(st.lists(AREA, max_size=5))
def test_only_the_last_drawing_is_seen(areas: list[list[str]]) -> None:
    """However often an area is drawn anew, it stands below what was there before, without the others."""
    written, area = ["before\n"], [""]
    for lines in areas:
        new = lines or [""]
        written.append(repaint(area, new, COLUMNS))
        area = new
    assert shown(*written)[: len(area) + 2] == ["before", *area, ""]


def test_lines_that_stay_are_not_written_again() -> None:
    """What did not change is not touched, so that it cannot flicker."""
    assert repaint(["one", "two"], ["one", "two", "three"], COLUMNS) == "\nthree"
    assert repaint(["one", "two"], ["one", "2"], COLUMNS) == "\r\x1b[K2"
    assert repaint(["one", "two"], ["one", "two"], COLUMNS) == ""


def test_a_narrower_screen_has_more_rows_to_clear() -> None:
    """Lines that a terminal broke when its width changed go whole."""
    assert cleared(["0123456789", "船の名"], 5) == "\x1b[3A\r\x1b[J"
    assert cleared(["\x1b[2m0123456789\x1b[0m"], 10) == "\r\x1b[K"
