"""The command `nacre admin agents`: which agents the state folder has."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from nacre.cli.invocation import begin, json_option, shared_options
from nacre.cli.nouns import Listing
from nacre.cli.screen.json_text import print_json

if TYPE_CHECKING:
    from nacre.cli.invocation import Invocation
    from nacre.runtime.settings.config import ListedAgent

_HEADING = ("AGENT", "NAME", "MODEL", "WORKSPACE")


@click.group("agents", cls=Listing, noun="admin agents")
@json_option()
@shared_options
def command(context: click.Context, as_json: bool) -> int:
    """List the agents that the settings name.

    --agent ID before or behind any other command chooses one of them.
    """
    from nacre.cli.screen.plain import aligned
    from nacre.cli.screen.screen import screen_on

    invocation = begin(context)
    agents = invocation.config.agents
    if as_json:
        return print_json([_json(agent) for agent in agents])
    rows = [_HEADING, *(_row(agent, invocation) for agent in agents)]
    screen = screen_on(sys.stdout, invocation.environment)
    for row in aligned(rows):
        screen.row(row)
    invocation.warn(*invocation.config.notices)
    return 0


def _row(agent: ListedAgent, invocation: Invocation) -> tuple[str, ...]:
    from nacre.cli.screen.plain import one_line

    return (
        f"{agent.id} (default)" if agent.is_default else agent.id,
        one_line(agent.name) or "-",
        one_line(agent.model_name) or "offline",
        one_line(invocation.short(agent.workspace)),
    )


def _json(agent: ListedAgent) -> dict[str, Any]:
    return {
        "id": agent.id,
        "name": agent.name or None,
        "isDefault": agent.is_default,
        "workspace": str(agent.workspace),
        "model": agent.model_name or None,
    }
