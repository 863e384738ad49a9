"""Where a Markdown text may be split, and the headings above each line.

The *seam* of a line rates a split before it: 0 only as a last resort (inside a code fence, between the head
and the rows of a table), 10 before a first-level heading.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from nacre.record import Record

SEAM_NEVER = 0
SEAM_LINE = 1
SEAM_NESTED_ITEM = 2
SEAM_ITEM = 3
SEAM_BLOCK = 4
SEAM_HEADING = 5
"""The lowest seam of a heading: level n has the seam 11 − n."""

MAX_HEADING_CHARS = 200
"""Every chunk below a heading contains it. A paragraph that a line of `---` turns into a heading must not be
repeated in a hundred chunks."""

HEADING = re.compile(r" {0,3}(#{1,6})(?![^ \t])")
FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
ITEM = re.compile(r"([ \t]*)(?:[-*+]|\d{1,9}[.)])[ \t]")
_RETAIN = re.compile(r"retain\s*:?", re.IGNORECASE)
RETAINED = re.compile(
    r"(?P<kind>[WBOS])(?:\((?P<inside>[^)]*)\))?(?P<entities>(?:\s+@[^\s:\uff1a]+)*)\s*[:\uff1a]\s*(?P<text>.*)",
    re.DOTALL,
)
"""A line below a heading "Retain", such as `O(c=0.95) @Peter: Prefers short replies.`"""
_UNDERLINE = re.compile(r" {0,3}(?:=+|-{2,})[ \t]*$")
_INTERESTING = frozenset(["", *"#`~|-*+=0123456789 \t"])


class Headings(Record):
    """The headings of a text: `paths` are the headings in effect from each of `lines` (from 0) on."""

    lines: tuple[int, ...]
    paths: tuple[tuple[str, ...], ...]

    def path_over(self, first: int, last: int) -> tuple[str, ...]:
        """The common headings of the lines from `first` to `last` (from 0, inclusive)."""
        at, end = bisect_right(self.lines, first), bisect_right(self.lines, last)
        path = self.paths[at - 1] if at else ()
        for other in self.paths[at:end]:
            path = common_prefix(path, other)
        return path


class Outline(Record):
    """The seam of each line of a text, and its headings."""

    seams: Sequence[int]
    headings: Headings


def is_retain(line: str) -> bool:
    """Whether a line is a heading "Retain", whose lines are for pages of the bank."""
    heading = HEADING.match(line)
    return heading is not None and _RETAIN.fullmatch(line[heading.end() :].strip(" \t\r#")) is not None


def without_kind(line: str) -> str:
    """A line of a note without the letter of its kind, if it is one for the bank."""
    found = RETAINED.fullmatch(ITEM.sub("", line, count=1).strip())
    return f"{found['entities']}: {found['text']}" if found else line


def outline(lines: Sequence[str]) -> Outline:
    """Reads a text line by line. Never fails."""
    scan = _Scan(lines)
    for number, line in enumerate(lines):
        if scan.fence:
            scan.in_fence(line)
        elif line[:1] not in _INTERESTING:
            scan.text(number)
        elif not line.strip():
            scan.blank = True
            scan.table = False
        else:
            scan.marked(number, line)
    return Outline(seams=scan.seams, headings=_heading_paths(scan.marks))


class _Scan:
    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.seams = [SEAM_NEVER] * len(lines)
        self.marks: list[tuple[int, int, str]] = []
        self.fence = ""
        self.blank = True
        self.table = False
        self.item = False
        self.under_heading = False

    def in_fence(self, line: str) -> None:
        close = FENCE.match(line)
        if close and close[1].startswith(self.fence) and not line[close.end() :].strip():
            self.fence, self.blank = "", True

    def text(self, number: int) -> None:
        self._seam(number, SEAM_BLOCK if self.blank else SEAM_LINE)
        self.blank = self.table = self.item = False

    def marked(self, number: int, line: str) -> None:
        if opening := FENCE.match(line):
            self._seam(number, SEAM_BLOCK)
            self.fence = opening[1]
        elif heading := HEADING.match(line):
            self._heading(number, len(heading[1]), _title(line[heading.end() :]))
        elif line.lstrip()[:1] == "|":
            self._row(number)
        elif item := ITEM.match(line):
            self._seam(number, SEAM_NESTED_ITEM if item[1] else SEAM_ITEM)
            self.blank, self.table, self.item = False, False, True
        elif self._underlines(number, line):
            self._heading(number - 1, 1 if "=" in line else 2, self.lines[number - 1])
        elif self.item and line[0] in " \t":
            self._seam(number, SEAM_NESTED_ITEM if self.blank else SEAM_LINE)
            self.blank = self.table = False
        else:
            self.text(number)

    def _heading(self, number: int, level: int, title: str) -> None:
        self.seams[number] = SEAM_HEADING + 6 - level
        self.marks.append((number, level, title.strip()[:MAX_HEADING_CHARS].rstrip()))
        self.blank = self.table = self.item = False
        self.under_heading = True

    def _row(self, number: int) -> None:
        head = self.table and (number < 2 or self.lines[number - 2].lstrip()[:1] != "|")
        self._seam(number, (SEAM_NEVER if head else SEAM_NESTED_ITEM) if self.table else SEAM_BLOCK)
        self.blank, self.table, self.item = False, True, False

    def _underlines(self, number: int, line: str) -> bool:
        return (
            number > 0
            and not (self.blank or self.table or self.item or self.under_heading)
            and _UNDERLINE.match(line) is not None
        )

    def _seam(self, number: int, seam: int) -> None:
        # A heading is never separated from the first line below it.
        self.seams[number] = SEAM_NEVER if self.under_heading else seam
        self.under_heading = False


def _title(text: str) -> str:
    text = text.strip(" \t")
    opened = text.rstrip("#")
    return opened if not opened or opened[-1] in " \t" else text


def _heading_paths(marks: Sequence[tuple[int, int, str]]) -> Headings:
    open_levels: list[tuple[int, str]] = []
    paths: list[tuple[str, ...]] = []
    for _, level, title in marks:
        while open_levels and open_levels[-1][0] >= level:
            open_levels.pop()
        open_levels.append((level, title))
        paths.append(tuple(text for _, text in open_levels if text))
    return Headings(lines=tuple(number for number, _, _ in marks), paths=tuple(paths))


def common_prefix(left: tuple[str, ...], right: tuple[str, ...]) -> tuple[str, ...]:
    same = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        same += 1
    return left[:same]


def prose_lines(lines: Sequence[str]) -> Iterator[int]:
    """The places, from 0, of lines that are no headings, code, quotations or blank lines."""
    fence = ""
    for at, line in enumerate(lines):
        opens = FENCE.match(line)
        if fence:
            fence = "" if line.strip().startswith(fence) else fence
        elif opens:
            fence = opens[1]
        elif line.strip() and not HEADING.match(line) and not line.lstrip().startswith(">"):
            yield at
