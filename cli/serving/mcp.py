"""The command `nacre mcp`: the notes for another program, on standard input and output."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nacre.cli.invocation import begin, shared_options

if TYPE_CHECKING:
    from nacre.cli.invocation import Invocation

NOT_INSTALLED = (
    "`nacre mcp` needs the library mcp, which cannot be used here ({error}). "
    "Install it with `pip install 'nacre[mcp]'`."
)


@click.command("mcp")
@shared_options
def command(context: click.Context) -> int:
    """Share the notes with another program, which speaks MCP.

    The program starts this command. It can search and read the notes and add to the log of the day. It acts
    for the owner, whose account it runs in. docs/mcp.md says how to connect editors and coding agents.
    """
    from nacre.cli.signals import run_until_signal

    try:
        import mcp  # noqa: F401 - told as missing before anything is opened
    except ImportError as error:
        raise click.ClickException(NOT_INSTALLED.format(error=error)) from error
    return run_until_signal(_serve(begin(context)))


async def _serve(invocation: Invocation) -> int:
    from nacre import __version__
    from nacre.doors.mcp.server import memory_server, serve_stdio
    from nacre.doors.mcp.shared_memory import shared_memory
    from nacre.runtime.contracts.clock import owner_clock

    config = invocation.config
    now = owner_clock(config.settings.agent.user_timezone)
    invocation.warn(*config.notices)
    async with shared_memory(config, now) as memory:
        if memory.problem:
            invocation.warn(f"Notes are not searched. {memory.problem}")
        await serve_stdio(memory_server(memory, version=__version__))
    return 0
