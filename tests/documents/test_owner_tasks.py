"""Twelve things that an owner does, each with at most three commands, as `docs/engineering/owner-tasks.md`
lists them. Each test types the commands of its row into the running program and looks at the result."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.program import WAIT_SECONDS, Terminal, environment, run_nacre
from tests.extensions.importers import exports, sources
from tests.house.tree import ROOT
from tests.servers.provider_server import ProviderServer

PAGE = ROOT / "docs" / "engineering" / "owner-tasks.md"
MOST_COMMANDS = 3
ROWS = re.findall(r"(?m)^\| (\w[^|]+?) \| ([^|]+?) \| (`.+`) \|$", PAGE.read_text(encoding="utf-8"))
TASKS = {name: re.findall(r"`([^`]+)`", now) for name, _before, now in ROWS}
"""What is typed for each task, now."""
FACT = "My boat is called Halcyon."


class Owner:
    """Somebody who types the commands of one row, in its order; `typed` counts them."""

    def __init__(self, task: str, home: Path, **variables: str) -> None:
        self._commands = TASKS[task]
        self.home = home
        self._variables = variables
        self.typed = 0

    def __enter__(self) -> Owner:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        assert error is not None or self.typed == len(self._commands)

    def next(self, **real: object) -> str:
        """The next command; where the page has a word in capitals, such as FILE, it has the real one."""
        command = self._commands[self.typed]
        self.typed += 1
        for word, meant in real.items():
            assert word in command
            command = command.replace(word, str(meant))
        return command

    def runs(self, **real: object) -> str:
        """Runs the next command; what it prints."""
        program, *arguments = shlex.split(self.next(**real))
        assert program == "nacre"
        ran = run_nacre(self.home, *arguments, **self._variables)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def says(self) -> str:
        """Types the next line into `nacre chat`; the answer."""
        ran = run_nacre(self.home, "chat", stdin=f"{self.next()}\n", **self._variables)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def edits(self, change: str) -> None:
        """Types the next line into a chat on a terminal; the editor makes the change of a `sed` script."""
        editor = self.home / "editor"
        editor.write_text(f'#!/bin/sh\nexec sed -i {shlex.quote(change)} "$1"\n')
        editor.chmod(0o755)
        with Terminal(self.home, "chat", EDITOR=str(editor), VISUAL=str(editor), **self._variables) as chat:
            chat.wait_for("Ctrl-D leaves")
            line = self.next()
            chat.type(f"{line}\r")
            chat.wait_for(f"The next turn reads the new {line.split()[1]}.")
            chat.type("/quit\r")
            assert chat.exit_code() == 0


def knows(home: Path) -> Path:
    """Has the assistant know something; the note that has it."""
    assert run_nacre(home, "chat", stdin=f"/remember {FACT}\n").returncode == 0
    note = home / ".nacre/workspace/MEMORY.md"
    assert FACT in note.read_text()
    return note


def test_the_page_has_twelve_tasks_of_at_most_three_commands() -> None:
    """None needs the documentation; each has a test here that types it."""
    text = Path(__file__).read_text(encoding="utf-8")

    assert len(TASKS) == 12
    for name, commands in TASKS.items():
        assert 1 <= len(commands) <= MOST_COMMANDS, name
        assert f'"{name}"' in text


def test_connect_a_server(tmp_path: Path) -> None:
    """Its address is enough: the model is found, tried and kept."""
    with ProviderServer(models=["qwen3"]) as server:
        server.reply("ready")
        server.reply("Here.")
        with Owner("Connect a server", tmp_path) as owner:
            owner.runs(ADDRESS=f"127.0.0.1:{server.port}")
        assert "Here." in run_nacre(tmp_path, "send", "Hello").stdout


def test_change_the_persona(tmp_path: Path) -> None:
    """The file opens in the editor from inside the chat, and the next turn has the change."""
    run_nacre(tmp_path, "init")
    with Owner("Change the persona", tmp_path) as owner:
        owner.edits("1i Be dry.")
    run_nacre(tmp_path, "send", "Hello")
    assert "Be dry." in run_nacre(tmp_path, "sessions", "context", "--full").stdout


def test_find_a_note(tmp_path: Path) -> None:
    """Two lines: where it is, and the sentence."""
    knows(tmp_path)
    with Owner("Find a note", tmp_path) as owner:
        found = owner.runs()
    assert "MEMORY.md" in found
    assert FACT in found


def test_correct_a_note(tmp_path: Path) -> None:
    """The search says where it is, and the chat opens it."""
    knows(tmp_path)
    with Owner("Correct a note", tmp_path) as owner:
        assert "MEMORY.md" in owner.runs()
        owner.edits("s/Halcyon/Meridian/")
    assert "Meridian" in run_nacre(tmp_path, "search", "boat").stdout


def test_undo(tmp_path: Path) -> None:
    """In the chat; what was noted last is gone, and the answer shows it."""
    note = knows(tmp_path)
    with Owner("Take back what was noted", tmp_path) as owner:
        assert "Halcyon" in owner.says()
    assert FACT not in note.read_text()


def test_forget(tmp_path: Path) -> None:
    """The first line shows what would go and how to say yes."""
    note = knows(tmp_path)
    with Owner("Forget something", tmp_path) as owner:
        assert TASKS["Forget something"][1] in owner.says()
        owner.says()
    assert FACT not in note.read_text()


def test_cost_of_today(tmp_path: Path) -> None:
    """In the chat, or with the same word behind `nacre`."""
    run_nacre(tmp_path, "send", "Hello")
    with Owner("See what today cost", tmp_path) as owner:
        assert "today" in owner.says().lower()


def test_move_in(tmp_path: Path) -> None:
    """Notes and conversations come over, and what was said there is found at once."""
    with Owner("Move from OpenClaw and ChatGPT", tmp_path) as owner:
        sources.openclaw(tmp_path / ".openclaw")
        exports.chatgpt(tmp_path / "export.zip")
        owner.runs(**{"~": tmp_path})
        assert "nacre sessions search" in owner.runs()
        assert "Bowline." in owner.runs()


def test_back_up_and_restore(tmp_path: Path) -> None:
    """One file, and its name is enough on the other machine."""
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    knows(old)
    with Owner("Back up and restore", old) as owner:
        owner.runs()
        (archive,) = old.glob("nacre-*.tar.gz")
        owner.home = new
        owner.runs(FILE=archive)
    assert FACT in run_nacre(new, "search", "boat").stdout


@pytest.mark.slow
@pytest.mark.channels
def test_add_telegram(tmp_path: Path) -> None:
    """A stranger's code comes from the bot with the command that admits them; then the bot answers."""
    from tests.cli.serving.test_serve import serving
    from tests.extensions.telegram.bot_api import TOKEN, BotApi
    from tests.runtime.agents import write_settings

    with BotApi() as server, Owner("Add Telegram", tmp_path, BOT_TOKEN=TOKEN) as owner:
        write_settings(tmp_path / ".nacre", {"channels": {"telegram": {"apiRoot": server.url}}})
        owner.runs()
        assert shlex.split(owner.next()) == ["nacre", "serve"]
        with serving(tmp_path):
            server.say("Hello")
            server.wait_for(lambda here: here.shown)
            approve = re.search(r"nacre admin access approve (\w+)", server.shown[0].text)
            assert approve is not None
            with Terminal(tmp_path, *shlex.split(owner.next(CODE=approve[1]))[1:]) as terminal:
                terminal.wait_for("Let in")
            server.say("Are you there?")
            server.wait_for(lambda here: len(here.shown) > 1)


def test_write_a_tool(tmp_path: Path) -> None:
    """The program of the README is a file with one function; it runs as it stands there."""
    blocks = re.findall(r"(?ms)^```python\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"))
    (tmp_path / "honey.py").write_text(next(block for block in blocks if "@tool" in block))
    with Owner("Write a tool", tmp_path) as owner:
        program, *arguments = shlex.split(owner.next())
        ran = subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env=environment(tmp_path),
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS,
        )
    assert program == "python"
    assert (ran.returncode, bool(ran.stdout.strip())) == (0, True), ran.stderr


def test_put_it_on_a_server(tmp_path: Path) -> None:
    """`init` writes the service and prints the command that starts it; what the service runs can serve."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("systemctl", "loginctl"):
        (programs / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {tmp_path}/asked\n')
        (programs / name).chmod(0o755)
    path = f"{programs}:{environment(tmp_path)['PATH']}"
    with Owner("Put it on a server", tmp_path, PATH=path) as owner:
        assert owner.next().startswith("uv tool install ")  # `make fresh` runs it
        printed = owner.runs()
        start = owner.next()
        assert start in printed
        assert not (tmp_path / "asked").exists()
        subprocess.run(["sh", "-c", start], env=environment(tmp_path, PATH=path), check=True)
    unit = (tmp_path / ".config/systemd/user/nacre.service").read_text()
    (command,) = re.findall(r"(?m)^ExecStart=(.+)$", unit)
    checked = subprocess.run(
        [*shlex.split(command), "--check"],
        env=environment(tmp_path),
        capture_output=True,
        timeout=WAIT_SECONDS,
    )

    assert (tmp_path / "asked").read_text().splitlines() == [
        "systemctl --user enable --now nacre",
        "loginctl enable-linger",
    ]
    assert checked.returncode == 0, checked.stderr
