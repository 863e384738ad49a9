"""The numbered examples run as they are, without key and network, and print what they promise."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

import pytest

from tests.libraries import needs
from tests.servers.warm_python import run_warm

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
RUN_SECONDS = 60


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(example: Path, tmp_path: Path) -> None:
    """It ends well in an empty home folder, prints something, and leaves nothing outside of its state."""
    if "nacre.web" in example.read_text(encoding="utf-8"):
        needs("starlette", "sse_starlette", "uvicorn", why="the extra serve is not installed: make protocols")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "TZ": "UTC",
        "PYTHONWARNINGS": "error::ResourceWarning",
    }

    run = run_warm(str(example), cwd=tmp_path, env=environment, timeout_seconds=RUN_SECONDS)

    assert run.returncode == 0, run.stderr
    assert run.stdout.strip()
    assert "Traceback" not in run.stderr
    assert {path.name for path in tmp_path.iterdir()} <= {".nacre"}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_says_what_it_shows(example: Path) -> None:
    """An example is numbered and its docstring tells what it is about."""
    assert re.fullmatch(r"\d\d-[a-z-]+", example.stem)
    assert ast.get_docstring(ast.parse(example.read_text(encoding="utf-8")))


def test_an_author_writes_little() -> None:
    """Web chat and bridge as whole programs without what starts them, tool and engine alone.

    Imports count; docstrings and empty lines do not.
    """
    sources = {path.stem: path.read_text(encoding="utf-8") for path in EXAMPLES}
    bridge = re.split(r"```python\n|```\n", (DOCS / "bridges.md").read_text(encoding="utf-8"))[1]
    counted = {
        "web chat": _code_lines(sources["10-web-chat"].partition('if __name__ == "__main__":')[0]),
        "bridge": _code_lines(bridge.partition("async def main")[0]),
        "tool": _code_lines(_source_of("moon", sources["11-small"])),
        "engine": _code_lines(_source_of("Lines", sources["11-small"])),
    }
    assert counted == {"web chat": 18, "bridge": 40, "tool": 3, "engine": 8}


def _source_of(name: str, source: str) -> str:
    """A function or class with its decorators."""
    [found] = [
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name
    ]
    first = min([found.lineno, *(each.lineno for each in found.decorator_list)])
    return "\n".join(source.splitlines()[first - 1 : found.end_lineno])


def _code_lines(source: str) -> int:
    docstrings = [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    ]
    lines = enumerate(source.splitlines(), start=1)
    return sum(bool(line.strip()) and number not in docstrings for number, line in lines)


def test_there_is_an_example_of_embedding() -> None:
    """The first thing a bot author looks for is there."""
    assert "01-embed" in [path.stem for path in EXAMPLES]
