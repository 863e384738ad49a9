"""The table of commands in docs/cli.md, made from the help texts.

`make fix` writes it into the page, or `python -m tests.documents.command_table`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from nacre.cli.main import nacre
from nacre.cli.nouns import Listing

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"

_TABLE = re.compile(r"(<!-- commands: (?!end)[^>]*-->\n).*?(<!-- commands: end -->)", re.DOTALL)


def with_table(text: str, table: str) -> str:
    """The page with another table between its markers."""
    return _TABLE.sub(lambda match: f"{match[1]}\n{table}\n\n{match[2]}", text)


def current_table() -> str:
    """A row for each command that `--help` shows, with those of the built-in extensions."""
    rows = _rows(nacre, click.Context(nacre, info_name="nacre"))
    return "\n".join(["| Command | What it does |", "|---|---|", *rows])


def write(page: Path = PAGE) -> None:
    """Put the table of this checkout into the page."""
    page.write_text(with_table(page.read_text(encoding="utf-8"), current_table()), encoding="utf-8")


def _rows(group: click.Group, context: click.Context) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden or command.get_short_help_str() == "":
            continue
        if isinstance(group, Listing) and name == "list":
            continue  # the same as the group alone
        inner = click.Context(command, parent=context, info_name=name)
        yield f"| `{inner.command_path}` | {command.get_short_help_str(limit=200)} |"
        if isinstance(command, click.Group):
            yield from _rows(command, inner)


if __name__ == "__main__":
    write()
