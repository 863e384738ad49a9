"""The command `nacre acp`, which an editor starts."""

from __future__ import annotations

import click

from nacre.cli.invocation import Invocation, begin, shared_options
from nacre.installation import install_command

NOT_INSTALLED = (
    "`nacre acp` needs the library agent-client-protocol, which cannot be imported ({error}). "
    "Install it with `{command}`."
)


@click.command("acp")
@shared_options
def command(context: click.Context) -> int:
    """Talk to an editor over the Agent Client Protocol.

    The editor starts this command and speaks over standard input and output: Zed, JetBrains, Neovim and
    others. Its user is the owner. docs/mcp.md describes how to set them up.
    """
    from nacre.cli.signals import run_until_signal

    try:
        import acp  # noqa: F401 - reported as missing before anything is opened
    except ImportError as error:
        raise click.ClickException(
            NOT_INSTALLED.format(error=error, command=install_command("acp"))
        ) from error
    return run_until_signal(_serve(begin(context)))


async def _serve(invocation: Invocation) -> int:
    from nacre.extensions.acp.editor import serve_editor
    from nacre.runtime.agent.agent import Agent

    async with Agent.open(environment=invocation.environment) as agent:
        invocation.warn(*agent.notices)
        await serve_editor(agent)
    return 0
