"""Breaks streamed text into lines between words, as it comes. Pure: text in, text out."""

from __future__ import annotations

from nacre.cli.screen.plain import cell_width

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
        self._word = ""
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
                self._word = character
                shown.append(self._placed(columns))
            else:
                self._word += character
        return "".join(shown)

    def finish(self, columns: int) -> str:
        """The text is complete: returns what was held back."""
        return self._placed(columns)

    def _placed(self, columns: int) -> str:
        if not self._word:
            return ""
        word, width = self._word, cell_width(self._word)
        before, needed = self._spaces, len(self._spaces) + width
        self._word, self._spaces = "", ""
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
