"""`nacre admin extensions hooks`: what the workspace has, trusted in a terminal and nowhere else."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.program import Terminal, run_here, run_nacre


def _hook(home: Path, text: str) -> None:
    folder = home / ".nacre" / "workspace" / "hooks"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mine.py").write_text(text, encoding="utf-8")


def test_a_hook_is_trusted_in_a_terminal_and_distrusted(tmp_path: Path) -> None:
    """The list follows each step, a change is seen, and an opened chat runs what is trusted."""
    assert (
        "There are no hooks in ~/.nacre/workspace/hooks."
        in run_here(tmp_path, "admin", "extensions", "hooks").stdout
    )
    mark = tmp_path / "mark"
    _hook(tmp_path, f"def register(hooks):\n    open({str(mark)!r}, 'w').close()\n")
    assert run_here(tmp_path, "admin", "extensions", "hooks").stdout == "mine  not trusted\n"

    with Terminal(tmp_path, "admin", "extensions", "hooks", "trust", "mine.py") as terminal:
        terminal.wait_for("hooks/mine.py is trusted as it is now")
        assert terminal.exit_code() == 0
    (told,) = json.loads(run_here(tmp_path, "admin", "extensions", "hooks", "--json").stdout)
    assert (told["name"], told["state"], len(told["sha256"])) == ("mine", "trusted", 64)
    assert (tmp_path / ".nacre/agents/main/trusted-hooks.json").stat().st_mode & 0o777 == 0o600
    assert run_nacre(tmp_path, "send", "-m", "hello").returncode == 0
    assert mark.exists()

    _hook(tmp_path, "1 / 0")
    assert run_here(tmp_path, "admin", "extensions", "hooks").stdout == "mine  changed\n"
    assert "nacre admin extensions hooks trust mine" in run_nacre(tmp_path, "send", "-m", "hello").stderr
    assert run_here(tmp_path, "admin", "extensions", "hooks", "distrust", "mine").returncode == 0
    assert run_here(tmp_path, "admin", "extensions", "hooks").stdout == "mine  not trusted\n"
    assert run_here(tmp_path, "admin", "extensions", "hooks", "distrust", "mine").returncode == 1


def test_a_program_cannot_trust(tmp_path: Path) -> None:
    """Without a terminal on standard input nothing is trusted, and an unknown name is a sentence."""
    _hook(tmp_path, "def register(hooks): pass")

    run = run_nacre(tmp_path, "admin", "extensions", "hooks", "trust", "mine", stdin="y\n")

    assert run.returncode == 1
    assert "the owner in a terminal" in run.stderr
    assert run_here(tmp_path, "admin", "extensions", "hooks").stdout == "mine  not trusted\n"
    with Terminal(tmp_path, "admin", "extensions", "hooks", "trust", "other") as terminal:
        terminal.wait_for("there is no hooks/other.py")
        assert terminal.exit_code() == 1
