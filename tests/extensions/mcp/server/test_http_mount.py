"""`/mcp` on a real server of the process, with the HTTP client of the protocol's own library."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

pytest.importorskip("starlette", reason="the extra serve is not installed: make protocols")

from nacre.extensions.http.server.server import HttpServer
from nacre.extensions.http.server.tokens import Tokens
from nacre.extensions.mcp.client.servers import ToolServers
from nacre.runtime.contracts.clock import owner_clock
from nacre.runtime.contracts.policy import ChatPolicy
from nacre.runtime.settings.config import load_config
from nacre.runtime.settings.sections.mcp import McpServer
from tests.extensions.mcp.server.test_server import home  # noqa: F401 - a fixture; skips without mcp

if TYPE_CHECKING:
    from mcp import Client

NOW = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)


@asynccontextmanager
async def serving(home: Path) -> AsyncIterator[tuple[str, Tokens]]:  # noqa: F811 - the fixture
    """The address of the door, and the server's tokens."""
    from nacre.extensions.mcp.server.server import memory_mount

    state = home / ".nacre"
    config = load_config({"HOME": str(home)}, state_dir=state)
    tokens = Tokens(state)
    door = memory_mount({"main": config}, now=owner_clock("UTC"), version="1")
    server = await HttpServer.start([door], tokens=tokens, host="127.0.0.1", port=0)
    try:
        yield f"{server.url}/mcp", tokens
    finally:
        await server.close()


@asynccontextmanager
async def connected(url: str, token: str) -> AsyncIterator[Client]:
    """A client that has greeted the server."""
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client

    async with (
        create_mcp_http_client(headers={"Authorization": f"Bearer {token}"}) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


async def test_an_owner_searches_adds_and_reads(home: Path) -> None:  # noqa: F811 - the fixture
    """Tools and resources are those of `nacre admin mcp`, in both of the protocol's ages."""
    async with serving(home) as (url, tokens):
        token = tokens.add("desk", agent_id="main", is_owner=True, now=NOW)
        async with connected(url, token) as client:
            tools = {tool.name for tool in (await client.list_tools()).tools}
            assert tools == {"memory_search", "memory_get", "memory_append"}
            added = await client.call_tool("memory_append", {"text": "- The boat is called Halcyon."})
            assert "Noted in memory/" in added.content[0].text  # type: ignore[union-attr]
            found = await client.call_tool("memory_search", {"query": "boat Halcyon"})
            assert "called Halcyon" in found.content[0].text  # type: ignore[union-attr]
            uris = [str(resource.uri) for resource in (await client.list_resources()).resources]
            assert "nacre://notes/memory/2026-01-20.md" in uris


async def test_only_an_owners_token_opens_it(home: Path) -> None:  # noqa: F811 - the fixture
    """Without a token, with a stranger's, and with that of another agent nothing is said of the notes."""
    async with serving(home) as (url, tokens):
        stranger = tokens.add("stranger", agent_id="main", is_owner=False, now=NOW)
        other = tokens.add("other", agent_id="work", is_owner=True, now=NOW)
        ask = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        async with httpx.AsyncClient(verify=False) as client:
            said = {
                token: await client.post(url, json=ask, headers={"authorization": f"Bearer {token}"})
                for token in ("nonsense", stranger, other)
            }
        assert [answer.status_code for answer in said.values()] == [401, 403, 403]
        assert "not an owner's" in said[stranger].text
        assert "'work'" in said[other].text


async def test_the_memory_is_a_tool_server_of_another_assistant(home: Path) -> None:  # noqa: F811 - the fixture
    """Nacre's own client reaches it over HTTP, with the token in a header, and over standard input."""
    owner = ChatPolicy(chat_kind="direct", is_owner=True, session_key_is_private=True)
    async with serving(home) as (url, tokens):
        token = tokens.add("desk", agent_id="main", is_owner=True, now=NOW)
        named = McpServer(url=url, headers={"Authorization": f"Bearer {token}"})
        wrong = McpServer(url=url, headers={"Authorization": "Bearer no"}, start_seconds=5)
        servers = ToolServers(
            {"notes": named, "wrong": wrong},
            home=home,
            folder=home / "lists",
            now_ms=lambda: 1,
            wait_seconds=60.0,
        )
        try:
            await servers.ready(owner)
            tools = {tool.name: tool for tool in servers.tools(())}
            assert set(tools) == {f"notes__memory_{name}" for name in ("search", "get", "append")}
            assert callable(tools["notes__memory_append"].needs_approval)
            assert tools["notes__memory_search"].needs_approval is False
            found = await tools["notes__memory_search"].function(values={"query": "cabin key"})
            assert "cabin" in found.text
            assert "wrong (unavailable" in servers.status()[1]
        finally:
            await servers.close()
