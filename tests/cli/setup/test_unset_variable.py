"""A variable that the settings name and that is not set: everything else goes on working."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest

from nacre.runtime.contracts.errors import AgentError
from tests.bridges.channels.contract.line_extension import install_line
from tests.bridges.line_channel import LineServer
from tests.cli.program import WAIT_SECONDS, run_here, run_nacre
from tests.cli.serving.test_serve import line_settings, serving
from tests.runtime.agents import write_settings

KEY = "sk-proj-abcdEFGH1234567890abcd"
SETTINGS = {
    "agents": {
        "defaults": {
            "model": {"primary": "desk/qwen3"},
            "memorySearch": {
                "provider": "desk",
                "model": "embed",
                "remote": {"apiKey": "${DESK_KEY}", "baseUrl": "http://127.0.0.1:9/v1"},
            },
        }
    },
    "models": {"providers": {"desk": {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "${DESK_KEY}"}}},
    "mcp": {"servers": {"clock": {"command": "clock", "env": {"TOKEN": "${DESK_KEY}"}}}},
    "channels": {"irc": {"server": "irc.example", "nick": "nacre", "password": "${DESK_KEY}"}},
}


@pytest.fixture
def owner(tmp_path: Path) -> Path:
    """The home of somebody with notes and a conversation, whose key is not exported here."""
    home = tmp_path / "home"
    home.mkdir()
    assert run_nacre(home, "send", "-m", "Remember that the spare key hangs in the shed.").returncode == 0
    write_settings(home / ".nacre", SETTINGS)
    return home


WITHOUT_THE_KEY = (
    ("doctor", (0, 1), "DESK_KEY, which is not set"),
    ("memory search shed", (0,), "hangs in the shed"),
    ("memory status", (0,), ""),
    ("sessions list", (0,), "main"),
    ("sessions show main", (0,), "shed"),
    ("admin log", (0,), ""),
    ("status", (0,), "desk/qwen3"),
    ("usage", (0,), ""),
    ("sessions context", (0,), ""),
    ("config get", (0,), "desk/qwen3"),
    ("config get agents.defaults.model.primary", (0,), "desk/qwen3"),
    ("config explain models.providers.desk.apiKey", (0,), ""),
    ("backup saved.tar.gz", (0,), "saved.tar.gz"),
    ("config check", (1,), "DESK_KEY, which is not set"),
)
"""Commands, the exit codes that they may end with, and a part of what they print."""


@pytest.mark.slow
def test_what_does_not_need_it_works(owner: Path) -> None:
    """Each command does its work, and the one sentence about the variable says where it is missing."""
    for command, codes, shown in WITHOUT_THE_KEY:
        ended = run_nacre(owner, *command.split())

        assert ended.returncode in codes, (command, ended.stdout + ended.stderr)
        assert shown in " ".join((ended.stdout + ended.stderr).split()), command
        assert "Traceback" not in ended.stderr, command


def test_a_backup_can_be_searched_where_the_key_is_not(owner: Path, tmp_path: Path) -> None:
    """The archive is restored below another home, whose environment has no key."""
    assert run_nacre(owner, "backup", "saved.tar.gz").returncode == 0
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(owner / "saved.tar.gz", other)

    restored = run_nacre(other, "restore", "saved.tar.gz", "--to", str(other / ".nacre"))
    found = run_nacre(other, "memory", "search", "shed", "--json")

    assert restored.returncode == 0, restored.stderr
    assert any("shed" in hit["snippet"] for hit in json.loads(found.stdout)["results"])


def test_the_turn_that_needs_it_fails_with_a_sentence_and_keeps_the_message(owner: Path) -> None:
    """The message is on disk, no request is sent with a made-up key, and the variable is named."""
    ended = run_nacre(owner, "send", "-m", "What hangs in the shed?", "--json")

    assert ended.returncode == 1
    assert "DESK_KEY" in json.loads(ended.stdout)["error"]["message"]
    assert "What hangs in the shed?" in run_nacre(owner, "sessions", "show", "main").stdout


@pytest.mark.slow
def test_serve_goes_on_without_the_channel_whose_library_is_missing(tmp_path: Path) -> None:
    """The other channel is served, and `serve --check` says no all the same."""
    path = install_line(tmp_path / "site")
    with LineServer() as server:
        line_settings(tmp_path, server.port, channels={"line": {"port": server.port}, "pigeon": {}})
        with serving(tmp_path, PYTHONPATH=path) as process:
            assert process.stdout is not None
            assert any(line == "line connected.\n" for line in process.stdout)
            process.send_signal(signal.SIGTERM)
            assert process.wait(WAIT_SECONDS) == 0
        checked = run_nacre(tmp_path, "serve", "--check", PYTHONPATH=path)

    assert checked.returncode == 2
    assert "pigeon" in checked.stderr


def test_check_of_serve_needs_the_library_of_the_server(tmp_path: Path) -> None:
    """With `http.port` and without uvicorn it is no yes, and says what to install."""
    write_settings(tmp_path / ".nacre", {"http": {"port": 18789}})
    hidden = tmp_path / "hidden/uvicorn"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'uvicorn'\")\n")

    ended = run_nacre(tmp_path, "serve", "--check", PYTHONPATH=str(hidden.parent))

    assert ended.returncode == 1
    assert "[serve]" in ended.stderr


@pytest.mark.parametrize(("settings", "code"), [({}, 0), ({"channels": {"irc": {"server": "x"}}}, 1)])
def test_status_is_well_where_nothing_is_to_be_served(
    tmp_path: Path, settings: dict[str, object], code: int
) -> None:
    """Whoever only uses the terminal gets code 0; with a channel and without `nacre serve` it is 1."""
    write_settings(tmp_path / ".nacre", settings)
    assert run_nacre(tmp_path, "admin", "schedule", "list").returncode == 0
    assert run_nacre(tmp_path, "status").returncode == code
    assert run_nacre(tmp_path, "status", "--json").returncode == code


@pytest.mark.parametrize(
    "defaults",
    [
        {"model": {"primary": "${LEAK}"}},
        {"model": {"primary": "${LEAK}/x"}},
        {"userTimezone": "${LEAK}"},
        {"memorySearch": {"provider": "${LEAK}"}},
    ],
)
def test_a_key_in_the_wrong_place_is_not_told(
    tmp_path: Path, defaults: dict[str, object], capfd: pytest.CaptureFixture[str]
) -> None:
    """A refusal names the variable and not its value: of a model, a time zone, a provider."""
    write_settings(tmp_path / ".nacre", {"agents": {"defaults": {"modelSlowSeconds": 600, **defaults}}})
    searched = run_nacre(tmp_path, "memory", "search", "hello", LEAK="sk-1234567890")
    assert "sk-1234567890" not in searched.stdout + searched.stderr
    for command in (("send", "-m", "hello"), ("doctor",)):
        try:
            ended = run_here(tmp_path, *command, LEAK="sk-1234567890")
            told = ended.stdout + ended.stderr
        except AgentError as error:
            told = str(error)
        assert "sk-1234567890" not in told + "".join(capfd.readouterr()), command


@pytest.mark.parametrize("model", ["openai/${LLM_KEY}", f"openai/{KEY}"])
@pytest.mark.parametrize("command", [("status",), ("status", "--json"), ("doctor",), ("send", "/status")])
def test_a_key_in_the_place_of_a_model_is_not_shown(
    tmp_path: Path, command: tuple[str, ...], model: str
) -> None:
    """Written there or taken from a variable, by somebody who took one line of a guide for another."""
    write_settings(tmp_path / ".nacre", {"agents": {"defaults": {"model": {"primary": model}}}})
    told = run_here(tmp_path, *command, LLM_KEY=KEY)
    assert "openai/[redacted]" in told.stdout
    assert KEY not in told.stdout + told.stderr
