"""What a turn noted is a commit behind the reply, and `nacre memory log`, `diff` and `undo` look after it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nacre.runtime.models.scripted import ScriptedModel, calls, says
from tests.cli.program import environment, run_nacre
from tests.faults.apart.isolation import tree_bytes
from tests.memory.workspace.history.owners_git import POISONS, canary, owner_git, owners_history
from tests.runtime.agents import TODAY, opened, write_settings

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
NO_MODEL = {"agents": {"defaults": {"memorySearch": {"provider": "none"}}}}


async def _noted(home: Path, *lines: str) -> None:
    """A conversation in which each line is noted in a turn of its own, and then one notes nothing."""
    write_settings(home / ".nacre", NO_MODEL)
    model = ScriptedModel(
        *(
            step
            for line in lines
            for step in (calls(("append", {"path": TODAY, "text": line})), says("Noted."))
        ),
        says("Good night."),
    )
    async with opened(home / ".nacre", model) as agent:
        for line in lines:
            await agent.ask(f"Remember: {line}")
        await agent.ask("Good night.")


async def test_from_a_conversation_to_its_undoing(tmp_path: Path) -> None:
    """The commit names session and entries, its diff the line; undone, a line by hand beside it stays."""
    await _noted(tmp_path, "- The gate code is 4711.")
    log = tmp_path / ".nacre/workspace" / TODAY
    with log.open("a", encoding="utf-8") as note:
        note.write("- by hand\n")

    newest, first = json.loads(run_nacre(tmp_path, "memory", "log", "--json").stdout)
    diff = run_nacre(tmp_path, "memory", "diff", newest["commit"]).stdout
    undone = run_nacre(tmp_path, "memory", "undo")

    assert (newest["subject"], newest["session_key"]) == (f"Notes in {TODAY}", "agent:main:main")
    assert newest["session_id"]
    assert newest["entry_ids"]
    assert first["session_key"] == ""
    assert "+- The gate code is 4711." in diff
    assert ".sources" not in diff
    assert undone.returncode == 0
    assert "4711" not in log.read_text(encoding="utf-8")
    assert "- by hand" in log.read_text(encoding="utf-8")
    told = run_nacre(tmp_path, "memory", "log", TODAY).stdout
    assert [line.split("  ")[2] for line in told.splitlines()] == [
        f"Undo {newest['commit'][:12]}",
        f"Changes by hand in {TODAY}",
        f"Notes in {TODAY}",
    ]
    again = run_nacre(tmp_path, "memory", "undo")
    assert (again.returncode, "can be undone" in again.stderr) == (1, True)
    assert "no commit '--all'" in run_nacre(tmp_path, "memory", "diff", "--", "--all").stderr


AS_ANYBODY = """
import ctypes, os, sys
if os.getuid() == 0:  # without CAP_DAC_OVERRIDE (1), dropped for the next program, root heeds permissions
    ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)
os.execv(sys.executable, [sys.executable, "-m", "nacre", *sys.argv[1:]])
"""


def _run_as_anybody(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", AS_ANYBODY, *arguments],
        capture_output=True,
        text=True,
        env=environment(home),
        timeout=60,
    )


@pytest.mark.parametrize("arguments", [("undo",), ("forget", "4711", "--yes")])
async def test_notes_that_cannot_be_written_are_a_sentence(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    """It has the place and the reason, without the number of the system's error; the note is as it was."""
    await _noted(tmp_path, "- The gate code is 4711.")
    log = tmp_path / ".nacre/workspace" / TODAY
    log.parent.chmod(0o555)
    run = _run_as_anybody(tmp_path, "memory", *arguments)
    log.parent.chmod(0o755)

    assert run.returncode == 1
    assert "Permission denied" in run.stderr
    assert str(tmp_path / ".nacre/workspace") in run.stderr
    assert "Errno" not in run.stderr
    assert run.stderr.endswith(".\n")
    assert "4711" in log.read_text(encoding="utf-8")


async def test_a_repository_of_the_owner_is_let_be(tmp_path: Path) -> None:
    """Nothing of it changes while turns are committed beside it; before them the commands say what to do."""
    workspace = tmp_path / ".nacre/workspace"
    workspace.mkdir(parents=True)
    assert "no history yet" in run_nacre(tmp_path, "memory", "undo").stderr
    owner_git(workspace, "init", "-q")
    before = tree_bytes(workspace / ".git")

    await _noted(tmp_path, "- Tea is green.")

    assert f"Notes in {TODAY}" in run_nacre(tmp_path, "memory", "log").stdout
    assert run_nacre(tmp_path, "memory", "undo").returncode == 0
    assert tree_bytes(workspace / ".git") == before


async def test_a_hostile_repository_in_the_workspace_runs_nothing(tmp_path: Path) -> None:
    """Every command that uses the history leaves filters, drivers, hooks and signature programs alone."""
    state, (run, ran) = tmp_path / ".nacre", canary(tmp_path)
    workspace = state / "workspace"
    owners_history(workspace)
    for poison in ("signed", "include", "hooks", "filter-clean", "textconv"):
        POISONS[poison](workspace, run)
    (workspace / ".gitattributes").write_text("*.md filter=x diff=x\n", encoding="utf-8")
    write_settings(state, NO_MODEL)

    for arguments in (
        ("send", "Remember that my boat is called Petrel."),
        ("memory", "log"),
        ("memory", "diff"),
        ("memory", "undo"),
        ("send", "Remember that Lisa plays the cello."),
        ("memory", "forget", "cello", "--git-history", "--yes"),
        ("doctor", "--fix"),
        ("status",),
    ):
        run_nacre(tmp_path, *arguments)

    assert not ran.exists()
    assert [path for path in workspace.rglob("*.md") if "Petrel" in path.read_text(encoding="utf-8")] == []
    assert len(json.loads(run_nacre(tmp_path, "memory", "log", "--json").stdout)) > 4


async def test_what_was_undone_is_not_noted_again(tmp_path: Path) -> None:
    """By the next conversation; an undo of the undo brings it back for good."""
    await _noted(tmp_path, "- The gate code is 4711.")
    run_nacre(tmp_path, "memory", "undo")
    log = tmp_path / ".nacre/workspace" / TODAY
    model = ScriptedModel(calls(("append", {"path": TODAY, "text": "- Gate code: 4711"})), says("ok"))
    async with opened(tmp_path / ".nacre", model, ids="later") as agent:
        await agent.ask("Hello.")
    assert not log.exists()

    [undo] = [
        each
        for each in json.loads(run_nacre(tmp_path, "memory", "log", "--json").stdout)
        if each["subject"].startswith("Undo")
    ]
    run_nacre(tmp_path, "memory", "undo", undo["commit"])
    assert "- The gate code is 4711." in log.read_text()
    kinds = [
        json.loads(line)
        for line in (log.parent.parent / ".sources/rejected.jsonl").read_text().split("\n")
        if line
    ]
    assert sorted(kinds[0]["rejected"]) == sorted(kinds[-1]["lifted"])
