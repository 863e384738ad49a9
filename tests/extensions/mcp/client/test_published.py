"""Servers that others publish, as programs: their tools in a turn's shapes, and one call of each."""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from nacre.extensions.mcp.client.servers import ToolServers
from nacre.runtime.settings.sections.mcp import McpServer
from nacre.runtime.tools.function import FunctionTool
from tests.extensions.mcp.client.test_servers import OWNER, opened


def published(name: str, *args: str) -> McpServer:
    """A server's settings; the test is skipped where it is not installed."""
    program = Path(sys.executable).with_name(name)
    if not program.exists():
        pytest.skip(f"{name} is not installed: make protocols")
    return McpServer(command=str(program), args=args)


async def tools_of(servers: ToolServers) -> dict[str, FunctionTool[..., Any]]:
    """The tools by their names, once the servers have told them."""
    await servers.ready(OWNER)
    for _turn in range(1_200):  # a slow machine: each turn has what is known by then
        if servers.tools(()):
            break
        await asyncio.sleep(0.05)
    assert servers.notices == ()
    return {tool.name: tool for tool in servers.tools(())}


@pytest.mark.slow
async def test_mcp_server_time(tmp_path: Path) -> None:
    """Both of its tools are there, and one converts a time."""
    pytest.importorskip("mcp")
    async with opened(tmp_path, time=published("mcp-server-time")) as servers:
        tools = await tools_of(servers)
        assert set(tools) == {"time__get_current_time", "time__convert_time"}
        asked = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
        assert "21:00" in (await tools["time__convert_time"].function(values=asked)).text


@pytest.mark.slow
async def test_mcp_server_git(tmp_path: Path) -> None:
    """It tells of a repository; what changes one is asked about."""
    pytest.importorskip("mcp")
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is not installed")
    repository = tmp_path / "notes"
    made = await asyncio.create_subprocess_exec(git, "init", "-q", str(repository))
    assert await made.wait() == 0
    (repository / "new.md").write_text("new\n")
    async with opened(tmp_path, git=published("mcp-server-git")) as servers:
        tools = await tools_of(servers)
        said = await tools["git__git_status"].function(values={"repo_path": str(repository)})
        assert "new.md" in said.text
        assert callable(tools["git__git_commit"].needs_approval)
