"""docs/engineering/coverage.md, made from `lines.toml` and the markers on the tests.

`make fix` writes the page, or `python -m tests.documents.coverage.coverage_page`.
"""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
LINES = Path(__file__).with_name("lines.toml")
PAGE = ROOT / "docs" / "engineering" / "coverage.md"

_MARKER = re.compile(r"^ *@pytest\.mark\.covers\(([^)]*)\)\n *(?:async )?def (test_\w+)\(", re.MULTILINE)
_HEAD = """# Acceptance lines

<!-- Made by `make fix` from tests/documents/coverage/lines.toml and the markers on the tests. -->

The behavior that Nacre follows was written down as acceptance lines, from the descriptions and tests of
OpenClaw. `tests/documents/coverage/lines.toml` holds what each line asks, and `@pytest.mark.covers` on a test
which lines it holds. This page lists where Nacre differs, and the tests of each line. A line is *held* when a
test fails without the behavior, *different* when a test holds what Nacre does instead, and *absent* when no
source file has the mechanism.
"""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One acceptance line."""

    group: str
    number: int
    title: str
    """The heading that it stands below."""
    asks: str
    instead: str = ""
    absent: str = ""
    """An expression that no source file matches; `folder:` before it limits the search."""

    @property
    def mark(self) -> str:
        if self.absent:
            return "absent"
        return "different" if self.instead else "held"

    def __str__(self) -> str:
        return f"{self.group}-{self.number}"


def lines(text: str) -> list[Line]:
    """The lines of a file like `lines.toml`, in its order.

    Raises:
        TypeError: a line has a key that is not one of `Line`, or misses `asks`.
    """
    groups: Mapping[str, Mapping[str, Any]] = tomllib.loads(text)
    return [
        Line(
            group=group,
            number=int(number),
            title=held["title"],
            **(line if isinstance(line, dict) else {"asks": line}),
        )
        for group, held in groups.items()
        for number, line in held.items()
        if number != "title"
    ]


def covered_by(sources: Iterable[str]) -> Mapping[str, Sequence[str]]:
    """The names of the tests that cover a line, by its name, in the order of the sources.

    Raises:
        ValueError: a marker does not stand directly above its test.
    """
    found = defaultdict(list)
    for source in sources:
        markers = _MARKER.findall(source)
        if len(markers) < len(re.findall(r"^ *@pytest\.mark\.covers\(", source, re.MULTILINE)):
            raise ValueError("@pytest.mark.covers stands directly above the test, below other decorators.")
        for covered, test in markers:
            for line in re.findall(r'"([^"]*)"', covered):
                found[line].append(test)
    return found


def covered_here() -> Mapping[str, Sequence[str]]:
    """The tests of this checkout by the lines that they cover."""
    return covered_by(path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests").rglob("*.py")))


def page(held: Sequence[Line], tests: Mapping[str, Sequence[str]]) -> str:
    """The whole page."""
    parts = [_HEAD, "## Differences\n", "| Line | Asks | Mark | Instead |", "|---|---|---|---|"]
    parts += [
        f"| {line} | {line.asks} | {line.mark} | {line.instead} |" for line in held if line.mark != "held"
    ]
    for title, group in groupby(held, key=lambda line: line.title):
        parts += [f"\n## {title}\n", "| Line | Mark | Tests |", "|---|---|---|"]
        parts += [
            f"| {line} | {line.mark} | {', '.join(f'`{test}`' for test in tests.get(str(line), ()))} |"
            for line in group
        ]
    return "\n".join(parts) + "\n"


def write() -> None:
    """Put the page of this checkout in its place."""
    PAGE.write_text(page(lines(LINES.read_text(encoding="utf-8")), covered_here()), encoding="utf-8")


if __name__ == "__main__":
    write()
