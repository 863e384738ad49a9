"""Output to a terminal or a file: whole lines, streamed text, and lines that can be replaced.

It is the only writer of escape sequences. All output goes through `plain`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Literal, TextIO, TypeAlias

from nacre.cli.screen.plain import cell_width, cut_to_cells, one_line, plain

Tone: TypeAlias = Literal["plain", "dim", "warning", "error", "added", "removed"]

_CODES: Mapping[Tone, str] = {
    "dim": "\x1b[2m",
    "warning": "\x1b[2;33m",
    "error": "\x1b[31m",
    "added": "\x1b[2;32m",
    "removed": "\x1b[2;31m",
}
_RESET = "\x1b[0m"
_BRACKETED_PASTE_ON, _BRACKETED_PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"
_DEFAULT_SIZE = os.terminal_size((80, 24))
_ROWS_LEFT = 2  # of the previous text, which stay visible above an open block
_UNBOUNDED_COLUMNS = sys.maxsize


class Screen:
    """One output stream. If `is_live`, it is a terminal, where lines can be replaced and wrap between words;
    if `is_colored`, it shows tones.
    """

    def __init__(self, stream: TextIO, *, is_live: bool, is_colored: bool) -> None:
        self._stream = stream
        self.is_live = is_live
        self.is_colored = is_colored
        self._area: list[str] = []
        self._wrap = WordWrap()

    def text(self, text: str) -> None:
        """Writes text after the previous text; an incomplete last word may wait for its end."""
        self.clear_status()
        self._write(self._wrap.feed(plain(text), self.columns))

    def line(self, text: str, tone: Tone = "plain") -> None:
        """Shows whole lines; a long one is wrapped and indented like its text."""
        self.end_line()
        columns, wrap = self.columns, WordWrap(hangs=True)
        shown = wrap.feed(plain(text), columns) + wrap.finish(columns)
        self._write(self._toned(shown, tone) + "\n")

    def row(self, text: str) -> None:
        """Shows a row of a table on one line, cut at the width of the screen."""
        shown = cut_to_cells(plain(text), self.columns)
        if "\n" in shown or "\t" in shown:
            self.line(shown)
        else:  # faster for thousands of rows, because it does not look at each letter
            self.end_line()
            self._write(shown.rstrip(" ") + "\n")

    def end_line(self) -> None:
        """Ends a line that streamed text left open."""
        self.clear_status()
        if self._wrap.is_in_line:
            self._write(self._wrap.finish(self.columns) + "\n")
            self._wrap = WordWrap()

    def status(self, text: str) -> None:
        """Shows a dim line that the next output replaces; nothing if the screen is not live."""
        if not self.is_live:
            return
        self.end_line()
        # One column less than the screen has, because a full line would wrap and be cleared only in part.
        shown = cut_to_cells(one_line(text), self.columns - 1)
        self._area = [self._toned(shown, "dim")]
        self._write(self._area[0])

    def clear_status(self) -> None:
        """Removes the status line, and lines that may still change."""
        self._write(cleared(self._area, self.columns))
        self._area = []

    def blocks(self, finished: Sequence[str], still_open: Sequence[str]) -> None:
        """Shows permanent lines, and below them the last of `still_open`, which the next output replaces.

        Both must fit `columns` and have no escape sequences except for style.
        """
        kept = list(still_open)[-max(1, self._size().lines - _ROWS_LEFT) :]
        self._write(repaint(self._area, [*finished, *kept], self.columns))
        self._area = kept
        if finished and not kept:
            self._write("\n")

    def bracket_pastes(self, *, is_on: bool) -> None:
        """Makes the terminal mark pasted text, so that its lines stay together when they are read later."""
        if self.is_live:
            self._write(_BRACKETED_PASTE_ON if is_on else _BRACKETED_PASTE_OFF)

    @property
    def columns(self) -> int:
        """The number of columns; very large if lines do not wrap."""
        return self._size().columns if self.is_live else _UNBOUNDED_COLUMNS

    def _toned(self, text: str, tone: Tone) -> str:
        code = _CODES.get(tone, "") if self.is_colored else ""
        return f"{code}{text}{_RESET}" if code else text

    def _size(self) -> os.terminal_size:
        try:
            size = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError):
            return _DEFAULT_SIZE
        return size if size.columns and size.lines else _DEFAULT_SIZE

    def _write(self, text: str) -> None:
        if text:
            self._stream.write(text)
            self._stream.flush()


def screen_on(stream: TextIO, environment: Mapping[str, str]) -> Screen:
    """The screen behind a stream: live on a terminal that knows escape sequences, colored unless
    `NO_COLOR` is set (https://no-color.org)."""
    is_live = stream.isatty() and environment.get("TERM", "dumb") not in ("", "dumb")
    return Screen(stream, is_live=is_live, is_colored=is_live and not environment.get("NO_COLOR"))


_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_CLEAR_LINE = "\r\x1b[K"
_CLEAR_DOWN = "\r\x1b[J"
_HOLD, _SHOW = "\x1b[?2026h", "\x1b[?2026l"
"""Between these, a terminal that knows them draws nothing (synchronized output)."""


def repaint(area: Sequence[str], lines: Sequence[str], columns: int) -> str:
    """Escape sequences that replace an area with `lines` and leave the cursor at the end of the last one."""
    same = next(
        (number for number, (old, new) in enumerate(zip(area, lines, strict=False)) if old != new),
        min(len(area), len(lines)),
    )
    if same == len(area):
        added = "\n".join(lines[same:])
        return f"\n{added}" if area and len(lines) > same else added
    if same == len(lines) and lines:
        same -= 1  # the cursor must be at the end of the last line that stays
    drawn = cleared(area[same:], columns) + "\n".join(lines[same:])
    return f"{_HOLD}{drawn}{_SHOW}" if len(area) - same > 1 else drawn


def cleared(area: Sequence[str], columns: int) -> str:
    """Escape sequences that clear an area, also after a change of width; the cursor is at its start then."""
    if not area:
        return ""
    rows = sum(max(1, -(-cell_width(_STYLE.sub("", line)) // columns)) for line in area)
    return f"\x1b[{rows - 1}A{_CLEAR_DOWN}" if rows > 1 else _CLEAR_LINE


_TAB = "    "


class WordWrap:
    """Wraps text for a screen. A word is held back until its end is known.

    A line breaks at a space, or beside a wide character; a word longer than a line breaks anywhere. With
    `hangs`, the next lines are indented like the text: after its indentation, or after a label with at least
    two spaces, unless that takes more than half of the columns.
    """

    def __init__(self, *, hangs: bool = False) -> None:
        self._hangs = hangs
        self._hang = 0
        self._column = 0
        self._word: list[str] = []
        self._spaces = ""

    @property
    def is_in_line(self) -> bool:
        return bool(self._column or self._word or self._spaces)

    def feed(self, text: str, columns: int) -> str:
        """Adds the next characters, and returns the text that can be shown now."""
        shown: list[str] = []
        for character in text:
            if character == "\n":
                shown += [self._placed(columns), "\n"]
                self._column, self._spaces, self._hang = 0, "", 0
            elif character in " \t":
                shown.append(self._placed(columns))
                self._spaces += _TAB if character == "\t" else character
            elif cell_width(character) == 2:
                shown.append(self._placed(columns))
                self._word = [character]
                shown.append(self._placed(columns))
            else:
                self._word.append(character)
        return "".join(shown)

    def finish(self, columns: int) -> str:
        """Ends the text, and returns what was held back."""
        return self._placed(columns)

    def _placed(self, columns: int) -> str:
        if not self._word:
            return ""
        word = "".join(self._word)
        width = cell_width(word)
        before, needed = self._spaces, len(self._spaces) + width
        self._word, self._spaces = [], ""
        if self._column and self._column + needed > columns:
            hang = self._hang if self._hang + width <= columns else 0
            self._column = (hang + width) % columns or columns
            return "\n" + " " * hang + word
        if self._hangs and not self._hang and (len(before) > 1 or not self._column):
            start = self._column + len(before)
            self._hang = start if 2 * start <= columns else 0
        self._column += needed
        if self._column > columns:
            self._column %= columns
        return before + word
