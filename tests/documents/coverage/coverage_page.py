"""docs/engineering/coverage.md, made from `lines.toml`: each acceptance line, its mark and its tests.

`make fix` writes the page, or `python -m tests.documents.coverage.coverage_page`.
"""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
LINES = Path(__file__).with_name("lines.toml")
PAGE = ROOT / "docs" / "engineering" / "coverage.md"

_TEST = re.compile(r"^ *(?:async )?def (test_\w+)\(", re.MULTILINE)
_HEAD = """# Acceptance lines

<!-- Made by `make fix` from tests/documents/coverage/lines.toml. Edit that file. -->

The behavior that Nacre follows was written down as acceptance lines, from the descriptions and tests of
OpenClaw. `tests/documents/coverage/lines.toml` holds what each line asks. This page lists where Nacre
differs, and the tests of each line. A line is *held* when a test fails without the behavior, *different* when
a test holds what Nacre does instead, and *absent* when no source file has the mechanism.
"""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One acceptance line."""

    group: str
    number: int
    title: str
    """The heading that it stands below."""
    asks: str
    tests: tuple[str, ...] = ()
    """Function names, each with the end of its path where the name alone is not enough."""
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
            **{key: tuple(value) if isinstance(value, list) else value for key, value in line.items()},
        )
        for group, held in groups.items()
        for number, line in held.items()
        if number != "title"
    ]


@cache
def files_by_test() -> Mapping[str, Sequence[str]]:
    """The files of `tests/` that define a test function, by its name."""
    found = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for name in dict.fromkeys(_TEST.findall(path.read_text(encoding="utf-8"))):
            found[name].append(path.relative_to(ROOT).as_posix())
    return found


def file_of(test: str, files: Mapping[str, Sequence[str]]) -> str:
    """The path of the one file that a named test stands in.

    Raises:
        ValueError: no file has it, or several have.
    """
    end, _, name = test.rpartition("::")
    found = [file for file in files.get(name, ()) if not end or f"/{file}".endswith(f"/{end}")]
    if not found:
        elsewhere = ", ".join(files.get(name, ())) or "no file"
        raise ValueError(f"{test} is named in lines.toml, and {elsewhere} has a test of this name.")
    if len(found) > 1:
        raise ValueError(f"{test} is in {' and '.join(found)}; write the end of the path and :: before it.")
    return found[0]


def page(held: Sequence[Line]) -> str:
    """The whole page."""
    parts = [_HEAD, "## Differences\n", "| Line | Asks | Mark | Instead |", "|---|---|---|---|"]
    parts += [
        f"| {line} | {line.asks} | {line.mark} | {line.instead} |" for line in held if line.mark != "held"
    ]
    for title, group in groupby(held, key=lambda line: line.title):
        parts += [f"\n## {title}\n", "| Line | Mark | Tests |", "|---|---|---|"]
        parts += [
            f"| {line} | {line.mark} | {', '.join(f'`{test}`' for test in line.tests)} |" for line in group
        ]
    return "\n".join(parts) + "\n"


def write() -> None:
    """Put the page of this checkout in its place."""
    PAGE.write_text(page(lines(LINES.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    write()
