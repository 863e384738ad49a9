"""`nacre admin`: the commands that an owner needs now and then."""

from __future__ import annotations

import click

from nacre.cli.nouns import Noun


@click.group("admin", cls=Noun, noun="admin")
def command() -> None:
    """Access, extensions, schedule, log, agents, MCP, databases."""
