"""`nacre send` for scripts: the reply on standard output, everything else beside it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tests.cli.program import environment, run_cold, run_nacre
from tests.servers.provider_server import ProviderServer
from tests.servers.provider_wire import Step

PROVIDER = {"NACRE_MODEL": "openai/test-model", "NO_PROXY": "127.0.0.1"}


def write_provider(
    home: Path, server: ProviderServer, more: Mapping[str, Any] = MappingProxyType({})
) -> None:
    """Points the settings at a loopback provider, as an owner would."""
    state = home / ".nacre"
    state.mkdir(exist_ok=True)
    settings = {"models": {"providers": {"openai": {"baseUrl": server.url, "apiKey": "sk-very-secret-key"}}}}
    (state / "nacre.json5").write_text(json.dumps({**settings, **more}), encoding="utf-8")


def assert_log_holds_no_words(log: Path, *words: str) -> None:
    """The log file is the owner's alone, has JSON lines, and nothing of what was said."""
    text = log.read_text(encoding="utf-8")
    entries = [json.loads(line) for line in text.splitlines()]
    assert log.stat().st_mode & 0o777 == 0o600
    assert {"at", "level", "logger", "message"} <= entries[0].keys()
    assert [word for word in words if word in text.lower()] == []


def test_what_one_run_was_told_the_next_one_knows(tmp_path: Path) -> None:
    """The reply alone is on standard output; a question from a pipe finds yesterday's note, as JSON."""
    told = run_cold(tmp_path, "send", "-m", "Remember that my boat is called Halcyon.")
    asked = run_nacre(tmp_path, "send", "--json", stdin="What is my boat called?")

    assert told.returncode == 0
    assert "Halcyon" in told.stdout
    assert told.stdout.endswith("\n")
    assert "· append" in told.stderr
    assert "\x1b" not in told.stdout + told.stderr
    value = json.loads(asked.stdout)
    assert asked.returncode == 0
    assert asked.stderr == ""
    assert "Halcyon" in value["reply"]
    assert value["sessionKey"] == "agent:main:main"
    assert "error" not in value
    kinds = [(event["type"], event.get("toolName")) for event in value["events"]]
    assert kinds == [("toolStarted", "memory_search"), ("toolEnded", "memory_search")]
    transcript = tmp_path / ".nacre/agents/main/sessions" / f"{value['sessionId']}.jsonl"
    assert "What is my boat called?" in transcript.read_text(encoding="utf-8")
    assert_log_holds_no_words(tmp_path / ".nacre/logs/nacre.log", "halcyon", "boat")


def test_a_note_is_found_by_meaning_in_the_next_run(tmp_path: Path) -> None:
    """One run stays until its note has a vector; the next finds it without a word in common.

    A search waits for the model for some seconds only: on a busy machine the person asks again.
    """
    run_nacre(tmp_path, "send", "-m", "Remember that my doctor moved her practice to the harbour street")
    for _ in range(5):
        asked = run_nacre(tmp_path, "send", "-m", "To which address did the physician relocate?")
        if "harbour street" in asked.stdout:
            break

    assert "harbour street" in asked.stdout
    assert "`memory/" in asked.stdout


@pytest.mark.covers("ATT-17")
def test_the_message_can_stand_without_a_flag(tmp_path: Path) -> None:
    """Words behind `send` are the message, together."""
    run = run_nacre(tmp_path, "send", "Remember", "that my boat is called Halcyon.")

    assert run.returncode == 0
    assert "my boat is called Halcyon" in run.stdout


def test_files_are_sent_along(tmp_path: Path) -> None:
    """On the wire an image is an image part, and a text file stands behind the words."""
    (tmp_path / "hive.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01")
    (tmp_path / "hive.txt").write_text("Seven frames", encoding="utf-8")
    with ProviderServer() as server:
        server.reply("I see.")
        write_provider(tmp_path, server)
        files = ("-a", str(tmp_path / "hive.png"), "-a", str(tmp_path / "hive.txt"))
        run = run_nacre(tmp_path, "send", "-m", "Look", *files, **PROVIDER)

    assert run.stdout == "I see.\n"
    head = "[attachment 'hive.txt', text/plain, 12 bytes; this is its text:]"
    assert server.requests[0]["messages"][-1]["content"] == [
        {"type": "text", "text": "Look"},
        {"type": "text", "text": f"{head}\nSeven frames\n[end of 'hive.txt']"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB"}},
    ]


@pytest.mark.slow
@pytest.mark.covers("ATT-17")
def test_json_is_printed_also_when_the_command_is_interrupted(tmp_path: Path) -> None:
    """A script that reads the object gets one, with the error, and the exit code of the signal."""
    started: list[subprocess.Popen[str]] = []

    def interrupt(_request: object) -> Step:
        started[0].send_signal(signal.SIGINT)
        return Step(text="Well", ending="stall")

    with ProviderServer(responder=interrupt) as server:
        write_provider(tmp_path, server)
        started.append(
            subprocess.Popen(
                [sys.executable, "-m", "nacre", "send", "hello", "--json"],
                stdout=subprocess.PIPE,
                text=True,
                cwd=tmp_path,
                env=environment(tmp_path, **PROVIDER),
            )
        )
        with started[0] as command:
            printed, _ = command.communicate(timeout=60)

    assert command.returncode == 130
    told = json.loads(printed)
    assert told["reply"] is None
    assert told["error"] == {"type": "TurnCancelled", "message": "The turn was stopped by signal 2."}


@pytest.mark.slow
@pytest.mark.covers("ATT-12")
def test_a_slow_model_is_told_while_it_is_waited_for(tmp_path: Path) -> None:
    """On standard error, with how to stop it; the reply stands alone on standard output."""
    with ProviderServer() as server:
        server.reply("Here I am.", held="head")
        write_provider(tmp_path, server, {"agents": {"defaults": {"modelSlowSeconds": 0.2}}})
        with subprocess.Popen(
            [sys.executable, "-m", "nacre", "send", "hello"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env=environment(tmp_path, **PROVIDER),
        ) as command:
            assert command.stderr is not None
            told = next(line for line in command.stderr if "is slow" in line)
            server.go_on()
            printed, _ = command.communicate(timeout=60)

    assert told == "· openai/test-model is slow: it has sent nothing for 0.2 s. Ctrl-C stops the turn.\n"
    assert (command.returncode, printed) == (0, "Here I am.\n")


def test_an_agent_that_cannot_open_is_code_1_in_words_and_in_json(tmp_path: Path) -> None:
    """The failure is one sentence on standard error, or the `error` of the JSON object."""
    (tmp_path / "taken").write_text("", encoding="utf-8")
    arguments = ("send", "-m", "hello", "--workspace", str(tmp_path / "taken"))

    in_words = run_nacre(tmp_path, *arguments)
    in_json = run_nacre(tmp_path, *arguments, "--json")

    assert (in_words.returncode, in_words.stdout) == (1, "")
    assert "taken" in in_words.stderr
    assert "Traceback" not in in_words.stderr
    assert (in_json.returncode, in_json.stderr) == (1, "")
    error = json.loads(in_json.stdout)["error"]
    assert error["type"] == "TurnBroken"
    assert error["message"] == in_words.stderr.strip()


def test_a_turn_that_fails_names_its_session(tmp_path: Path) -> None:
    """The JSON object has the key of the session that the message is kept in; one that cannot be has none."""
    arguments = ("send", "hello", "--json", "--model", "openai/none", "--session")
    failed = json.loads(run_nacre(tmp_path, *arguments, "bees").stdout)
    nowhere = json.loads(run_nacre(tmp_path, *arguments, "agent:").stdout)

    assert (failed["error"]["type"], failed["sessionKey"]) == ("ModelAuthError", "agent:main:direct:bees")
    assert (nowhere["error"]["type"], nowhere["sessionKey"]) == ("SessionKeyInvalid", None)


def test_a_turn_that_fails_is_code_1(tmp_path: Path) -> None:
    """A session that cannot be is told on standard error, and nothing goes to standard output."""
    run = run_nacre(tmp_path, "send", "-m", "hello", "--session", "agent:")

    assert (run.returncode, run.stdout) == (1, "")
    assert "The session key 'agent:' names no session." in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.slow
def test_silence_prints_nothing(tmp_path: Path) -> None:
    """NO_REPLY leaves standard output empty and is no failure; the key is not in the log."""
    with ProviderServer() as server:
        write_provider(tmp_path, server)
        server.reply("NO_REPLY")
        run = run_nacre(tmp_path, "send", "-m", "no answer, please", **PROVIDER)

    assert (run.returncode, run.stdout) == (0, "")
    assert "NO_REPLY" not in run.stderr
    assert "very-secret" not in (tmp_path / ".nacre/logs/nacre.log").read_text(encoding="utf-8")
