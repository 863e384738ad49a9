"""The size and the shape of the code, and whether they keep their limits.

    python -m benchmarks.house.table [--check]

Prints how many files each flow runs through (see `benchmarks.house.flows`), how many lines there are, how
many files only one other file imports, how many members only forward a call, and how many imports lead from
the core into an extension. `--check` ends with code 1 when a limit is exceeded.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import logging
import sys
from collections import defaultdict
from pathlib import Path

from benchmarks.house.flows import PACKAGE, flows

ROOMS = (
    "bridges",
    "cli",
    "extensions",
    "memory",
    "prompts",
    "runtime",
    "sessions",
)
LIMITS = {
    "files: plain turn": 59,
    "files: turn with memory_search": 79,
    "files: turn with a flush": 72,
    "files: /compact": 72,
    "files: /status": 50,
    "files: line of a chat to its delivery": 80,
    "depth: plain turn": 14,
    "files that one file imports": 64,
    "members that only forward": 15,
    "lines: everything": 111_314,
    "lines: core": 72_009,
    "imports from the core into extensions": 0,
}
"""The most that `--check` allows. A limit is lowered when it can be; only a feature may raise the lines.

The loop's pool of threads is counted wherever it began. A flush and `/compact` run through 70 files, and
through two more if the commit of the note begins before they end.
"""


class Source:
    """A source file: its module name, its lines and its syntax tree."""

    def __init__(self, path: Path) -> None:
        self.place = path.relative_to(PACKAGE)
        self.module = ".".join(("nacre", *self.place.with_suffix("").parts)).removesuffix(".__init__")
        text = path.read_text(encoding="utf-8")
        self.lines = text.count("\n")
        self.tree = ast.parse(text)

    @property
    def is_core(self) -> bool:
        """Whether the file lies outside `extensions/`."""
        return self.place.parts[0] != "extensions"


def sources() -> list[Source]:
    """Every source file of the package."""
    rooms = [path for room in ROOMS for path in sorted(Path(PACKAGE, room).rglob("*.py"))]
    return [Source(path) for path in [*sorted(Path(PACKAGE).glob("*.py")), *rooms]]


def importers(found: list[Source]) -> dict[str, set[str]]:
    """For each module the modules that import it, also inside of functions."""
    known = {source.module for source in found}
    table: dict[str, set[str]] = defaultdict(set)
    for source in found:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
                for name in names & known - {source.module}:
                    table[name].add(source.module)
    return table


def forwards(source: Source) -> int:
    """How many methods do nothing but call a member of `self` with their own arguments."""
    return sum(
        _only_forwards(member)
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ClassDef)
        for member in node.body
        if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def _only_forwards(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    body = [node for node in function.body if not _is_docstring(node)]
    if len(body) != 1 or not isinstance(body[0], ast.Return | ast.Expr) or function.decorator_list:
        return False
    call = body[0].value
    call = call.value if isinstance(call, ast.Await) else call
    if not isinstance(call, ast.Call) or not ast.unparse(call.func).startswith("self."):
        return False
    given = [ast.unparse(node) for node in (*call.args, *(word.value for word in call.keywords))]
    own = [argument.arg for argument in (*function.args.args[1:], *function.args.kwonlyargs)]
    return ast.unparse(call.func).count(".") == 2 and sorted(given) == sorted(own)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def measured() -> dict[str, int]:
    """Each measure with its value."""
    logging.disable(logging.CRITICAL)
    values: dict[str, int] = {}
    walks = asyncio.run(flows())
    for name, walk in walks.items():
        values[f"files: {name}"] = len(walk.files)
    values["depth: plain turn"] = walks["plain turn"].depth
    found = sources()
    imported = importers(found)
    with_code = {source.module for source in found if source.lines > 1}
    values["files that one file imports"] = sum(
        len(by) == 1 and name in with_code for name, by in imported.items()
    )
    values["members that only forward"] = sum(map(forwards, found))
    values["lines: everything"] = sum(source.lines for source in found)
    values["lines: core"] = sum(source.lines for source in found if source.is_core)
    outside = {source.module for source in found if source.is_core}
    values["imports from the core into extensions"] = sum(
        len(by & outside) for name, by in imported.items() if name.startswith("nacre.extensions.")
    )
    return values


def main() -> None:
    """Prints the table; with `--check` it also holds the limits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    values = measured()
    for name, value in values.items():
        print(f"{name}: {value:,} (at most {LIMITS[name]:,})")
    over = [name for name, value in values.items() if value > LIMITS[name]]
    if arguments.check and over:
        sys.exit(f"Over the limit: {', '.join(over)}.")


if __name__ == "__main__":
    main()
