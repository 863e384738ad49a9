"""Each command's help ends with examples, and they are commands that there are."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from nacre.cli.main import nacre
from nacre.cli.nouns import EXAMPLES
from tests.cli.program import run_nacre
from tests.runtime.agents import write_settings


def all_commands() -> Iterator[tuple[str, click.Command, click.Context]]:
    """Each command with its name behind `nacre` and a context for its help."""
    waiting: list[tuple[str, click.Command, click.Context]] = [
        ("", nacre, click.Context(nacre, info_name="nacre"))
    ]
    while waiting:
        name, command, context = waiting.pop()
        yield name, command, context
        if isinstance(command, click.Group):
            for below in command.list_commands(context):
                other = command.get_command(context, below)
                assert other is not None
                inner = click.Context(other, parent=context, info_name=below)
                waiting.append((f"{name} {below}".strip(), other, inner))


COMMANDS = {name: (command, context) for name, command, context in all_commands()}


def test_help_shows_examples() -> None:
    """A new command needs a line or two in `cli/nouns.py`."""
    helps = {name: command.get_help(context) for name, (command, context) in COMMANDS.items()}

    assert [name for name, text in helps.items() if name and "Examples:" not in text] == []


TELL_NO_JSON = {
    *(
        "chat",
        "admin completion",
        "serve",
        "acp",
        "admin worker",
    ),  # a conversation, a script for a shell, programs that stay
    *(
        "config edit",
        "config path",
        "config schema",
        "memory qmd",
    ),  # an editor, one line, JSON anyway, a shell
}
"""What programs cannot want as JSON."""


def test_every_command_can_tell_programs_what_it_did() -> None:
    """`--json` is there wherever something is told."""
    told = {
        name
        for name, (command, _) in COMMANDS.items()
        if not isinstance(command, click.Group) and not any(one.name == "as_json" for one in command.params)
    }
    assert told == TELL_NO_JSON


def test_examples_are_of_commands_that_there_are() -> None:
    """A command that went, or got another name, takes its examples with it."""
    assert set(EXAMPLES) - set(COMMANDS) == set()


def test_examples_can_be_typed() -> None:
    """Their commands have these options, and take so many words."""
    for line in sorted({line for lines in EXAMPLES.values() for line in lines}):
        parse(line)


def parse(line: str) -> None:
    """Fails with a usage error, or an assertion, where click would refuse the line."""
    found = re.search(r"(?:^|\$\(|= ?\w+ )nacre( [^|>)]*)?", re.sub(r"^\w+=\S+ ", "", line))
    assert found is not None, line
    words = shlex.split(found[1] or "")
    context = click.Context(nacre, info_name="nacre")
    command: click.Command = nacre
    while isinstance(command, click.Group):
        _, words, _ = command.make_parser(context).parse_args(words)
        if not words:
            return
        name, *words = words
        below = command.get_command(context, name)
        assert below is not None, f"{line}: there is no {name}"
        command, context = below, click.Context(below, parent=context, info_name=name)
    _, left, _ = command.make_parser(context).parse_args(words)
    assert left == [], line


STAYS = r"nacre|.* chat.*|nacre (serve|admin (worker.*|mcp|log -f))|.*config edit"
"""They talk, serve, follow or open an editor until somebody ends them; `parse` has read them."""
NEEDS = {
    r"hooks (dis)?trust|mcp approve|access (approve|deny|revoke)": "the owner's terminal",
    r"storage migrate|workspace (pull|push)": "PostgreSQL",
    r"age1…|\.age |nacre\.key|ollama/|:8080": "a key, an encrypted archive, a model server",
    r"-o main\.svg": "matplotlib, which an extra brings",
    r"3f2a9c10|0198c2f0|memory forget|--restore|schedule (add|remove)|completion": "an id, a line or a chat",
    r"import |--set |ltm": "an export of another program, questions, LanceDB",
}
"""Examples about what the prepared state has not. They are run too, and answer with a sentence."""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with notes, two agents, conversations, facts, a bank, and a backup of it all."""
    home = tmp_path_factory.mktemp("home")
    settings = {
        "agents": {"list": [{"id": "main", "default": True}, {"id": "work"}]},
        "memory": {"bank": {"enabled": True}, "facts": {"enabled": True}},
    }
    write_settings(home / ".nacre", settings)
    for words in (
        ["send", "-m", "Remember that my boat is called Halcyon."],
        ["send", "--session", "project", "-m", "Hello"],
        ["memory", "facts", "set", "city", "Porto"],
        ["backup", "nacre-2026-11-20.tar.gz"],
    ):
        assert run_nacre(home, *words).returncode == 0, words
    note = home / ".nacre/workspace/memory/2026-01-20.md"
    note.write_text("".join(f"- The old address, line {number}.\n" for number in range(1, 15)))
    return home


@pytest.mark.slow
def test_examples_run(prepared: Path) -> None:
    """Each line does what it is an example of; what follows a pipe finds something in the output."""
    failed = []
    for line in sorted({line for lines in EXAMPLES.values() for line in lines}):
        if not re.fullmatch(STAYS, line):
            failed += ran_badly(line, prepared)
    assert failed == []


def test_the_example_with_a_pipe_runs(prepared: Path) -> None:
    """The reply comes out of the JSON at the path that the example names."""
    [line] = [line for line in EXAMPLES["send"] if "|" in line]
    assert ran_badly(line, prepared) == []


def ran_badly(line: str, home: Path) -> list[str]:
    """The line with what was wrong, if anything was."""
    command, _, filter_ = re.split(r">", line)[0].partition("|")
    found = re.search(r"nacre( [^)]*)?", command.strip().removeprefix('eval "$('))
    assert found is not None, line
    words = shlex.split((found[1] or "").replace("~/", f"{home}/").replace("/mnt/", f"{home}/"))
    ended = run_nacre(home, *words)
    told = f"{line}: {ended.returncode} {ended.stdout[-200:]}{ended.stderr[-300:]}"
    if any(re.search(need, line) for need in NEEDS):
        is_sentence = "Traceback" not in ended.stderr and "No such option" not in ended.stderr
        return [] if is_sentence and (ended.returncode == 0 or ended.stderr.strip()) else [told]
    if ended.returncode != 0:
        return [told]
    if filter_ and not piped(filter_.strip(), ended.stdout):
        return [told]
    return []


def piped(command: str, text: str) -> str:
    """What `jq -r .a.b` makes of JSON, with jq where it is installed."""
    if shutil.which("jq"):
        run = subprocess.run(shlex.split(command), input=text, capture_output=True, text=True)
        return run.stdout.strip() if run.returncode == 0 else ""
    value = json.loads(text)
    for name in shlex.split(command)[-1].strip(".").split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return str(value or "")
