"""Large pastes: a short sign in the line that is typed, the whole text in the message. Pure."""

from __future__ import annotations

import re

_MOST_LINES = 12
_MOST_CHARS = 2_000
_SIGN = re.compile(r"\[paste (\d+): [^\]\n]*\]")


class Pastes:
    """The large pastes of one chat. Two of the same text have the same sign."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def shown(self, text: str) -> str:
        """What stands in the line for a paste: the paste itself, or a sign such as `[paste 1: 240 lines]`."""
        lines = text.count("\n") + 1
        if lines <= _MOST_LINES and len(text) <= _MOST_CHARS:
            return text
        if text not in self._texts:
            self._texts.append(text)
        size = f"{lines} lines" if lines > 1 else f"{len(text)} characters"
        return f"[paste {self._texts.index(text) + 1}: {size}]"

    def whole(self, typed: str) -> str:
        """A message with the pastes in the places of their signs; a sign that nobody made stays as it is."""

        def paste(match: re.Match[str]) -> str:
            number = int(match[1])
            is_one = 0 < number <= len(self._texts) and self.shown(self._texts[number - 1]) == match[0]
            return self._texts[number - 1] if is_one else match[0]

        return _SIGN.sub(paste, typed)
