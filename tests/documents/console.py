"""Blocks of a document that show commands and what they print."""

from __future__ import annotations

import re
from collections.abc import Iterator

ANYTHING = "…"
"""In the shown output of a command, this stands for any text."""
FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""A block of a document: its language and its text."""


def fences(text: str, language: str) -> Iterator[str]:
    """The texts of the blocks in a language."""
    return (match[2] for match in FENCE.finditer(text) if match[1] == language)


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Each command of a block, and what stands below it."""
    for part in re.split(r"^\$ ", text.replace("\\\n", ""), flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield command, shown


def matches(shown: str, printed: str) -> bool:
    """Whether a command printed what a document shows."""
    pattern = ".*".join(re.escape(piece) for piece in shown.strip().split(ANYTHING))
    lines = "\n".join(line.rstrip() for line in printed.strip().splitlines())
    return bool(re.fullmatch(pattern, lines, re.DOTALL))
