"""`nacre init` makes what a new owner needs, once."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.program import run_nacre


def test_init_says_what_it_made_and_keeps_what_is_there(tmp_path: Path) -> None:
    """The first run makes folders and files, the second finds nothing missing, and edits stay."""
    first = run_nacre(tmp_path, "init")
    workspace = tmp_path / ".nacre" / "workspace"
    (workspace / "USER.md").write_text("I am Ada.\n", encoding="utf-8")
    again = json.loads(run_nacre(tmp_path, "init", "--json").stdout)

    assert first.returncode == 0
    assert "State      ~/.nacre\nWorkspace  ~/.nacre/workspace\n" in first.stdout
    assert "created" in first.stdout
    assert "Next: `nacre chat`" in first.stdout
    assert (workspace / "AGENTS.md").is_file()
    assert again["created"] == []
    assert again["workspace"] == str(workspace)
    assert (workspace / "USER.md").read_text(encoding="utf-8") == "I am Ada.\n"
    assert (tmp_path / ".nacre").stat().st_mode & 0o777 == 0o700


def test_init_says_when_it_cannot(tmp_path: Path) -> None:
    """A file in the place of the folder is a sentence with a way out, not a trace."""
    (tmp_path / "taken").write_text("", encoding="utf-8")

    run = run_nacre(tmp_path, "init", "--workspace", str(tmp_path / "taken"))

    assert run.returncode == 1
    assert "taken" in run.stderr
    assert "Choose others with" in run.stderr
    assert "Traceback" not in run.stderr
