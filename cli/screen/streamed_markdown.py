"""An answer in Markdown on a live screen, while it comes."""

from __future__ import annotations

from collections.abc import Iterable

from nacre.cli.screen.markdown import markdown_blocks, markdown_lines
from nacre.cli.screen.plain import plain
from nacre.cli.screen.screen import Screen


class StreamedMarkdown:
    """Text that is drawn as Markdown: blocks that are whole once and for ever, the last one anew each time.

    `feed` only takes text in; `paint` draws, and may be called as rarely as it is dear.
    """

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._waiting = ""
        self._has_block_above = False

    def feed(self, text: str) -> None:
        """Takes the next characters."""
        self._waiting += plain(text)

    def paint(self) -> None:
        """Draws what has come."""
        *finished, self._waiting = markdown_blocks(self._waiting)
        self._show(finished, self._waiting)

    def end(self) -> None:
        """Draws the rest for ever; the next text begins anew."""
        if self._waiting:
            self._show(markdown_blocks(self._waiting + "\n"), "")
        self._waiting = ""
        self._has_block_above = False

    def _show(self, finished: Iterable[str], still_open: str) -> None:
        lines: list[str] = []
        for block in finished:
            lines += self._drawn(block)
            self._has_block_above |= bool(lines)
        if lines or still_open.strip():
            self._screen.blocks(lines, self._drawn(still_open))

    def _drawn(self, text: str) -> list[str]:
        """Lines of Markdown, with an empty one before them behind other lines of this text."""
        lines = markdown_lines(text, self._screen.columns, is_coloured=self._screen.is_coloured)
        return ["", *lines] if lines and self._has_block_above else lines
