"""Turns on real processes that meet a fault: what a model was told is on disk, and the session goes on."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nacre.runtime.models.scripted import ScriptedModel, says
from tests.faults.drivers import driven
from tests.runtime.agents import (
    TODAY,
    entries,
    opened,
    said,
    transcript_file,
    user_texts,
    window_settings,
    write_settings,
)
from tests.servers.provider_server import ProviderServer
from tests.servers.provider_wire import Step, reply, stall

DRIVER = Path(__file__).with_name("fault_driver.py")
ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_disk_that_fills_at_any_size_loses_no_word(tmp_path: Path) -> None:
    """Two dozen disks, the smallest full from the first byte: turns fail with a sentence, and go on later."""
    outcomes = driven(DRIVER, "full-disk", tmp_path)
    assert len(outcomes) == 24
    assert [outcome for outcome in outcomes if outcome["problem"] or outcome["exit"]] == []
    assert {outcome["told"] for outcome in outcomes} == {0, 1, 2, 3}


@pytest.mark.slow
def test_a_kill_at_any_write_of_a_long_result_loses_no_word(tmp_path: Path) -> None:
    """Before and after the whole result is on disk; the session opens again each time."""
    outcomes = driven(DRIVER, "long-result", tmp_path)
    killed = [outcome for outcome in outcomes if outcome["killed"]]
    assert len(killed) > 30
    assert [outcome for outcome in outcomes if outcome["problem"]] == []
    assert {outcome["results"] for outcome in outcomes} == {0, 1}


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Takes the right to write from a folder and all folders in it."""
    folders = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    for each in folders:
        each.chmod(0o555)
    try:
        yield
    finally:
        for each in folders:
            each.chmod(0o755)


@pytest.mark.slow
@pytest.mark.covers("A12-6")
async def test_no_model_is_asked_for_notes_that_cannot_be_written(tmp_path: Path) -> None:
    """History is compacted without a flush, and the owner is told why, once."""
    write_settings(tmp_path, window_settings())
    async with opened(tmp_path, ScriptedModel(says("hi"))) as agent:
        await agent.respond(said("hello"))

    with read_only(tmp_path / "workspace"):
        *events, asked = driven(DRIVER, "read-only-flush", tmp_path)

    assert asked == ["compaction", "turn"]
    workspace = tmp_path / "workspace"
    assert [text for kind, text in events if kind == "Notice" and str(workspace) in text] != []
    kinds_of_events = [kind for kind, _ in events]
    assert "CompactionEnded" in kinds_of_events
    assert "FlushEnded" not in kinds_of_events
    [told] = [text for kind, text in events if kind == "Warned" and "No notes are saved" in text]
    assert TODAY in told


@pytest.mark.slow
async def test_a_workspace_that_cannot_be_written_costs_no_turn(tmp_path: Path) -> None:
    """The tool's failure is a result for the model; the words and the answer are on disk."""
    async with opened(tmp_path, ScriptedModel(says("hi"))) as agent:
        await agent.respond(said("hello"))
    with read_only(tmp_path / "workspace"):
        assert driven(DRIVER, "read-only", tmp_path) == ["done"]

    assert user_texts(transcript_file(tmp_path)) == ["hello", "note that"]
    stored = entries(transcript_file(tmp_path))
    messages = [entry["message"] for entry in stored if entry["type"] == "message"]
    [result] = [message for message in messages if message["role"] == "toolResult"]
    assert result["isError"]
    assert "Permission denied" in result["content"][0]["text"]


@pytest.mark.slow
@pytest.mark.covers("ASK-16")
def test_two_processes_in_one_session_lose_and_double_nothing(tmp_path: Path) -> None:
    """Each has its turns answered; the transcript is one chain with every word once."""
    write_settings(tmp_path, {})
    talkers = [
        subprocess.Popen(
            [sys.executable, str(DRIVER), "talk", str(tmp_path), name, "15"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("a", "b")
    ]
    for talker in talkers:
        out, _ = talker.communicate(timeout=120)
        assert talker.returncode == 0
        assert [json.loads(line) for line in out.splitlines()] == ["done"] * 15

    file = transcript_file(tmp_path)
    assert Counter(user_texts(file)) == Counter(f"{name} {number}" for name in "ab" for number in range(15))
    lines = entries(file)[1:]
    assert [line["parentId"] for line in lines] == [None, *(line["id"] for line in lines[:-1])]


@pytest.mark.slow
@pytest.mark.covers("A17-2")
def test_a_kill_while_the_provider_stalls_keeps_the_question(tmp_path: Path) -> None:
    """`nacre send` is killed in the middle of an answer; the next one goes on behind the question."""
    asked = threading.Event()

    def answer(request: Mapping[str, Any]) -> Step:
        if asked.is_set():
            return reply("It needs sugar.")
        asked.set()
        return stall("The hive ")

    command = [sys.executable, "-c", "from nacre.cli.main import main; main()", "send", "-m"]
    with ProviderServer(responder=answer) as server:
        provider = {"openai": {"baseUrl": server.url, "apiKey": "sk-test"}}
        defaults = {"model": "openai/test-model"}
        write_settings(tmp_path, {"agents": {"defaults": defaults}, "models": {"providers": provider}})
        environment = {"NACRE_STATE_DIR": str(tmp_path), "HOME": str(tmp_path), "PYTHONPATH": _path()}
        with subprocess.Popen([*command, "what does the hive need?"], env=environment) as killed:
            assert asked.wait(60)
            killed.kill()
        run = subprocess.run(
            [*command, "go on"], env=environment, capture_output=True, text=True, timeout=60, check=True
        )
        sent = json.dumps(server.requests[-1]["messages"])

    assert "It needs sugar." in run.stdout
    assert user_texts(transcript_file(tmp_path)) == ["what does the hive need?", "go on"]
    assert "what does the hive need?" in sent


def _path() -> str:
    return ":".join(path for path in sys.path if path)
