"""The recipes of AGENTS.md, followed in a copy of the repository.

Each recipe names every file that it changes, and the result keeps the rules of the house.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.house.tree import ROOT

pytestmark = pytest.mark.slow

DRAWN = ("docs/engineering/rooms.md", "docs/settings.md", "docs/cli.md", "docs/engineering/coverage.md")
"""Files that `make fix` writes."""


COUNT_WORDS = '''\
"""The tool `count_words`."""

from __future__ import annotations

from pydantic import Field

from nacre.runtime.tools.toolbox import CallScope, Tool, ToolArguments, ToolFailed, ToolOutput


class CountWordsArguments(ToolArguments):
    """The arguments of `count_words`."""

    text: str = Field(description="The text.")


def count_words_tool() -> Tool:
    """Counts the words of a text."""
    return Tool(
        name="count_words",
        description="Count the words of a text.",
        arguments=CountWordsArguments,
        run=_count,
    )


async def _count(arguments: CountWordsArguments, _scope: CallScope) -> ToolOutput:
    if not arguments.text.strip():
        raise ToolFailed("The text is empty. Call count_words with a text.")
    return ToolOutput(text=str(len(arguments.text.split())))
'''
COUNT_WORDS_TEST = '''\
"""The tool `count_words`, called through the toolbox."""

from __future__ import annotations

from nacre.runtime.tools.count_words import count_words_tool
from nacre.runtime.tools.toolbox import Toolbox
from nacre.sessions.contracts.messages import ToolCall, message_text


async def test_words_are_counted() -> None:
    """A text gives its number of words; a wrong argument gives a sentence."""
    toolbox = Toolbox([count_words_tool()], now_ms=lambda: 0)
    good, bad = [
        (await toolbox.run(ToolCall(id="1", name="count_words", arguments=arguments))).message
        for arguments in ({"text": "two words"}, {"words": 2})
    ]

    assert message_text(good) == "2"
    assert bad.is_error
'''
HELLO = '''\
"""`/hello`."""

from __future__ import annotations

from nacre.runtime.commands.command import Command, CommandRun, Outcome


async def _hello(run: CommandRun) -> Outcome:
    return run.reply(f"Hello, {run.rest.strip() or 'you'}!")


HELLO = Command(name="hello", arguments="[name]", help="say hello", run=_hello)
'''
HELLO_TEST = '''\
"""`/hello` as its user meets it."""

from __future__ import annotations

from pathlib import Path

from nacre.runtime.models.scripted import ScriptedModel
from tests.runtime.agents import opened, said


async def test_hello(tmp_path: Path) -> None:
    """The command answers without the model."""
    async with opened(tmp_path, ScriptedModel()) as agent:
        reply = await agent.respond(said("/hello Ann"))

    assert reply is not None
    assert reply.text == "Hello, Ann!"
'''
GREET = '''\
"""The command `nacre greet`."""

from __future__ import annotations

import click

from nacre.cli.invocation import shared_options


@click.command("greet")
@click.argument("name")
@shared_options
def command(_context: click.Context, name: str) -> int:
    """Greet somebody."""
    click.echo(f"Hello, {name}!")
    return 0
'''
GREET_TEST = '''\
"""`nacre greet`."""

from __future__ import annotations

from pathlib import Path

from tests.cli.program import run_nacre


def test_greet(tmp_path: Path) -> None:
    """It greets by name."""
    assert run_nacre(tmp_path, "greet", "Ann").stdout == "Hello, Ann!\\n"
'''
TITLES_TEST = '''\
"""`hooks.internal.entries.session-memory.titles`."""

from __future__ import annotations

from nacre.runtime.settings.sections.hooks import SessionMemorySettings


def test_titles_are_on_by_default() -> None:
    """A note begins with a title unless the owner says otherwise."""
    assert SessionMemorySettings().titles
    assert not SessionMemorySettings(titles=False).titles
'''
FAREWELL = '''\
def farewell(name: str) -> str:
    """The request for a goodbye."""
    return render("session/farewell", name=name)


'''
GREETINGS = """\
CREATE TABLE greetings (
    agent TEXT NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (agent, name)
);
ALTER TABLE greetings ENABLE ROW LEVEL SECURITY;
"""
TCP_BRIDGE = '''\
"""`TcpBridge`: chats as lines over TCP."""

from __future__ import annotations

import asyncio
from itertools import count

from nacre.bridges.contracts.bridge import Bridge, Capabilities, Inbox, Part
from nacre.bridges.contracts.errors import NotDelivered
from nacre.runtime.contracts.inbound import Inbound


'''
TCP_CHANNEL = '''\
"""`channels.tcp` in the settings, and `CHANNEL`."""

from __future__ import annotations

from nacre.bridges.contracts.bridge import Bridge
from nacre.bridges.contracts.channel import AccountHome, AccountSettings, Channel


class TcpSettings(AccountSettings):
    """A port for lines."""

    port: int
    """The port on loopback."""


def _make(_home: AccountHome, settings: TcpSettings) -> Bridge:
    from nacre.extensions.tcp.bridge import TcpBridge

    return TcpBridge(settings.port)


CHANNEL = Channel(name="tcp", settings=TcpSettings, make=_make)
'''
TCP_README = """\
# extensions/tcp

Lines over TCP.

| File | What it is | Kind |
|---|---|---|
| `bridge.py` | `TcpBridge`: receives and sends lines | edge |
| `channel.py` | `channels.tcp` in the settings, and `CHANNEL` | contract |
| `nacre.extension.json` | the manifest | contract |
"""
TCP_TEST = '''\
"""The channel `tcp`."""

from __future__ import annotations

from nacre.extensions.tcp.bridge import TcpBridge
from nacre.extensions.tcp.channel import CHANNEL, TcpSettings


def test_the_channel_names_its_settings() -> None:
    """The settings of `channels.tcp` name a port, and the bridge counts lengths in bytes."""
    assert CHANNEL.name == "tcp"
    assert TcpSettings(port=7000).port == TcpBridge(7000).port
'''


class Copy:
    """A copy of the repository, and the files that a recipe creates or changes in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.opened: set[str] = set()

    def add(self, path: str, text: str) -> None:
        """Creates a file."""
        target = self.root / path
        assert not target.exists(), path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        self.opened.add(path)

    def insert(self, path: str, before: str, text: str) -> None:
        """Inserts lines before the first line that begins with `before`."""
        lines = (self.root / path).read_text(encoding="utf-8").splitlines(keepends=True)
        at = next(index for index, line in enumerate(lines) if line.startswith(before))
        lines.insert(at, text)
        (self.root / path).write_text("".join(lines), encoding="utf-8")
        self.opened.add(path)

    def run(self, *arguments: str) -> None:
        """Runs Python modules of the copy on the copy."""
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.root,
            env={**os.environ, "PYTHONPATH": str(self.root / "build/typed"), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-2_000:]


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    """A copy of all files that belong to the repository."""
    root = tmp_path / "repository"
    left_out = shutil.ignore_patterns(".git", ".venv", "build", "__pycache__", "*.egg-info", ".*_cache")
    shutil.copytree(ROOT, root, ignore=left_out, symlinks=True)
    (root / "build/typed").mkdir(parents=True)
    (root / "build/typed/nacre").symlink_to("../..")
    return Copy(root)


def tool(copy: Copy) -> None:
    """Adds the tool `count_words`."""
    copy.add("runtime/tools/count_words.py", COUNT_WORDS)
    copy.insert(
        "runtime/turn/context.py",
        "from nacre.runtime.tools.file_tools import",
        "from nacre.runtime.tools.count_words import count_words_tool\n",
    )
    copy.insert(
        "runtime/turn/context.py",
        "            return offered_tools((), own, chat, rules)",
        "            own.append(count_words_tool())\n",
    )
    copy.insert(
        "runtime/tools/README.md", "| `file_tools.py`", "| `count_words.py` | `count_words` | pure |\n"
    )
    copy.insert(
        "tests/house/rules/libraries.py",
        '        "runtime/tools/file_tools.py"',
        '        "runtime/tools/count_words.py",\n',
    )
    copy.add("tests/runtime/tools/test_count_words.py", COUNT_WORDS_TEST)


def chat_command(copy: Copy) -> None:
    """Adds the chat command `/hello`."""
    copy.add("runtime/commands/hello.py", HELLO)
    copy.insert(
        "runtime/commands/registry.py",
        "from nacre.runtime.commands.memory_commands import",
        "from nacre.runtime.commands.hello import HELLO\n",
    )
    copy.insert("runtime/commands/registry.py", "    HELP,", "    HELLO,\n")
    copy.insert("runtime/commands/README.md", "| `memory_commands.py`", "| `hello.py` | `/hello` | pure |\n")
    copy.add("tests/runtime/commands/test_hello.py", HELLO_TEST)


def terminal_command(copy: Copy) -> None:
    """Adds the terminal command `nacre greet`."""
    copy.add("cli/setup/greet.py", GREET)
    row = '    "greet": ("nacre.cli.setup.greet", "Greet somebody."),\n'
    copy.insert("cli/nouns.py", '    "init": ("nacre.cli', row)
    copy.insert("cli/nouns.py", '    "chat": ("nacre chat', '    "greet": ("nacre greet Ann",),\n')
    copy.insert("cli/setup/README.md", "| `init.py`", "| `greet.py` | `nacre greet` | contract |\n")
    copy.add("tests/cli/setup/test_greet.py", GREET_TEST)


def setting(copy: Copy) -> None:
    """Adds the setting `hooks.internal.entries.session-memory.titles`."""
    copy.insert(
        "runtime/settings/sections/hooks.py",
        "    messages: Annotated[int",
        '    titles: bool = True\n    """Whether a note begins with a title."""\n',
    )
    copy.add("tests/runtime/settings/test_titles.py", TITLES_TEST)


def prompt(copy: Copy) -> None:
    """Adds the prompt `session/farewell`."""
    copy.add("prompts/session/farewell.md", "Say goodbye to {{name}} in one sentence.\n")
    copy.insert(
        "prompts/session/README.md",
        "| `heartbeat.md`",
        "| `farewell.md` | what ends a session | `name` | data |\n",
    )
    copy.add("tests/prompts/golden/session/farewell.txt", "Say goodbye to SOUL.md in one sentence.\n")
    copy.insert("runtime/session_lifecycle/session_memory.py", "def ", FAREWELL)


def table(copy: Copy) -> None:
    """Adds a table to the PostgreSQL schema."""
    copy.add("extensions/postgres/server/schema/9999_greetings.sql", GREETINGS)


def channel(copy: Copy) -> None:
    """Adds the channel of `docs/bridges.md` as a built-in channel `tcp`."""
    pattern = r"```python\nimport asyncio\n.*?(class TcpBridge.*?)\n\n\nasync def main"
    [bridge] = re.findall(pattern, _text("docs/bridges.md"), re.DOTALL)
    copy.add("extensions/tcp/bridge.py", TCP_BRIDGE + bridge + "\n")
    copy.add("extensions/tcp/channel.py", TCP_CHANNEL)
    copy.add("extensions/tcp/__init__.py", "")
    copy.add(
        "extensions/tcp/nacre.extension.json",
        '{\n  "id": "tcp",\n  "description": "A chat channel: lines over TCP.",\n  "kind": "channel"\n}\n',
    )
    copy.add("extensions/tcp/README.md", TCP_README)
    copy.insert("extensions/README.md", "| [`xmpp/`]", "| [`tcp/`](tcp/) | lines over TCP | room |\n")
    copy.insert(
        "pyproject.toml", 'xmpp = "nacre.extensions', 'tcp = "nacre.extensions.tcp.channel:CHANNEL"\n'
    )
    copy.insert("pyproject.toml", '    "nacre.extensions.telegram",', '    "nacre.extensions.tcp",\n')
    copy.insert("tests/house/law.py", '            *("memory_bench", "postgres",', '            *("tcp",),\n')
    copy.add("tests/extensions/tcp/__init__.py", "")
    copy.add("tests/extensions/tcp/test_channel.py", TCP_TEST)
    copy.insert("docs/bridges.md", "## ", "`channels.tcp` takes lines over TCP.\n\n")


RECIPES: dict[str, tuple[Callable[[Copy], None], int, str]] = {
    "A tool": (tool, 6, "tests/runtime/tools/test_count_words.py"),
    "A chat command": (chat_command, 5, "tests/runtime/commands/test_hello.py"),
    "A terminal command": (terminal_command, 5, "tests/cli/setup/test_greet.py"),
    "A setting": (setting, 2, "tests/runtime/settings/test_titles.py"),
    "A prompt": (prompt, 4, "tests/prompts"),
    "A table in PostgreSQL": (table, 1, "tests/house"),
    "A built-in channel": (channel, 11, "tests/extensions/tcp"),
}
"""For each recipe what it does, the most files that it may open, and its tests."""


@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_can_be_followed(title: str, copy: Copy) -> None:
    """The recipe names each file that it opens; the result passes its tests and the rules of the house."""
    follow, most_files, tests = RECIPES[title]
    follow(copy)
    for module in (
        "tests.house.drawing",
        "tests.documents.settings.settings_page",
        "tests.documents.command_table",
    ):
        copy.run("-m", module)

    named = _named(title)
    unnamed = [path for path in copy.opened if not any(re.fullmatch(pattern, path) for pattern in named)]
    assert not unnamed, f"AGENTS.md does not name {unnamed} under {title!r}"
    assert len(copy.opened) <= most_files
    copy.run("-m", "ruff", "check", *(path for path in copy.opened if path.endswith(".py")))
    copy.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/house", tests)


def _text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def _named(title: str) -> list[str]:
    """The paths that a recipe names, and those of the recipes that it refers to, as regular expressions."""
    text = _text("AGENTS.md")
    [recipe] = re.findall(rf"^\*\*{re.escape(title)}\.\*\* (.*)$", text, re.MULTILINE)
    for other in re.findall(r"Also follow the recipes for (.*?)\.", recipe):
        for name in re.findall(r"an? (bridge|room|dependency)", other):
            found = re.findall(rf"^\*\*A {name}(?: to a chat)?\.\*\* (.*)$", text, re.MULTILINE)
            recipe += " ".join(found)
    paths = re.findall(r"`([\w<>./-]+[./][\w<>./-]*)`", recipe)
    patterns = [re.sub(r"\\?<\w+\\?>", r"[^/]+", re.escape(path)) for path in paths]
    folders = [pattern + r".*" for pattern in patterns if pattern.endswith("/")]
    return [*patterns, *folders, r".*/README\.md" if "README" in recipe else r"\b\B", r".*/__init__\.py"]
