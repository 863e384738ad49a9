"""Tells an answer that has begun to repeat itself without end. Pure.

Small models fall into such loops and go on to the end of their window.
"""

from __future__ import annotations

_LOOKED_BACK_CHARS = 2_400
_LOOK_EVERY_CHARS = 200
_NEEDLE_CHARS = 24
LEAST_REPEATED_CHARS = 600
LEAST_TIMES = 6
_LEAST_OF_FEW_SIGNS = 2_000
"""Rulers and rows of zeros are long and meant."""


class RepetitionWatch:
    """Reads an answer as it comes."""

    def __init__(self) -> None:
        self._tail = ""
        self._unlooked_chars = 0

    def repeated(self, text: str) -> str:
        """What the answer repeats over and over at its end, with this text; empty while it does not.

        It is a passage of up to 400 characters that stands there six times or more in a row, to the letter,
        in 600 characters at least.
        """
        self._tail = (self._tail + text)[-_LOOKED_BACK_CHARS:]
        self._unlooked_chars += len(text)
        if self._unlooked_chars < _LOOK_EVERY_CHARS or len(self._tail) < LEAST_REPEATED_CHARS:
            return ""
        self._unlooked_chars = 0
        return _repeated_end(self._tail)


def _repeated_end(text: str) -> str:
    needle = text[-_NEEDLE_CHARS:]
    before = text.rfind(needle, 0, len(text) - 1)
    period = len(text) - _NEEDLE_CHARS - before
    if before < 0 or period * LEAST_TIMES > len(text):
        return ""
    start = len(text) - period
    while start > 0 and text[start - 1] == text[start - 1 + period]:
        start -= 1
    repeated_chars = len(text) - start
    least = LEAST_REPEATED_CHARS if len(set(text[-period:])) > 3 else _LEAST_OF_FEW_SIGNS
    is_loop = repeated_chars >= max(least, LEAST_TIMES * period)
    return text[-period:] if is_loop else ""
