"""Each command's help ends with examples, and they are commands that there are."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click

from nacre.cli.main import nacre
from nacre.cli.screen.examples import EXAMPLES


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
    """A new command needs a line or two in `cli/screen/examples.py`."""
    helps = {name: command.get_help(context) for name, (command, context) in COMMANDS.items()}

    assert [name for name, text in helps.items() if "Examples:" not in text] == []


TELL_NO_JSON = {
    *(
        "chat",
        "completion",
        "mcp",
        "serve",
        "worker",
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
