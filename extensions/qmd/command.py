"""`nacre memory qmd`."""

from __future__ import annotations

import click

from nacre.cli.invocation import begin, shared_options


@click.command("qmd")
@shared_options
def command(context: click.Context) -> int:
    """Print lines for a shell in which your own qmd uses this agent's index."""
    from nacre.extensions.qmd.qmd_memory import qmd_home

    invocation = begin(context)
    invocation.say(*qmd_home(invocation.config).recipe())
    return 0
