"""An answer as plain text while it comes: for screens on which nothing can be drawn anew."""

from __future__ import annotations

from typing import Protocol

from nacre.cli.screen.plain import plain
from nacre.cli.screen.screen import Screen


class AnswerText(Protocol):
    """Where the words of an answer go."""

    def feed(self, text: str) -> None:
        """Takes the next characters."""

    def paint(self) -> None:
        """Shows what has come, as far as it was not shown yet."""

    def end(self) -> None:
        """Shows the rest for ever; the next words begin on a line of their own."""


class PlainAnswer:
    """Words at once, as they are. White space around a block of them is not shown."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._held = ""
        self._in_block = False

    def feed(self, text: str) -> None:
        """Shows the next characters; a word may wait for its end."""
        text = self._held + plain(text)
        if not self._in_block:
            text = text.lstrip("\n")
        shown = text.rstrip()
        self._held = text[len(shown) :]
        if shown:
            self._in_block = True
            self._screen.text(shown)

    def paint(self) -> None:
        """Nothing is left to show."""

    def end(self) -> None:
        """Ends the line."""
        self._held, self._in_block = "", False
        self._screen.end_line()


def answer_on(screen: Screen) -> AnswerText:
    """Markdown where the screen is live, else the words as they are."""
    if not screen.is_live:
        return PlainAnswer(screen)
    from nacre.cli.screen.streamed_markdown import StreamedMarkdown

    return StreamedMarkdown(screen)
