"""The program around the commands: help, version, wrong usage, and what loading it costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from nacre import __version__
from nacre.cli.main import nacre
from nacre.cli.nouns import Noun
from nacre.runtime.settings import config
from tests.cli.program import environment, run_here, run_nacre

HEAVY = (
    "apsw",
    "asyncio",
    "litellm",
    "numpy",
    "prompt_toolkit",
    "pydantic",
    "rich",
    "tiktoken",
    "nacre.runtime.agent.agent",
)


def test_help_loads_nothing_heavy() -> None:
    """`nacre --help` imports no library but click, and neither the agent nor the settings."""
    script = (
        "import json, sys\n"
        "from nacre.cli.main import nacre\n"
        "nacre.main(['--help'], standalone_mode=False)\n"
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr)\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)

    assert "Usage:" in run.stdout
    assert set(json.loads(run.stderr)) & set(HEAVY) == set()


def test_version_is_the_package_version() -> None:
    """`nacre --version` says which Nacre this is."""
    result = CliRunner().invoke(nacre, ["--version"])
    assert result.output == f"nacre {__version__}\n"


def test_help_fits_on_one_screen() -> None:
    """24 lines of 80 columns hold the verbs by task; everything else stands behind one of them."""
    lines = CliRunner().invoke(nacre, ["--help"]).output.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    words = [line.split()[0] for line in lines if line.startswith("  ")]
    verbs = "chat send search memory sessions status usage config init serve doctor backup admin"
    assert set(verbs.split()) <= set(words)


def test_help_names_every_command_as_it_names_itself() -> None:
    """The texts in the table are those of the commands, so that help is right without loading them."""
    waiting: list[tuple[Noun, click.Context]] = [(nacre, click.Context(nacre, info_name="nacre"))]
    while waiting:
        group, context = waiting.pop()
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            assert command.name == name
            assert command.get_short_help_str(limit=200) == group.line(context, name)
            if isinstance(command, Noun):
                waiting.append((command, click.Context(command, parent=context, info_name=name)))


def test_help_names_the_variables_that_the_settings_read() -> None:
    """Each shared option says which environment variable does the same."""
    output = CliRunner().invoke(nacre, ["chat", "--help"]).output
    for variable in (config.STATE_DIR_VARIABLE, config.WORKSPACE_VARIABLE, config.MODEL_VARIABLE):
        assert f"[env: {variable}]" in output


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["frobnicate"], "No such command 'frobnicate'"),
        (["--frobnicate"], "--frobnicate"),
        (["send", "--json", "--frobnicate"], "--frobnicate"),
        (["send", "-m", "  "], "There is nothing to send. Give a text with -m, or pipe one in."),
        (["send"], "There is nothing to send."),
        (["send", "-m", "one", "two"], "There are two messages."),
        (["sned", "hello"], "Did you mean 'send'?"),
        (["chat", "extra"], "Got unexpected extra argument"),
        (
            ["memory", "search", "x", "--after", "2026-13-01"],
            "'2026-13-01' names no day. Write one as YYYY-MM-DD, or in words",
        ),
    ],
)
def test_wrong_usage_ends_with_code_2(arguments: list[str], complaint: str) -> None:
    """What cannot be understood is said in a sentence; nothing runs."""
    result = CliRunner().invoke(nacre, arguments)
    assert result.exit_code == 2
    assert complaint in result.output


def test_a_broken_settings_file_is_a_sentence_and_code_2(tmp_path: Path) -> None:
    """Settings that cannot be read stop the program without a trace, and are left as they are."""
    state = tmp_path / "state"
    state.mkdir()
    settings = state / "nacre.json5"
    settings.write_text("{ agents: ", encoding="utf-8")

    run = run_nacre(tmp_path, "--state-dir", str(state), "send", "-m", "hello")

    assert run.returncode == 2
    assert run.stdout == ""
    assert run.stderr.startswith(f"The settings file {settings} is not JSON5")
    assert "Traceback" not in run.stderr
    assert settings.read_text(encoding="utf-8") == "{ agents: "


def test_options_stand_before_or_behind_the_command(tmp_path: Path) -> None:
    """`nacre --state-dir X init` and `nacre init --state-dir X` mean the same; the last one wins."""
    run = run_nacre(
        tmp_path, "--state-dir", "one", "init", "--json", "--state-dir", "~/two", "--workspace", "notes"
    )

    facts = json.loads(run.stdout)
    assert facts["stateDir"] == str(tmp_path / "two")
    assert facts["workspace"] == str(tmp_path / "notes")
    assert not (tmp_path / "one").exists()


def test_each_command_module_has_a_command() -> None:
    """What `main.py` imports by name is there."""
    context = click.Context(nacre)
    for name in nacre.list_commands(context):
        assert isinstance(nacre.get_command(context, name), click.Command)


def test_a_reader_that_went_away_ends_the_program_quietly(tmp_path: Path) -> None:
    """`nacre … | head` leaves no complaint behind."""
    reader, writer = os.pipe()
    os.close(reader)
    run = subprocess.run(
        [sys.executable, "-m", "nacre", "init"],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(tmp_path),
        timeout=60,
    )
    os.close(writer)

    assert (run.returncode, run.stderr) == (1, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no disk that is always full")
@pytest.mark.parametrize("arguments", [["--help"], ["init"]])
def test_output_that_cannot_be_written_is_a_sentence_and_code_1(tmp_path: Path, arguments: list[str]) -> None:
    """A full disk behind standard output is said on standard error, without a trace."""
    with Path("/dev/full").open("w") as full:
        run = subprocess.run(
            [sys.executable, "-m", "nacre", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(tmp_path),
            timeout=60,
        )

    assert run.returncode == 1
    assert run.stderr.startswith("Nacre stopped because the system refused an operation: ")
    assert run.stderr.count("\n") == 1


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_a_closed_stream_is_as_good_as_the_null_device(tmp_path: Path, closed: str) -> None:
    """The command does its work; what is said to the stream that its caller closed is lost, and no more."""
    script = f'"$0" -m nacre send "Remember that my boat is called Halcyon." {closed}'
    run = subprocess.run(
        ["sh", "-c", script, sys.executable],
        capture_output=True,
        text=True,
        env=environment(tmp_path),
        timeout=60,
    )

    assert run.returncode == 0, run.stderr
    assert ("Halcyon" in run.stdout) == ("1>" not in closed)
    assert ("append" in run.stderr) == ("2>" not in closed)
    notes = (tmp_path / ".nacre/workspace/memory").glob("*.md")
    assert any("Halcyon" in note.read_text(encoding="utf-8") for note in notes)


@pytest.mark.parametrize(
    "command", [("memory", "status"), ("sessions", "list"), ("admin", "agents"), ("init",)]
)
@pytest.mark.covers("SEED-22")
def test_settings_that_are_not_read_are_told_by_every_command(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    """Not by a conversation alone; standard output stays what scripts read."""
    (tmp_path / ".nacre").mkdir()
    settings = '{memory: {engine: "qmd"}, agents: {defaults: {memorySearch: {provider: "none"}}}}'
    (tmp_path / ".nacre" / "nacre.json5").write_text(settings, encoding="utf-8")

    run = run_here(tmp_path, *command)

    assert "memory.engine" in run.stderr
    assert "memory.engine" not in run.stdout


@pytest.mark.parametrize(
    ("place", "code", "told"),
    [
        ("nacre.json5", 2, "is a pipe or a device"),
        ("logs/nacre.log", 0, ""),
        ("agents/main/sessions/sessions.json", 1, "is not a regular file"),
        ("agents/main/sessions/sessions.json.changes", 1, "is not a regular file"),
        ("agents/main/sessions/sessions.json.bak", 1, "is not a regular file"),
        ("agents/main/sessions/lost.jsonl", 0, ""),
        ("agents/main/sessions/endings/0000000000001-x.json", 0, ""),
    ],
)
@pytest.mark.covers("ATT-13")
def test_a_pipe_in_the_place_of_a_file_keeps_nobody_waiting(
    tmp_path: Path, place: str, code: int, told: str
) -> None:
    """Only plain files are read; what a turn cannot do without is asked for with a sentence."""
    pipe = tmp_path / ".nacre" / place
    pipe.parent.mkdir(parents=True)
    os.mkfifo(pipe)

    ended = run_nacre(tmp_path, "send", "hello")

    assert (ended.returncode, told in ended.stderr) == (code, True)
    assert pipe.is_fifo()


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


def test_what_changes_something_tells_programs_too(tmp_path: Path) -> None:
    """Settings, notes, facts, tokens: what was done as an object, and the exit code as without `--json`."""

    def told(*arguments: str) -> tuple[int, dict[str, Any]]:
        run = run_here(tmp_path, *arguments, "--json")
        return run.returncode, json.loads(run.stdout)

    note = tmp_path / ".nacre/workspace/memory/2026-01-20.md"
    note.parent.mkdir(parents=True)
    note.write_text("- The mast is new.\n", encoding="utf-8")
    file = str(tmp_path / ".nacre/nacre.json5")

    assert told("config", "set", "usage.dailyCapUsd", "2") == (
        0,
        {"changed": True, "file": file, "notices": []},
    )
    assert told("config", "unset", "session")[1]["changed"] is False
    assert told("memory", "index")[1]["indexedFiles"] == 1
    assert told("memory", "get", "memory/2026-01-20.md")[1]["text"] == "- The mast is new."
    code, missing = told("memory", "get", "memory/2026-01-21.md")
    assert (code, missing["missing"]) == (1, True)
    told("memory", "facts", "set", "city", "Porto")
    assert told("memory", "facts", "forget", "city") == (0, {"forgotten": "city"})
    told("admin", "access", "token", "add", "desk")
    assert told("admin", "access", "token", "revoke", "desk") == (0, {"revoked": "desk"})
