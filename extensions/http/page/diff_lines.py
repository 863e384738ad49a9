"""A unified diff, line by line, with what each line is. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from nacre.record import Record


class DiffLine(Record):
    """One line; `kind` is `file`, `place`, `added`, `gone` or `same`."""

    kind: str
    text: str


def diff_lines(diff: str) -> tuple[DiffLine, ...]:
    """The lines of a unified diff; git's own headings become the name of the file."""
    return tuple(_lines(diff))


def diff_of(before: str, after: str, name: str) -> str:
    """The unified diff between two texts of a note."""
    return "\n".join(
        difflib.unified_diff(before.splitlines(), after.splitlines(), name, name, lineterm="", n=2)
    )


def _lines(diff: str) -> Iterator[DiffLine]:
    in_hunk = False
    for line in diff.splitlines():
        if line.startswith("diff --git"):
            in_hunk = False
        elif line.startswith("@@"):
            in_hunk = True
            yield DiffLine(kind="place", text=line)
        elif not in_hunk:
            if line.startswith("+++ "):
                yield DiffLine(kind="file", text=line[4:].removeprefix("b/"))
        elif line.startswith("+"):
            yield DiffLine(kind="added", text=line[1:])
        elif line.startswith("-"):
            yield DiffLine(kind="gone", text=line[1:])
        else:
            yield DiffLine(kind="same", text=line[1:])
