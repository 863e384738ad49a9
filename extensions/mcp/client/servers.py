"""The servers of the settings, and their tools in a turn.

settings ─► kept lists ─► tools of the first request      (nothing is started)
                │
first turn ─────┴─► no list, or an old one: start in the background ─► list ─► kept
a call ───────────► start if need be ─► result
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from nacre.extensions.mcp.client.listed_tool import ListedTool, ToolList
from nacre.extensions.mcp.client.names import tool_name
from nacre.extensions.mcp.client.schemas import arguments_of, schema_problem
from nacre.extensions.mcp.client.server import Server
from nacre.records.record import Record
from nacre.runtime.contracts.policy import ChatPolicy
from nacre.runtime.settings.sections.hooks import ToolNames
from nacre.runtime.settings.sections.mcp import McpServer
from nacre.runtime.tools.function import FunctionTool
from nacre.runtime.tools.toolbox import ToolFailed, ToolOutput

WAIT_SECONDS = 3.0
"""So long a first turn waits for servers whose tools nobody knows yet; later turns have them."""
LIST_DAYS_MS = 24 * 60 * 60 * 1000
"""A list that is older is asked for again, beside the first turn."""


MOST_NAMED = 5
"""Withheld tools that a notice names."""


class _Made(Record):
    """The tools of a server for a turn, and what they were made of."""

    listed: tuple[ListedTool, ...]
    approved: Mapping[str, str]
    tools: tuple[FunctionTool[..., Any], ...]


class ToolServers:
    """All servers that are switched on. `home` fills in `~`, lists of tools are kept in `folder`."""

    def __init__(
        self, servers: Mapping[str, McpServer], *, home: Path, folder: Path, now_ms: Callable[[], int]
    ) -> None:
        self._now_ms = now_ms
        self._servers = [
            Server(name, settings, home=home, folder=folder, now_ms=now_ms)
            for name, settings in servers.items()
            if settings.enabled
        ]
        self._waited_for: set[str] = set()
        self._made: dict[str, _Made] = {}
        self._left_out: dict[str, tuple[str, ...]] = {}

    async def ready(self, policy: ChatPolicy) -> None:
        """Has the tools of such a chat at hand, as far as they can be had soon; cheap where they are."""
        waited = []
        for server in self._servers:
            if policy.audience not in server.settings.chats or server.name in self._waited_for:
                continue
            self._waited_for.add(server.name)
            if server.listed is None:
                waited.append(server.begin())
            elif self._now_ms() - server.listed.at_ms > LIST_DAYS_MS:
                server.begin()
        if waited:
            await asyncio.wait(waited, timeout=WAIT_SECONDS)

    def tools(self, taken: Collection[str]) -> tuple[FunctionTool[..., Any], ...]:
        """The tools that are known now; their names are none of `taken`."""
        names = set(taken)
        found: list[FunctionTool[..., Any]] = []
        for server in self._servers:
            for tool in self._of(server):
                if tool.name not in names:
                    names.add(tool.name)
                    found.append(tool)
        return tuple(found)

    @property
    def notices(self) -> tuple[str, ...]:
        """What the owner should know: tools that are left out, servers that are not there."""
        lost = [
            f"The MCP server {server.name!r} is not there: {server.problem}."
            for server in self._servers
            if server.problem
        ]
        return (*(line for lines in self._left_out.values() for line in lines), *lost)

    def status(self) -> tuple[str, ...]:
        """Each server and how it is."""
        return tuple(f"{server.name} ({server.status()})" for server in self._servers)

    async def close(self) -> None:
        """Ends every server that runs."""
        await asyncio.gather(*(server.close() for server in self._servers))

    def _of(self, server: Server) -> tuple[FunctionTool[..., Any], ...]:
        listed = server.listed
        if listed is None:
            return ()
        approved = server.approved()
        made = self._made.get(server.name)
        if made is None or (made.listed != listed.tools or made.approved != approved):
            tools = self._tools(server, listed, approved)
            made = self._made[server.name] = _Made(listed=listed.tools, approved=approved, tools=tools)
        return made.tools

    def _tools(
        self, server: Server, listed: ToolList, approved: Mapping[str, str]
    ) -> tuple[FunctionTool[..., Any], ...]:
        made: dict[str, FunctionTool[..., Any]] = {}
        left_out, withheld = [], []
        for tool in listed.tools:
            if not server.settings.tools.admits(tool.name):
                continue
            if approved.get(tool.name) != tool.digest:
                withheld.append(tool.name)
                continue
            problem = schema_problem(tool.schema)
            if problem:
                left_out.append(
                    f"The tool {tool.name[:80]!r} of the MCP server {server.name!r} is left out. {problem}"
                )
                continue
            name = tool_name(server.name, tool.name, made)
            made.setdefault(name, _function_tool(server, tool, name))
        if withheld:
            names = ", ".join(repr(name[:80]) for name in withheld[:MOST_NAMED])
            more = f" and {len(withheld) - MOST_NAMED} more" if len(withheld) > MOST_NAMED else ""
            left_out.append(
                f"The MCP server {server.name!r} has new or changed tools, which are not offered: "
                f"{names}{more}. To read and approve them: nacre mcp tools, nacre mcp approve {server.name}"
            )
        self._left_out[server.name] = tuple(left_out)
        return tuple(made.values())


def _function_tool(server: Server, tool: ListedTool, name: str) -> FunctionTool[..., Any]:
    settings = server.settings
    is_trusted = bool(settings.trusted) and ToolNames(allow=settings.trusted).admits(tool.name)

    async def call(values: dict[str, Any]) -> ToolOutput:
        if server.listed is None or tool not in server.listed.tools:
            raise ToolFailed(
                f"The server {server.name!r} has changed this tool; the owner has to approve it."
            )
        return await server.call(tool.name, values)

    def why(**_arguments: Any) -> str:
        return f"{tool.name} of the server {server.name} is not marked as one that only reads"

    return FunctionTool(
        function=call,
        name=name,
        description=tool.description,
        arguments=arguments_of(tool.schema),
        chats=frozenset(settings.chats),
        timeout_seconds=settings.timeout_seconds,
        context_name="",
        needs_approval=False if is_trusted or tool.is_read_only else why,
    )
