"""The command `nacre admin agents`: the agents of the state folder."""

from __future__ import annotations

import sys

import click

from nacre.cli.invocation import begin, json_option, shared_options
from nacre.cli.nouns import Listing
from nacre.cli.screen.json_text import print_json

_HEADING = ("AGENT", "NAME", "MODEL", "WORKSPACE")


@click.group("agents", cls=Listing, noun="admin agents")
@json_option()
@shared_options
def command(context: click.Context, as_json: bool) -> int:
    """List the agents that the settings name.

    --agent ID before or after any other command chooses one of them.
    """
    from nacre.cli.screen.plain import aligned, one_line
    from nacre.cli.screen.screen import screen_on

    invocation = begin(context)
    agents = invocation.config.agents
    if as_json:
        return print_json(
            [
                {
                    "id": agent.id,
                    "name": agent.name or None,
                    "isDefault": agent.is_default,
                    "workspace": str(agent.workspace),
                    "model": agent.model_name or None,
                }
                for agent in agents
            ]
        )
    rows: list[tuple[str, ...]] = [_HEADING]
    for agent in agents:
        name = f"{agent.id} (default)" if agent.is_default else agent.id
        about = (agent.name or "-", agent.model_name or "offline", invocation.short(agent.workspace))
        rows.append((name, *map(one_line, about)))
    screen = screen_on(sys.stdout, invocation.environment)
    for row in aligned(rows):
        screen.row(row)
    invocation.warn(*invocation.config.notices)
    return 0
