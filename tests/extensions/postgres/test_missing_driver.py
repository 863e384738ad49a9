"""Without PostgreSQL's library, a workspace in a database is told as what is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.program import WAIT_SECONDS, environment
from tests.runtime.agents import write_settings

MISSING = "PostgreSQL needs psycopg, which cannot be used here (No module named 'psycopg'). Install it with"


@pytest.mark.parametrize("command", ["memory bench --engine memory-core", "admin workspace pull notes"])
def test_the_missing_library_is_named(tmp_path: Path, command: str) -> None:
    """One sentence, which says what to install."""
    write_settings(
        tmp_path / ".nacre", {"storage": {"driver": "postgres", "url": "postgresql://127.0.0.1:1/nacre"}}
    )
    hidden = tmp_path / "hidden/psycopg"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'psycopg'\")\n")

    ended = subprocess.run(
        [Path(sys.executable).with_name("nacre"), *command.split()],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment(tmp_path, PYTHONPATH=str(hidden.parent)),
        timeout=WAIT_SECONDS,
    )

    assert ended.stderr.startswith(MISSING)
    assert ended.stderr.count("\n") <= 2
    assert ended.returncode in (1, 2)
