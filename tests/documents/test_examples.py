"""The numbered examples run as they are, without key and network, and print what they promise."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

import pytest

from tests.servers.warm_python import run_warm

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
RUN_SECONDS = 60


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(example: Path, tmp_path: Path) -> None:
    """It ends well in an empty home folder, prints something, and leaves nothing outside of its state."""
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


def test_there_is_an_example_of_embedding() -> None:
    """The first thing a bot author looks for is there."""
    assert "01-embed" in [path.stem for path in EXAMPLES]
