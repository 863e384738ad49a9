"""Each command's help ends with examples, and they are commands that there are."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click
import pytest

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


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_shows_examples(name: str) -> None:
    """A new command needs a line or two in `cli/screen/examples.py`."""
    command, context = COMMANDS[name]

    assert "Examples:" in command.get_help(context), f"nacre {name} has no examples"


def test_examples_are_of_commands_that_there_are() -> None:
    """A command that went, or got another name, takes its examples with it."""
    assert set(EXAMPLES) - set(COMMANDS) == set()


@pytest.mark.parametrize("line", sorted({line for lines in EXAMPLES.values() for line in lines}))
def test_an_example_can_be_typed(line: str) -> None:
    """Its command has these options, and takes so many words."""
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
