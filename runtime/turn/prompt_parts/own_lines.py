"""Notes as a prompt carries them: without the lines that are not the owner's word."""

from __future__ import annotations

from collections.abc import Sequence

from nacre.memory.files.sources.sources import Sources
from nacre.memory.workspace.workspace import CUT_MARK
from nacre.prompts import render


async def own_lines(sources: Sources, path: str, text: str) -> str:
    """The text of the note `path` without what others, or a tool, may have said.

    A sentence stands in the place of such lines and says how to read them. They stay in the note, where tools
    find them with their source. Of a note that was cut, a line is left out at each side of the cut: nobody
    knows whose word the rest of a line is.
    """
    lines = text.split("\n")
    found = await sources.of_lines(path, lines)
    is_left_out = [source is not None and not source.is_owners_word for source in found]
    beside = _beside_cuts(lines)
    if beside and await sources.has_foreign_lines(path):
        for number in beside:
            is_left_out[number] = True
    shown: list[str] = []
    count = 0
    for line, is_out in zip((*lines, ""), (*is_left_out, False), strict=True):
        if is_out:
            count += 1
            continue
        if count:
            shown.append(render("recall/not_own_lines", path=path, count=str(count)))
        shown.append(line)
        count = 0
    return "\n".join(shown[:-1])


def _beside_cuts(lines: Sequence[str]) -> list[int]:
    """The last line with text before the mark of a cut, and the first behind it."""
    marks = [number for number, line in enumerate(lines) if line.startswith(CUT_MARK)]
    beside: list[int] = []
    for mark in marks:
        before = (number for number in range(mark - 1, -1, -1) if lines[number].strip())
        after = (number for number in range(mark + 2, len(lines)) if lines[number].strip())
        beside += [number for found in (before, after) if (number := next(found, -1)) >= 0]
    return beside
