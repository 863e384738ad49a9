"""`nacre serve` as a process: it answers the chats that the settings name, and ends when it is asked to."""

from __future__ import annotations

import json
import signal
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.bridges.channels.contract.line_extension import install_line
from tests.bridges.line_channel import LineServer
from tests.cli.program import WAIT_SECONDS, environment, run_nacre
from tests.runtime.agents import write_settings
from tests.servers.warm_python import WarmProgram


def serving(home: Path, *arguments: str, **variables: str) -> AbstractContextManager[WarmProgram]:
    """A running `nacre serve`."""
    return WarmProgram.piped(
        *("-m", "nacre", "serve", *arguments), cwd=home, env=environment(home, **variables)
    )


def line_settings(home: Path, port: int, **more: Any) -> dict[str, Any]:
    """Settings with the line channel, written into the home's state folder; everybody may speak."""
    settings = {
        "channels": {"line": {"port": port, "dmPolicy": "open"}},
        "messages": {"queue": {"debounceMs": 1}},
        **more,
    }
    write_settings(home / ".nacre", settings)
    return settings


def test_it_answers_the_chats_of_the_settings_and_ends_on_a_signal(tmp_path: Path) -> None:
    """One account of one channel, made of the settings alone; SIGTERM ends it with code 0."""
    path = install_line(tmp_path / "site")
    with LineServer() as server:
        line_settings(tmp_path, server.port)
        with serving(tmp_path, PYTHONPATH=path) as process:
            server.say("Who are you?")
            server.wait_for(lambda here: here.shown())
            process.send_signal(signal.SIGTERM)
            assert process.wait(WAIT_SECONDS) == 0


@pytest.mark.slow
def test_a_server_that_is_not_there_is_told_in_the_terminal(tmp_path: Path) -> None:
    """With the reason, while the program goes on trying; and when it is connected, that it is."""
    path = install_line(tmp_path / "site")
    with LineServer() as gone:
        port = gone.port
    line_settings(tmp_path, port)
    with serving(tmp_path, PYTHONPATH=path) as process:
        assert process.stderr is not None
        told = next(line for line in process.stderr if "tried again" in line)
    assert "line waiting" in told
    assert "refused" in told.lower() or "connect" in told.lower()

    with LineServer() as server:
        line_settings(tmp_path, server.port)
        with serving(tmp_path, PYTHONPATH=path) as process:
            assert process.stdout is not None
            assert any(line == "line connected.\n" for line in process.stdout)


def test_a_channel_that_cannot_be_used_is_told_at_the_start(tmp_path: Path) -> None:
    """A wrong value, a missing channel: exit code 2 and a sentence each, and no value of a setting."""
    path = install_line(tmp_path / "site")
    write_settings(tmp_path / ".nacre", {"channels": {"line": {"port": "hunter2"}, "pigeon": {}}})

    run = run_nacre(tmp_path, "serve", PYTHONPATH=path)

    assert run.returncode == 2
    assert "The settings of channels.line are invalid: port: Input should be a valid integer" in run.stderr
    assert "There is no channel 'pigeon'" in run.stderr
    assert "hunter2" not in run.stderr


@pytest.mark.covers("A3-7")
def test_bindings_choose_among_the_agents_of_one_process(tmp_path: Path) -> None:
    """Each account is answered by its agent, in whose folder the conversation lies."""
    path = install_line(tmp_path / "site")
    with LineServer() as server:
        settings = line_settings(
            tmp_path,
            server.port,
            agents={"list": [{"id": "main"}, {"id": "work"}]},
            bindings=[{"agentId": "work", "match": {"channel": "line", "peer": {"id": "bob"}}}],
        )
        with serving(tmp_path, PYTHONPATH=path) as process:
            server.say("Who are you?", chat="a", sender="ann")
            server.say("Who are you?", chat="b", sender="bob")
            server.wait_for(lambda here: here.shown("a") and here.shown("b"))
            process.send_signal(signal.SIGTERM)
            assert process.wait(WAIT_SECONDS) == 0

    assert settings["bindings"]
    folders = {name: tmp_path / ".nacre" / "agents" / name / "sessions" for name in ("main", "work")}
    keys = {name: json.loads((folders[name] / "sessions.json").read_text()) for name in folders}
    assert [key for key in keys["main"] if "bob" in key] == []
    assert [key for key in keys["work"] if "bob" in key]


def taken_over(server: LineServer, first: Path, second: Path, **variables: str) -> None:
    """A program that serves from one home is killed; the standby of the other one answers from then on."""
    with serving(first, **variables) as killed:
        server.say("Who are you?", chat="one")
        server.wait_for(lambda here: here.shown("one"))
        with serving(second, "--standby", **variables) as standby:
            assert standby.stdout is not None
            assert standby.stdout.readline().startswith("Another program serves.")
            killed.kill()
            server.say("Who are you?", chat="two")
            server.wait_for(lambda here: here.shown("two"))
            standby.send_signal(signal.SIGTERM)
            assert standby.wait(WAIT_SECONDS) == 0


@pytest.mark.slow
def test_a_standby_takes_over_from_a_program_that_was_killed(tmp_path: Path) -> None:
    """It says that it waits, connects nothing until then, and answers what comes afterwards."""
    path = install_line(tmp_path / "site")
    with LineServer() as server:
        line_settings(tmp_path, server.port)
        taken_over(server, tmp_path, tmp_path, PYTHONPATH=path)
        with serving(tmp_path, "--standby", PYTHONPATH=path) as alone:
            server.say("Who are you?", chat="three")
            server.wait_for(lambda here: here.shown("three"))
            with serving(tmp_path, "--standby", PYTHONPATH=path) as waiting:
                assert waiting.stdout is not None
                waiting.stdout.readline()
                waiting.send_signal(signal.SIGTERM)
                assert waiting.wait(WAIT_SECONDS) == 0
            assert alone.poll() is None


@pytest.mark.slow
def test_a_changed_settings_file_is_read_anew(tmp_path: Path) -> None:
    """An account that is new is answered; what needs a new start is told."""
    path = install_line(tmp_path / "site")
    with LineServer() as server, LineServer() as other:
        settings = line_settings(tmp_path, server.port)
        with serving(tmp_path, PYTHONPATH=path) as process:
            server.say("one")
            server.wait_for(lambda here: here.shown())
            accounts = {"default": {}, "second": {"port": other.port}}
            channels = {"line": {**settings["channels"]["line"], "accounts": accounts}}
            memory = {"citations": "off"}
            write_settings(tmp_path / ".nacre", {**settings, "channels": channels, "memory": memory})
            other.say("two")
            other.wait_for(lambda here: here.shown())
            before = len(server.sent)
            server.say("three")
            server.wait_for(lambda here: len(here.sent) > before)
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(WAIT_SECONDS)

    assert "Started: line/second." in out
    assert "memory.citations" in out


def test_without_a_channel_the_next_step_is_told(tmp_path: Path) -> None:
    """As commands, not as a page of the documentation."""
    with serving(tmp_path) as process:
        assert process.stderr is not None
        told = process.stderr.readline()
    assert "`nacre config set http.port 8700` a page for the browser" in told


def test_check_starts_nothing(tmp_path: Path) -> None:
    """Each account and agent by name, and exit code 0."""
    path = install_line(tmp_path / "site")
    line_settings(tmp_path, 9)

    run = run_nacre(tmp_path, "serve", "--check", PYTHONPATH=path)

    assert run.returncode == 0, run.stderr
    assert run.stdout == "line/default can be started.\nAgents: main.\n"
    assert not (tmp_path / ".nacre" / "bridges").exists()
