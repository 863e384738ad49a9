"""The command `nacre acp`, which an editor starts."""

from __future__ import annotations

import click

from nacre.cli.invocation import Invocation, begin, check_library, shared_options


@click.command("acp")
@shared_options
def command(context: click.Context) -> int:
    """Talk to an editor over the Agent Client Protocol.

    The editor starts this command and speaks over standard input and output: Zed, JetBrains, Neovim and
    others. Its user is the owner. docs/mcp.md describes how to set them up.
    """
    from nacre.cli.signals import run_until_signal

    check_library("acp", library="agent-client-protocol", command="nacre acp")
    return run_until_signal(_serve(begin(context)))


async def _serve(invocation: Invocation) -> int:
    from nacre.extensions.acp.editor import serve_editor
    from nacre.runtime.agent.agent import Agent

    async with Agent.open(environment=invocation.environment) as agent:
        invocation.warn(*agent.notices)
        await serve_editor(agent)
    return 0
