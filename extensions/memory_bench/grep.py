"""What a careful person gets from grep: the lines with most of the question's longer words. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from nacre.extensions.memory_bench.scoring import Found, Place

_SHORT = 3


class Grep:
    """The lines of all notes, in lower case."""

    def __init__(self, notes: Mapping[str, Sequence[str]]) -> None:
        self._lines = [
            (path, number, line, line.lower())
            for path, lines in sorted(notes.items())
            for number, line in enumerate(lines, 1)
        ]

    def ask(self, question: str, *, most: int) -> list[Found]:
        """The best lines, those with most words first."""
        words = {
            word
            for word in re.findall(r"\w+", question.lower())
            if len(word) > _SHORT or not word.isascii() or word.isdigit()
        }
        scored = (
            (sum(word in low for word in words), path, number, line)
            for path, number, line, low in self._lines
        )
        best = sorted((each for each in scored if each[0]), key=lambda each: -each[0])[:most]
        return [
            Found(text=line, place=Place(path=path, start_line=number, end_line=number))
            for _, path, number, line in best
        ]
