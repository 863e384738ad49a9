"""The command `nacre admin mcp`: shares the notes, and approves the tools of MCP servers."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from nacre.cli.invocation import begin, check_library, json_option, shared_options
from nacre.cli.nouns import Noun
from nacre.cli.screen.json_text import print_json
from nacre.cli.screen.plain import one_line

if TYPE_CHECKING:
    from nacre.cli.invocation import Invocation
    from nacre.extensions.mcp.client.tool_list import ApprovedTools, ListedTool

_NO_TERMINAL = (
    "Tools can only be approved in a terminal, and standard input is not one. "
    "Run `nacre admin mcp approve {server}` yourself."
)


@click.group("mcp", cls=Noun, noun="admin mcp", invoke_without_command=True)
@shared_options
def command(context: click.Context) -> int | None:
    """Share the notes with another program over MCP, and approve the tools of MCP servers.

    The other program starts this command. It can search and read the notes and append to today's log, with
    the rights of the account that runs it. docs/mcp.md describes how to connect editors and coding agents.
    """
    if context.invoked_subcommand:
        return None
    from nacre.cli.signals import run_until_signal

    check_library("mcp", library="mcp", command="nacre admin mcp")
    return run_until_signal(_serve(begin(context)))


@command.command("tools")
@json_option("Print a JSON list.")
@shared_options
def tools(context: click.Context, as_json: bool) -> int:
    """List the tools of the servers in mcp.servers and whether they are approved.

    Servers whose tools are unknown are started and asked. A tool that a server adds or changes after its
    first connection is withheld until you approve it.
    """
    invocation = begin(context)
    asyncio.run(_ask_unknown(invocation))
    rows = []
    for server in invocation.config.settings.mcp.servers:
        approved, listed = _tools_of(invocation, server)
        digests = approved.digests()
        for tool in listed:
            rows.append((server, tool, digests is None or digests.get(tool.name) == tool.digest))
    if as_json:
        return print_json(
            [
                {
                    "server": server,
                    "name": tool.name,
                    "state": "approved" if is_approved else "waiting",
                    "isReadOnly": tool.is_read_only,
                    "description": tool.description,
                    "schema": dict(tool.schema),
                }
                for server, tool, is_approved in rows
            ]
        )
    for server, tool, is_approved in rows:
        state = "approved" if is_approved else "waits for approval"
        invocation.say(f"{one_line(server)}  {one_line(tool.name)}  {state}: {one_line(tool.description)}")
    if not rows:
        invocation.say("No tools are known: no server in mcp.servers has listed any.")
    return 0


@command.command("approve")
@click.argument("server")
@click.argument("tool", nargs=-1)
@json_option("Print a JSON object.")
@shared_options
def approve(context: click.Context, server: str, tool: tuple[str, ...], as_json: bool) -> int:
    """Approve the tools of SERVER as they are now, or only the named TOOLs.

    Review them first with `nacre admin mcp tools`. Requires a terminal, so that no program can approve for
    you.
    """
    invocation = begin(context)
    if not sys.stdin.isatty():
        invocation.warn(_NO_TERMINAL.format(server=server), tone="error")
        return 1
    if server not in invocation.config.settings.mcp.servers:
        invocation.warn(f"mcp.servers does not contain a server {server!r}.", tone="error")
        return 1
    approved, listed = _tools_of(invocation, server)
    chosen = [each for each in listed if not tool or each.name in tool]
    missing = sorted(set(tool) - {each.name for each in chosen})
    if missing or not chosen:
        problem = f"no tool {missing[0]!r}" if missing else "no known tools"
        invocation.warn(
            f"Nothing was approved: {server} has {problem}. See `nacre admin mcp tools`.", tone="error"
        )
        return 1
    approved.approve(chosen)
    names = [each.name for each in chosen]
    if as_json:
        return print_json({"server": server, "approved": names})
    invocation.say(f"Approved for {server}: {', '.join(names)}. They are available from the next turn on.")
    return 0


async def _ask_unknown(invocation: Invocation) -> None:
    from nacre.extensions.mcp.client.servers import Server
    from nacre.runtime.contracts.clock import epoch_ms, owner_clock

    config = invocation.config
    now, folder = owner_clock(config.settings.agent.user_timezone), config.state_dir / "mcp"
    for name, settings in config.settings.mcp.servers.items():
        server = Server(name, settings, home=config.home, folder=folder, now_ms=lambda: epoch_ms(now()))
        if settings.enabled and server.listed is None:
            await server.begin()
            if server.problem:
                invocation.warn(f"The MCP server {name!r} is unavailable: {server.problem}.")
            await server.close()


def _tools_of(invocation: Invocation, server: str) -> tuple[ApprovedTools, tuple[ListedTool, ...]]:
    from nacre.extensions.mcp.client.tool_list import ApprovedTools, StoredToolList

    settings = invocation.config.settings.mcp.servers[server]
    folder = invocation.config.state_dir / "mcp"
    listed = StoredToolList(folder, server, settings).read()
    return ApprovedTools(folder, server, settings), listed.tools if listed else ()


async def _serve(invocation: Invocation) -> int:
    from nacre import __version__
    from nacre.extensions.mcp.server.server import memory_server, serve_stdio, shared_memory

    config = invocation.config
    invocation.warn(*config.notices)
    async with shared_memory(config, config.clock) as memory:
        if memory.problem:
            invocation.warn(f"Search is unavailable. {memory.problem}")
        await serve_stdio(memory_server(memory, version=__version__))
    return 0
