"""`nacre doctor`: what it finds in a real state folder, what it says to do, and what it mends."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import sqlite3
import stat
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.cli.program import run_here, run_nacre
from tests.servers.provider_server import ProviderServer

NO_PROCESS = 2**22 + 1
"""More than the largest process id of Linux."""


def _findings(home: Path, *options: str, **variables: str) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    """The exit code, and what was found by area."""
    ended = run_nacre(home, "doctor", "--json", *options, **variables)
    by_area: dict[str, list[dict[str, Any]]] = {}
    for each in json.loads(ended.stdout)["findings"]:
        by_area.setdefault(each["area"], []).append(each)
    return ended.returncode, by_area


def _states(findings: dict[str, list[dict[str, Any]]]) -> dict[str, list[str]]:
    return {area: [each["state"] for each in found] for area, found in findings.items()}


def _noted(home: Path) -> Path:
    """A state folder after a conversation with one note; searches go by words."""
    state = home / ".nacre"
    state.mkdir(mode=0o700)
    settings = {"agents": {"defaults": {"memorySearch": {"provider": "none"}}}}
    (state / "nacre.json5").write_text(json.dumps(settings), encoding="utf-8")
    (state / "nacre.json5").chmod(0o600)
    run_nacre(home, "send", "Remember that my boat is called Halcyon.")
    run_nacre(home, "memory", "index")
    return state


def test_what_the_system_refuses_is_a_finding(tmp_path: Path) -> None:
    """The name of the history folder is too long; everything else is examined all the same."""
    state, workspace = _noted(tmp_path), tmp_path / ("w" * 250)
    workspace.mkdir()
    (state / "history").mkdir(exist_ok=True)

    code, found = _findings(tmp_path, "--workspace", str(workspace))

    assert (code, found["access"][0]["state"]) == (1, "problem")
    assert {"model", "workspace", "sessions", "index", "watcher", "channels"} <= set(found)
    assert "too long" in found["access"][0]["text"]


def test_online_asks_the_model_as_init_does(tmp_path: Path) -> None:
    """`--online` asks for one word, with room for a model that thinks first, and tells how it failed."""
    asked = ("--online", "--model", "openai/gpt-5-mini")
    with ProviderServer(expected_key="sk-bees") as server:
        server.reply("ready")
        _, found = _findings(tmp_path, *asked, OPENAI_BASE_URL=server.url, OPENAI_API_KEY="sk-bees")
        code, refused = _findings(tmp_path, *asked, OPENAI_BASE_URL=server.url, OPENAI_API_KEY="sk-wrong")

    assert found["model"][0]["text"] == f"openai/gpt-5-mini at {server.url}: answered"
    request = server.requests[0]
    assert request["messages"][-1]["content"]
    assert request["max_completion_tokens"] == 1024
    assert (code, refused["model"][0]["state"]) == (1, "problem")
    assert "does not answer" in refused["model"][0]["text"]


def test_a_sound_installation_is_told_as_such(tmp_path: Path) -> None:
    """After a conversation with a note nothing is wrong; what people read names each part and ends so."""
    _noted(tmp_path)

    code, found = _findings(tmp_path)
    shown = run_nacre(tmp_path, "doctor")

    assert (code, shown.returncode) == (0, 0)
    assert not [area for area, states in _states(found).items() if "problem" in states]
    assert shown.stdout.rstrip().endswith("All is well.")
    assert "AGENTS.md" in found["prompt"][0]["text"]
    assert "compaction above 16000" in found["window"][0]["text"]


def test_a_small_window_is_told_with_what_it_leaves_out(tmp_path: Path) -> None:
    """The files are counted as such a window shows them; those that nobody has changed are not to shorten."""
    run_nacre(tmp_path, "config", "set", "agents.defaults.contextTokens", "4096")
    run_nacre(tmp_path, "send", "Hello.")

    _code, found = _findings(tmp_path)

    assert "only read, append, memory_search fit" in found["window"][0]["advice"]
    assert found["prompt"][0]["state"] == "well"
    assert int(re.findall(r"AGENTS\.md (\d+)", found["prompt"][0]["text"])[0]) < 150


def test_what_is_wrong_is_found_and_the_safe_part_mended(tmp_path: Path) -> None:
    """Open permissions, a half-written file, a broken index and a torn transcript: with --fix the first three
    are mended, nothing is deleted, and the transcript is left to the next turn, which sets a copy aside."""
    state = _noted(tmp_path)
    sessions = state / "agents" / "main" / "sessions"
    transcript = next(sessions.glob("*.jsonl"))
    with transcript.open("ab") as file:
        file.write(b'not json\n{"type":"mess')
    (state / "nacre.json5").chmod(0o644)
    left = sessions / f"sessions.json.{NO_PROCESS}-1.tmp"
    left.write_text("half", encoding="utf-8")
    (sessions / f"sessions.json.{os.getpid()}-1.tmp").write_text("being written", encoding="utf-8")
    index = next((state / "memory").glob("*.sqlite"))
    index.write_bytes(b"SQLite format 3\0" + b"\xff" * 9000)

    before_code, before = _findings(tmp_path)
    unchanged = index.read_bytes()[:200]
    after_code, after = _findings(tmp_path, "--fix")

    assert (before_code, after_code) == (1, 1)
    wrong = {area for area, states in _states(before).items() if "problem" in states}
    assert wrong == {"permissions", "left-overs", "sessions", "index"}
    assert unchanged.startswith(b"SQLite format 3\0\xff")
    assert all(each["advice"] for area in wrong for each in before[area] if each["state"] == "problem")
    assert left.name in before["left-overs"][0]["text"]
    assert "and" not in before["left-overs"][0]["text"]
    assert [each["canFix"] for each in before["sessions"]] == [False]
    states = _states(after)
    assert (states["permissions"], states["left-overs"], states["index"]) == (["fixed"], ["fixed"], ["fixed"])
    assert states["sessions"] == ["problem"]
    assert stat.S_IMODE((state / "nacre.json5").stat().st_mode) == 0o600
    assert [path.read_text(encoding="utf-8") for path in (state / "set-aside").rglob("*.tmp")] == ["half"]
    assert next((state / "memory").glob("*.corrupt-*")).read_bytes().startswith(unchanged)
    assert "Halcyon" in run_nacre(tmp_path, "memory", "search", "boat").stdout

    run_nacre(tmp_path, "send", "Good evening")

    assert _findings(tmp_path)[0] == 0
    assert list(sessions.glob("*.corrupt-*"))


def test_a_usage_file_that_stops_all_models_is_told_and_set_aside(tmp_path: Path) -> None:
    """Under a cap, lines that tell no usage are a problem; --fix keeps them elsewhere."""
    state = tmp_path / ".nacre"
    state.mkdir(mode=0o700)
    (state / "nacre.json5").write_text(
        '{usage: {dailyCapUsd: 1}, agents: {defaults: {userTimezone: "UTC"}}}', encoding="utf-8"
    )
    today = state / "usage" / f"{datetime.now(UTC).date().isoformat()}.jsonl"
    today.parent.mkdir(mode=0o700)
    today.write_text("rubbish\n", encoding="utf-8")

    _, before = _findings(tmp_path)
    _, after = _findings(tmp_path, "--fix")

    assert _states(before)["usage"] == ["problem"]
    assert _states(after)["usage"] == ["fixed"]
    assert not today.exists()
    assert [path.read_text("utf-8") for path in (state / "set-aside").iterdir()] == ["rubbish\n"]


def test_an_index_that_holds_what_is_gone_is_brought_in_line(tmp_path: Path) -> None:
    """A note that was deleted by hand is named, and after --fix the index holds it no more."""
    note = next((_noted(tmp_path) / "workspace" / "memory").glob("2*.md"))
    note.unlink()

    _, before = _findings(tmp_path, "--fix")
    code, after = _findings(tmp_path)

    assert note.name in before["index"][0]["text"]
    assert before["index"][0]["state"] == "fixed"
    assert (code, after["index"][0]["state"]) == (0, "well")


def test_notes_of_an_unknown_encoding_are_named(tmp_path: Path) -> None:
    """A note that is neither UTF-8 nor UTF-16 is named, because its words may be read wrong."""
    memory = _noted(tmp_path) / "workspace" / "memory"
    (memory / "north.md").write_bytes("Das Café in Köln".encode("latin-1"))
    (memory / "wide.md").write_bytes("Das Café in Köln".encode("utf-16"))
    run_nacre(tmp_path, "memory", "index")

    code, found = _findings(tmp_path)

    assert (code, found["index"][0]["state"]) == (0, "note")
    assert "north.md" in found["index"][0]["text"]
    assert "wide.md" not in found["index"][0]["text"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("trip.sync-conflict-20261130-101010-ABCDEFG.md", "To Horta."),
        ("trip (Ann's conflicted copy 2026-11-30).md", "To Horta."),
        ("trip.md", "<<<<<<< HEAD\nTo Horta.\n=======\nTo Faial.\n>>>>>>> laptop\n"),
    ],
)
def test_two_versions_of_a_note_are_told(tmp_path: Path, name: str, text: str) -> None:
    """What Syncthing, Dropbox and git leave of a conflict would both be found, and nobody would say so."""
    (_noted(tmp_path) / "workspace" / "memory" / name).write_text(text)
    run_nacre(tmp_path, "memory", "index")

    code, found = _findings(tmp_path)

    assert (code, found["index"][0]["state"]) == (0, "note")
    assert name in found["index"][0]["text"]


def test_notes_that_are_not_indexed_are_named(tmp_path: Path) -> None:
    """A link is not followed, and a conflict copy of MEMORY.md is not a note; search finds neither."""
    workspace = _noted(tmp_path) / "workspace"
    (workspace / "memory" / "linked.md").symlink_to(tmp_path / "elsewhere.md")

    code, found = _findings(tmp_path)

    assert (code, found["index"][0]["state"]) == (0, "note")
    assert "linked.md (a symbolic link" in found["index"][0]["text"]

    (workspace / "MEMORY.sync-conflict-20261130-101010-ABCDEFG.md").write_text("To Horta.")
    assert "MEMORY.sync-conflict" in _findings(tmp_path)[1]["index"][0]["text"]


def test_what_helps_an_index_is_said_by_its_problem_alone(tmp_path: Path) -> None:
    """Another program's database is to be moved away; an index that finds no room on the disk is not."""
    index = next((_noted(tmp_path) / "memory").glob("*.sqlite"))
    for left in (index, *index.parent.glob(f"{index.name}-*")):
        left.unlink()
    with closing(sqlite3.connect(index)) as foreign:
        foreign.execute("CREATE TABLE bills (euros INTEGER)")
        foreign.commit()

    code, found = _findings(tmp_path)

    assert (code, found["index"][0]["state"]) == (1, "problem")
    assert "Move it away" in found["index"][0]["text"]
    assert "away" not in found["index"][0]["advice"]


def test_a_model_that_cannot_be_used_is_told_with_what_to_do(tmp_path: Path) -> None:
    """Nobody listens at a local address; a provider has no key; a name lacks its model."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
        settings = {"models": {"providers": {"ollama": {"baseUrl": address}}}}
        (tmp_path / ".nacre").mkdir(mode=0o700)
        (tmp_path / ".nacre" / "nacre.json5").write_text(json.dumps(settings), encoding="utf-8")
        (tmp_path / ".nacre" / "nacre.json5").chmod(0o600)
        code, local = _findings(tmp_path, "--model", "ollama/qwen3")
    _, keyless = _findings(tmp_path, "--model", "openai/gpt-4o-mini")
    _, nameless = _findings(tmp_path, "--model", "openai")

    assert code == 1
    assert f"nobody listens at {address}" in local["model"][0]["text"]
    assert "baseUrl" in local["model"][0]["advice"]
    assert "OPENAI_API_KEY" in keyless["key"][0]["advice"]
    assert nameless["model"][0]["state"] == "problem"


def test_settings_that_cannot_be_used_have_their_own_exit_code(tmp_path: Path) -> None:
    """As every command, the doctor ends with 2 and the sentence about the settings."""
    (tmp_path / ".nacre").mkdir()
    (tmp_path / ".nacre" / "nacre.json5").write_text("{agents: 7}", encoding="utf-8")

    ended = run_nacre(tmp_path, "doctor")

    assert ended.returncode == 2
    assert "nacre.json5" in ended.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_get_a_script_and_then_the_commands(tmp_path: Path, shell: str) -> None:
    """The script calls the program, which then names commands and options that begin so."""
    script = run_here(tmp_path, "admin", "completion", shell).stdout
    asked = {
        "bash": {"COMP_WORDS": "nacre doc", "COMP_CWORD": "1"},
        "zsh": {"COMP_WORDS": "nacre doc", "COMP_CWORD": "1"},
        "fish": {"COMP_WORDS": "nacre doc", "COMP_CWORD": "doc"},
    }[shell]

    named = run_nacre(tmp_path, _NACRE_COMPLETE=f"{shell}_complete", **asked).stdout

    assert "_NACRE_COMPLETE" in script
    assert "doctor" in named
    assert "schedule" not in named


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_history_that_stopped_is_told_and_repaired(tmp_path: Path) -> None:
    """The next start tells it once, doctor and status until it is repaired; then all notes are committed."""
    state = _noted(tmp_path)
    (git_dir,) = (state / "history").glob("*.git")
    (git_dir / "HEAD").write_bytes(b"")

    run_nacre(tmp_path, "send", "Remember that Lisa plays the cello.")
    told = [run_nacre(tmp_path, "send", word).stderr for word in ("Hello.", "Bye.")]
    undone = run_nacre(tmp_path, "memory", "undo")
    code, found = _findings(tmp_path)
    status = json.loads(run_nacre(tmp_path, "status", "--json").stdout)
    fixed_code, fixed = _findings(tmp_path, "--fix")
    log = json.loads(run_nacre(tmp_path, "memory", "log", "--json").stdout)

    assert ["not committed to git" in each for each in told] == [True, False]
    assert undone.returncode == 1
    assert (code, found["history"][0]["state"], found["history"][0]["canFix"]) == (1, "problem", True)
    assert status["historyProblem"]
    assert (fixed_code, fixed["history"][0]["state"]) == (0, "fixed")
    assert [bool(each["session_id"]) for each in log] == [True, True, False]
    assert not json.loads(run_nacre(tmp_path, "status", "--json").stdout)["historyProblem"]
    assert "cello" in run_nacre(tmp_path, "memory", "diff").stdout


def test_after_new_nothing_is_amiss(tmp_path: Path) -> None:
    """The new session has no transcript yet, and the note of the one before is nobody's change by hand."""
    for said in ("Remember that my boat is called Halcyon.", "/new"):
        assert run_nacre(tmp_path, "send", "-m", said).returncode == 0

    assert "transcripts" not in run_nacre(tmp_path, "doctor").stdout
    if shutil.which("git"):
        log = run_nacre(tmp_path, "memory", "log").stdout
        assert "halcyon.md" in log
        assert "by hand" not in log


def test_notes_that_everybody_can_read_are_told(tmp_path: Path) -> None:
    """A linked workspace lies outside of the folder that keeps others out. It may be shared on purpose."""
    with TemporaryDirectory(dir="/tmp") as notes:
        Path(notes).chmod(0o755)
        (tmp_path / ".nacre").mkdir()
        (tmp_path / ".nacre/workspace").symlink_to(notes)
        run_nacre(tmp_path, "send", "-m", "Remember that my boat is called Halcyon.")

        told = run_nacre(tmp_path, "doctor").stdout
        Path(notes).chmod(0o700)
        closed = run_nacre(tmp_path, "doctor").stdout

    assert "everybody on this machine can read the notes in" in told
    assert "everybody" not in closed
