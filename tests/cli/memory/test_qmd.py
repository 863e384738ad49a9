"""`nacre memory …` where `memory.backend` is qmd: what is asked, what is told, and who answers instead."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

from tests.cli.program import environment, run_nacre
from tests.extensions.qmd.homes import written
from tests.extensions.qmd.stand_in import StandIn

SHOWN = 'printf "%s\\n" "$XDG_CONFIG_HOME" "$XDG_CACHE_HOME"'


def qmd_home(home: Path) -> StandIn:
    """Notes, a folder beside them, and settings that name the stand-in."""
    manual = home / "docs" / "manual.md"
    manual.parent.mkdir(parents=True)
    manual.write_text("one\nAn Omada manual.\n", encoding="utf-8")
    program = StandIn(home / "program")
    written(home / ".nacre", {"paths": [{"path": "~/docs", "name": "Docs"}]}, command=program.command)
    return program


def status_of(home: Path) -> dict[str, Any]:
    """The status for scripts."""
    (agent,) = json.loads(run_nacre(home, "memory", "status", "--json").stdout)
    told: dict[str, Any] = agent["status"]
    return told


def test_index_search_get_and_status_ask_qmd(tmp_path: Path) -> None:
    """A search finds what qmd found, also outside of the workspace; what it found can be read."""
    program = qmd_home(tmp_path)
    before = status_of(tmp_path)
    assert not program.calls()

    indexed = run_nacre(tmp_path, "memory", "index")
    found = run_nacre(tmp_path, "memory", "search", "omada", "--json")
    people = run_nacre(tmp_path, "memory", "search", "omada", "--max-results", "1")
    read = run_nacre(tmp_path, "memory", "get", "qmd/docs-main/manual.md", "--from", "2")
    calls = len(program.calls())
    status = run_nacre(tmp_path, "memory", "status")

    assert (before["backend"], before["qmd"]["updatedAt"]) == ("qmd", None)
    assert (indexed.returncode, len(program.calls("update"))) == (0, 1)
    report = json.loads(found.stdout)
    assert [hit["path"] for hit in report["results"]] == ["memory/2026-03-13.md", "qmd/docs-main/manual.md"]
    assert (report["provider"], report["fallback"]) == ("qmd", None)
    assert people.stdout.startswith("memory/2026-03-13.md#L1 · 2026-03-13 · ")
    assert "manual" not in people.stdout
    assert (read.returncode, read.stdout) == (0, "An Omada manual.\n")
    assert "Backend:           qmd (search)\n" in status.stdout
    assert "docs-main" in status.stdout
    assert "qmd updated:       never" not in status.stdout
    assert len(program.calls()) == calls, "a status starts nothing"


def test_where_qmd_fails_the_index_answers_and_says_why(tmp_path: Path) -> None:
    """A search, the index and the status name the reason; what lies in no collection stays closed."""
    program = qmd_home(tmp_path)
    program.failing(search={"err": "boom", "code": 3}, update={"err": "no room", "code": 1})

    indexed = run_nacre(tmp_path, "memory", "index")
    found = run_nacre(tmp_path, "memory", "search", "omada", "--json")
    people = run_nacre(tmp_path, "memory", "search", "omada")
    refused = run_nacre(tmp_path, "memory", "get", "qmd/docs-main/../secret.md")
    missing = run_nacre(tmp_path, "memory", "get", "qmd/docs-main/nothing.md")
    status = run_nacre(tmp_path, "memory", "status")

    assert indexed.returncode == 1
    assert "qmd" in indexed.stderr
    assert "no room" in indexed.stderr
    report = json.loads(found.stdout)
    assert [hit["path"] for hit in report["results"]] == ["memory/2026-03-13.md"]
    assert report["fallback"]["from"] == "qmd"
    assert "boom" in report["fallback"]["reason"]
    assert "Router: Omada" in people.stdout
    assert "boom" in people.stderr
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("Memory get failed: ")
    assert (missing.returncode, missing.stderr) == (1, "There is no qmd/docs-main/nothing.md yet.\n")
    assert "Backend:           memory-core, because" in status.stdout
    told = status_of(tmp_path)
    assert (told["backend"], told["fallback"]["from"]) == ("builtin", "qmd")


def test_a_shell_evaluates_the_recipe(tmp_path: Path) -> None:
    """Programs that are started in it get the agent's folders, whatever the home folder is called."""
    home = tmp_path / 'it\'s $HOME; `x` & "more"'
    home.mkdir()
    recipe = run_nacre(home, "memory", "qmd")
    assert recipe.returncode == 0, recipe.stderr

    shell = subprocess.run(
        ["sh", "-euc", f'eval "$1"; exec sh -c {shlex.quote(SHOWN)}', "sh", recipe.stdout],
        capture_output=True,
        text=True,
        env=environment(home),
        check=True,
    )

    folder = home / ".nacre" / "agents" / "main" / "qmd"
    assert shell.stdout.splitlines() == [str(folder / "xdg-config"), str(folder / "xdg-cache")]
    assert shell.stderr == ""
