"""A terminal, or a file in its place: whole lines, streamed text, and one line that can be taken back.

The only writer of escape sequences. Everything that is shown goes through `plain`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Literal, TextIO, TypeAlias

from nacre.cli.screen.plain import cut_to_cells, one_line, plain
from nacre.cli.screen.wrapping import WordWrap

Tone: TypeAlias = Literal["plain", "dim", "warning", "error"]

_CODES: Mapping[Tone, str] = {"dim": "\x1b[2m", "warning": "\x1b[2;33m", "error": "\x1b[31m"}
_RESET = "\x1b[0m"
_CLEAR_LINE = "\r\x1b[K"
_DEFAULT_COLUMNS = 80
_UNBOUNDED_COLUMNS = sys.maxsize


class Screen:
    """One output stream. `is_live`: a terminal, where lines can be taken back and break between words;
    `is_coloured`: tones are shown.
    """

    def __init__(self, stream: TextIO, *, is_live: bool, is_coloured: bool) -> None:
        self._stream = stream
        self.is_live = is_live
        self._is_coloured = is_coloured
        self._has_status = False
        self._wrap = WordWrap()

    def text(self, text: str) -> None:
        """Streams text on, from where the last text ended; the last word may wait for its end."""
        self.clear_status()
        self._write(self._wrap.feed(plain(text), self._columns()))

    def line(self, text: str, tone: Tone = "plain") -> None:
        """Shows whole lines, on lines of their own; a long one goes on under its text."""
        self.end_line()
        columns, wrap = self._columns(), WordWrap(hangs=True)
        shown = wrap.feed(plain(text), columns) + wrap.finish(columns)
        self._write(self._toned(shown, tone) + "\n")

    def row(self, text: str) -> None:
        """Shows a row of a table on one line, its columns as they are, cut where the screen ends."""
        self.line(cut_to_cells(plain(text), self._columns()))

    def end_line(self) -> None:
        """Ends a line that streamed text left open."""
        self.clear_status()
        if self._wrap.is_in_line:
            self._write(self._wrap.finish(self._columns()) + "\n")
            self._wrap = WordWrap()

    def status(self, text: str) -> None:
        """Shows a dim line that the next output replaces; nothing where lines cannot be taken back."""
        if not self.is_live:
            return
        self.end_line()
        # One column less than there are: a full line would wrap, and only half of it be cleared.
        shown = cut_to_cells(one_line(text), self._columns() - 1)
        self._write(self._toned(shown, "dim"))
        self._has_status = True

    def clear_status(self) -> None:
        if self._has_status:
            self._has_status = False
            self._write(_CLEAR_LINE)

    def _toned(self, text: str, tone: Tone) -> str:
        code = _CODES.get(tone, "") if self._is_coloured else ""
        return f"{code}{text}{_RESET}" if code else text

    def _columns(self) -> int:
        if not self.is_live:
            return _UNBOUNDED_COLUMNS
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or _DEFAULT_COLUMNS
        except (OSError, ValueError):
            return _DEFAULT_COLUMNS

    def _write(self, text: str) -> None:
        if text:
            self._stream.write(text)
            self._stream.flush()


def screen_on(stream: TextIO, environment: Mapping[str, str]) -> Screen:
    """The screen behind a stream: live on a terminal that knows escape sequences, coloured unless
    `NO_COLOR` is set (https://no-color.org)."""
    is_live = stream.isatty() and environment.get("TERM", "dumb") not in ("", "dumb")
    return Screen(stream, is_live=is_live, is_coloured=is_live and not environment.get("NO_COLOR"))
