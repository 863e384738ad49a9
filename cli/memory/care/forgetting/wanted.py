"""Which lines are to be forgotten, and a text without them. Pure.

A question names the lines that have all of its words; lines of a note that are named by their place are also
looked for elsewhere, by what they say.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Callable, Iterable

from nacre.record import Record

FORGOTTEN = "[forgotten]"
"""What stands in a transcript where something was said that is forgotten."""

_LEAST_WORDS = 3
"""A shorter line, such as `- ok`, is found elsewhere only where a line says that and nothing else."""
_WORD = re.compile(r"\w+")


class Wanted(Record):
    """What is to go: lines with all these `words`, or lines that say one of these `texts`."""

    words: frozenset[str] = frozenset()
    texts: tuple[str, ...] = ()

    def says(self, line: str) -> bool:
        """Whether a line says it."""
        found = _words(line)
        if self.words:
            return self.words <= set(found)
        said = f" {' '.join(found)} "
        return any(
            f" {text} " in said if text.count(" ") + 1 >= _LEAST_WORDS else f" {text} " == said
            for text in self.texts
        )

    def says_any(self, text: str) -> bool:
        """Whether a line of a text says it."""
        return any(map(self.says, text.splitlines()))

    def left(self, text: str) -> str:
        """A text without the lines that say it; a mark stands for them."""
        lines = text.splitlines(keepends=True)
        return "".join(
            FORGOTTEN + line[len(line.rstrip("\r\n")) :] if self.says(line) else line for line in lines
        )


def named_by(query: str) -> Wanted:
    """What a question names; nothing if it has no word."""
    return Wanted(words=frozenset(_words(query)))


def said_in(lines: Iterable[str]) -> Wanted:
    """What these lines say, wherever it stands."""
    return Wanted(texts=tuple(dict.fromkeys(filter(None, (" ".join(_words(line)) for line in lines)))))


class Cut(Record):
    """A note as it is, and without some of its lines."""

    path: str
    before: bytes
    after: bytes
    lines: tuple[str, ...]

    @property
    def diff(self) -> list[str]:
        """What goes, as a unified diff."""
        before, after = (data.decode("utf-8", "replace").splitlines() for data in (self.before, self.after))
        return list(difflib.unified_diff(before, after, self.path, self.path, lineterm=""))


def cut_of(path: str, data: bytes, goes: Callable[[int, str], bool]) -> Cut | None:
    """A note without the lines that go, by their number from 1 and what they say; `None` if all stay."""
    kept: list[bytes] = []
    gone: list[str] = []
    for number, raw in enumerate(data.splitlines(keepends=True), start=1):
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        if goes(number, line):
            gone.append(line)
        else:
            kept.append(raw)
    return Cut(path=path, before=data, after=b"".join(kept), lines=tuple(gone)) if gone else None


def _words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
