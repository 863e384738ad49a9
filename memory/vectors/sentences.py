"""The sentences of a text that get vectors of their own, beside the one of the whole text. Pure.

Among ten lines about other things one line is washed out of a vector; its own keeps it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nacre.memory.text.markdown_blocks import HEADING

LEAST_CHARS = 25
"""A shorter sentence is read together with the next one; a third of that in scripts of many signs."""
MOST_CHARS = 240

_END = re.compile(r"(?<=[.!?…])[\"')\]]*\s+|(?<=[。！？])")
_MARK = re.compile(r"^\s*(?:(?:[-*+>]|\d{1,3}[.)])\s+)*")
_MANY_SIGNS = "\u2e7f"


def sentences_of(text: str) -> tuple[str, ...]:
    """The sentences of each line without the marks of lists and quotations; who speaks is kept.

    Each is at most about `MOST_CHARS` long.
    """
    found: list[str] = []
    held = ""
    for sentence in _parts(text):
        together = f"{held} {sentence}" if held else sentence
        held = together if _is_short(together) else ""
        if not held:
            found.append(together)
    if held and found and len(found[-1]) < MOST_CHARS:
        found[-1] = f"{found[-1]} {held}"
    elif held:
        found.append(held)
    return tuple(found)


def _parts(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        if HEADING.match(line):
            line = line.lstrip(" #")
        line = _MARK.sub("", line, count=1)
        start = 0
        for end in [*(match.end() for match in _END.finditer(line)), len(line)]:
            sentence, start = line[start:end].strip(), max(start, end)
            while len(sentence) > MOST_CHARS:
                cut = sentence.rfind(" ", MOST_CHARS // 2, MOST_CHARS) + 1 or MOST_CHARS
                yield sentence[:cut].strip()
                sentence = sentence[cut:]
            if sentence:
                yield sentence


def _is_short(sentence: str) -> bool:
    many_signs = sum(char > _MANY_SIGNS for char in sentence) * 2 > len(sentence)
    return len(sentence) < (LEAST_CHARS // 3 if many_signs else LEAST_CHARS)
