"""A terminal, or a file in its place: whole lines, streamed text, and lines that can be taken back.

The only writer of escape sequences. Everything that is shown goes through `plain`.
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
_ROWS_LEFT = 2  # above what is open: so much of what was said last stays in sight
_UNBOUNDED_COLUMNS = sys.maxsize


class Screen:
    """One output stream. `is_live`: a terminal, where lines can be taken back and break between words;
    `is_coloured`: tones are shown.
    """

    def __init__(self, stream: TextIO, *, is_live: bool, is_coloured: bool) -> None:
        self._stream = stream
        self.is_live = is_live
        self.is_coloured = is_coloured
        self._area: list[str] = []
        self._wrap = WordWrap()

    def text(self, text: str) -> None:
        """Streams text on, from where the last text ended; the last word may wait for its end."""
        self.clear_status()
        self._write(self._wrap.feed(plain(text), self.columns))

    def line(self, text: str, tone: Tone = "plain") -> None:
        """Shows whole lines, on lines of their own; a long one goes on under its text."""
        self.end_line()
        columns, wrap = self.columns, WordWrap(hangs=True)
        shown = wrap.feed(plain(text), columns) + wrap.finish(columns)
        self._write(self._toned(shown, tone) + "\n")

    def row(self, text: str) -> None:
        """Shows a row of a table on one line, its columns as they are, cut where the screen ends."""
        shown = cut_to_cells(plain(text), self.columns)
        if "\n" in shown or "\t" in shown:
            self.line(shown)
        else:  # it fits: thousands of rows need not be looked at letter by letter
            self.end_line()
            self._write(shown.rstrip(" ") + "\n")

    def end_line(self) -> None:
        """Ends a line that streamed text left open."""
        self.clear_status()
        if self._wrap.is_in_line:
            self._write(self._wrap.finish(self.columns) + "\n")
            self._wrap = WordWrap()

    def status(self, text: str) -> None:
        """Shows a dim line that the next output replaces; nothing where lines cannot be taken back."""
        if not self.is_live:
            return
        self.end_line()
        # One column less than there are: a full line would wrap, and only half of it be cleared.
        shown = cut_to_cells(one_line(text), self.columns - 1)
        self._area = [self._toned(shown, "dim")]
        self._write(self._area[0])

    def clear_status(self) -> None:
        """Takes back the status line, and lines that may still change."""
        self._write(taken_back(self._area, self.columns))
        self._area = []

    def blocks(self, finished: Sequence[str], still_open: Sequence[str]) -> None:
        """Shows lines for ever, and below them lines that the next output replaces: the last of them, if they
        are many. Both are written as they are: fitted to `columns`, with no escape sequences but for style.
        """
        kept = list(still_open)[-max(1, self._size().lines - _ROWS_LEFT) :]
        self._write(repainted(self._area, [*finished, *kept], self.columns))
        self._area = kept
        if finished and not kept:
            self._write("\n")

    def bracket_pastes(self, *, is_on: bool) -> None:
        """Has the terminal mark what is pasted, so that its lines stay together when they are read later."""
        if self.is_live:
            self._write(_BRACKETED_PASTE_ON if is_on else _BRACKETED_PASTE_OFF)

    @property
    def columns(self) -> int:
        """The number of columns; very large if lines do not wrap."""
        return self._size().columns if self.is_live else _UNBOUNDED_COLUMNS

    def _toned(self, text: str, tone: Tone) -> str:
        code = _CODES.get(tone, "") if self.is_coloured else ""
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
    """The screen behind a stream: live on a terminal that knows escape sequences, coloured unless
    `NO_COLOR` is set (https://no-color.org)."""
    is_live = stream.isatty() and environment.get("TERM", "dumb") not in ("", "dumb")
    return Screen(stream, is_live=is_live, is_coloured=is_live and not environment.get("NO_COLOR"))


_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_CLEAR_LINE = "\r\x1b[K"
_CLEAR_DOWN = "\r\x1b[J"
_HOLD, _SHOW = "\x1b[?2026h", "\x1b[?2026l"
"""Between these a terminal shows nothing half drawn (synchronized output), if it knows them."""


def repainted(area: Sequence[str], lines: Sequence[str], columns: int) -> str:
    """Escape sequences that replace an area with `lines` and leave the cursor at the end of the last one."""
    same = next(
        (number for number, (old, new) in enumerate(zip(area, lines, strict=False)) if old != new),
        min(len(area), len(lines)),
    )
    if same == len(area):
        added = "\n".join(lines[same:])
        return f"\n{added}" if area and len(lines) > same else added
    if same == len(lines) and lines:
        same -= 1  # the cursor has to stand behind the last line that stays
    drawn = taken_back(area[same:], columns) + "\n".join(lines[same:])
    return f"{_HOLD}{drawn}{_SHOW}" if len(area) - same > 1 else drawn


def taken_back(area: Sequence[str], columns: int) -> str:
    """Escape sequences that clear an area, also after a change of width. The cursor is at its start then."""
    if not area:
        return ""
    rows = sum(max(1, -(-cell_width(_STYLE.sub("", line)) // columns)) for line in area)
    return f"\x1b[{rows - 1}A{_CLEAR_DOWN}" if rows > 1 else _CLEAR_LINE


_TAB = "    "


class WordWrap:
    """Text for a screen some columns wide. A word is held back until its end is known.

    A line breaks at a space, or beside a wide character; a word longer than a line breaks anywhere. With
    `hangs`, a line goes on under its text: behind its indentation, or behind a label and the two spaces or
    more that set it off, unless these take more than half of the columns.
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
        """Takes the next characters; returns what can be shown now."""
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
        """The text is complete: returns what was held back."""
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
