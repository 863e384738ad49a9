"""`nacre memory forget`: shown first, then gone from notes, index, transcripts and history."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from nacre.memory.workspace.git import run_git
from tests.cli.program import run_nacre
from tests.runtime.agents import TODAY, opened, write_settings

NO_MODEL = {"agents": {"defaults": {"memorySearch": {"provider": "none"}}}}
NOTES = "# Notes\n\n- The boat is called Halcyon.\n- Lisa plays the cello.\n- ok\n"


async def _talked(state: Path, settings: dict[str, Any] = NO_MODEL) -> None:
    write_settings(state, settings)
    async with opened(state, None) as agent:
        await agent.ask("Remember that my boat is called Halcyon.")
        await agent.ask("Remember that Lisa plays the cello.")
    memory = state / "workspace/MEMORY.md"
    memory.write_text(NOTES, encoding="utf-8")


async def test_words_are_forgotten_everywhere(tmp_path: Path) -> None:
    """A dry run changes nothing; then no file of the state folder has the word, and all else is there."""
    state = tmp_path / ".nacre"
    await _talked(state, {})
    run_nacre(tmp_path, "memory", "index")
    (transcript,) = (state / "agents/main/sessions").glob("*.jsonl")
    before = transcript.read_bytes()
    memory = state / "workspace/MEMORY.md"

    shown = run_nacre(tmp_path, "memory", "forget", "halcyon BOAT", "--transcripts", "--git-history")
    assert (memory.read_text(), transcript.read_bytes()) == (NOTES, before)
    done = run_nacre(tmp_path, "memory", "forget", "halcyon boat", "--transcripts", "--git-history", "--yes")

    assert "-- The boat is called Halcyon." in shown.stdout
    assert "--yes takes this away" in shown.stderr
    assert done.returncode == 0, done.stderr
    assert "Out of reach: back-ups" in done.stdout
    assert memory.read_text() == "# Notes\n\n- Lisa plays the cello.\n- ok\n"
    assert len(transcript.read_bytes()) == len(before)
    after = [json.loads(line) for line in transcript.read_text().splitlines()]
    assert [each["id"] for each in after] == [json.loads(line)["id"] for line in before.splitlines()]
    has_it = [path for path in state.rglob("*") if path.is_file() and b"Halcyon" in path.read_bytes()]
    assert has_it == [], done.stdout + done.stderr
    assert "Searched: nothing of it is left here." in done.stdout
    assert "cello" in run_nacre(tmp_path, "memory", "search", "cello").stdout
    async with opened(state, None) as agent:  # the session goes on
        reply = await agent.ask("What does Lisa play?")
    assert reply is not None


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
async def test_a_history_forgets_what_was_named_alone(tmp_path: Path) -> None:
    """One line of one note goes from all commits; the same line elsewhere stays, and the receipt says so."""
    state = tmp_path / ".nacre"
    await _talked(state)
    workspace = state / "workspace"
    run_nacre(tmp_path, "memory", "undo")  # commits what is there
    memory = (workspace / "MEMORY.md").read_text()
    commits = len(run_nacre(tmp_path, "memory", "log").stdout.splitlines())
    number = (workspace / TODAY).read_text().splitlines().index("- my boat is called Halcyon.") + 1

    done = run_nacre(tmp_path, "memory", "forget", f"{TODAY}#L{number}", "--git-history", "--yes", "--json")

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["applied"], told["notes"][0]["lines"]) == (True, ["- my boat is called Halcyon."])
    assert any("Transcripts have it" in each for each in told["left"])
    assert (workspace / "MEMORY.md").read_text() == memory
    history = run_git(workspace, "log", "-p", "--all").decode()
    assert "my boat is called Halcyon" not in history
    assert "The boat is called Halcyon." in history
    log = run_nacre(tmp_path, "memory", "log").stdout.splitlines()
    assert len(log) == commits + 1
    assert run_git(workspace, "status", "--porcelain").decode() == ""


async def test_nothing_goes_that_was_not_named(tmp_path: Path) -> None:
    """Words that stand nowhere, no words, a note that is not there, and conversations that go on."""
    state = tmp_path / ".nacre"
    await _talked(state)

    nowhere = run_nacre(tmp_path, "memory", "forget", "giraffe", "--yes")
    empty = run_nacre(tmp_path, "memory", "forget", "  ?! ", "--yes")
    missing = run_nacre(tmp_path, "memory", "forget", "memory/1999-01-01.md", "--yes")
    elsewhere = run_nacre(tmp_path, "memory", "forget", "remember lisa", "--yes")

    assert (nowhere.returncode, "Nothing says that" in nowhere.stderr) == (1, True)
    assert (empty.returncode, "Say in words" in empty.stderr) == (2, True)
    assert (missing.returncode, "There is no note" in missing.stderr) == (1, True)
    assert (elsewhere.returncode, "Transcripts have it" in elsewhere.stderr) == (1, True)
    assert (state / "workspace/MEMORY.md").read_text() == NOTES
