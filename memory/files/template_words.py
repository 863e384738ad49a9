"""What of a workspace file nobody told, because its template says it: such words are no memory. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from nacre.memory.contracts.workspace import FIRST_RUN_FILE
from nacre.memory.text.markdown_blocks import HEADING
from nacre.memory.workspace.workspace import OLDER_NAMES, TEMPLATES, template_text


def told_lines(path: str, lines: Sequence[str]) -> Sequence[str]:
    """The lines of a workspace file with an empty one in place of each that its template has.

    A heading of the template stays where something was written below it, the title never. Files that no
    template made come back as they are. `path` is relative to the workspace.
    """
    template = _template_lines(path)
    if not template:
        return lines
    told = [line if HEADING.match(line) or line.strip() not in template else "" for line in lines]
    below: list[tuple[int, bool]] = []  # the headings behind a line: level, and whether it has words below it
    has_words = False
    for at in range(len(told) - 1, -1, -1):
        heading = HEADING.match(told[at])
        if heading is None:
            has_words = has_words or bool(told[at].strip())
            continue
        level = len(heading[1])
        while below and below[-1][0] > level:
            has_words = below.pop()[1] or has_words
        if told[at].strip() in template and (level == 1 or not has_words):
            told[at] = ""
        below.append((level, has_words))
        has_words = False
    return told


@cache
def _template_lines(path: str) -> frozenset[str]:
    """The lines of the template of a file, empty for a file that has none."""
    newer = {older: name for name, older in OLDER_NAMES.items()}
    name = newer.get(path, path)
    if name not in (*TEMPLATES, FIRST_RUN_FILE):
        return frozenset()
    return frozenset(line.strip() for line in template_text(name).splitlines() if line.strip())
