"""`nacre` on a terminal whose screen can be looked at, as a person sees it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pyte

from tests.cli.program import WAIT_SECONDS, Terminal

ROWS = 40
_HISTORY_ROWS = 1_000


class DrawnTerminal(Terminal):
    """A pseudo-terminal of 40 rows with the screen that its output draws."""

    def __init__(self, home: Path, *arguments: str, columns: int, **variables: str) -> None:
        self._screen = pyte.HistoryScreen(columns, ROWS, history=_HISTORY_ROWS, ratio=0.5)
        self._stream = pyte.Stream(self._screen)
        self._fed = 0
        super().__init__(home, *arguments, columns=columns, **variables)

    @property
    def lines(self) -> list[str]:
        """Everything from the top of the scroll-back to the last line with text, spaces at the ends cut."""
        above = [
            "".join(row[column].data for column in range(self._screen.columns))
            for row in self._screen.history.top
        ]
        lines = [line.rstrip() for line in (*above, *self._screen.display)]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def wait_until(self, is_so: Callable[[list[str]], bool]) -> list[str]:
        """Reads until the lines fulfil a condition, and gives them.

        Raises:
            AssertionError: the program ended, or a minute passed, before they did.
        """
        deadline = time.monotonic() + WAIT_SECONDS
        while not is_so(lines := self.lines):
            if not self._read(deadline - time.monotonic()):
                raise AssertionError("the screen never came to what was waited for:\n" + "\n".join(lines))
        return lines

    def _read(self, seconds: float) -> bool:
        has_read = super()._read(seconds)
        self._stream.feed(self.raw[self._fed :])
        self._fed = len(self.raw)
        return has_read
