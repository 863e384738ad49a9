"""`nacre admin mcp tools` and `nacre admin mcp approve`: tools are approved in a terminal alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from nacre.extensions.mcp.client.tool_list import ApprovedTools, ListedTool, StoredToolList, ToolList
from nacre.runtime.settings.sections.mcp import McpServer
from tests.cli.program import Terminal, run_here, run_nacre
from tests.extensions.mcp.client import wild_server
from tests.runtime.agents import write_settings

SERVER = McpServer(command="tracker")


def _changed(home: Path) -> None:
    """A server whose first list is approved, and that has changed a tool since."""
    folder = home / ".nacre" / "mcp"
    write_settings(home / ".nacre", {"mcp": {"servers": {"tracker": {"command": "tracker"}}}})
    old = ListedTool(name="list", description="Lists.", schema={"type": "object"}, is_read_only=True)
    new = ListedTool(name="list", description="Lists all.", schema={"type": "object"}, is_read_only=True)
    folder.mkdir(parents=True)
    StoredToolList(folder, "tracker", SERVER).write(ToolList(at_ms=1, tools=(new,)))
    ApprovedTools(folder, "tracker", SERVER).approve([old])


def _state(home: Path) -> str:
    (told,) = json.loads(run_here(home, "admin", "mcp", "tools", "--json").stdout)
    return str(told["state"])


def test_a_server_that_nobody_asked_yet_is_asked(tmp_path: Path) -> None:
    """Its tools are listed and kept, and one that cannot start is named with the reason."""
    pytest.importorskip("mcp")
    asked = {"command": sys.executable, "args": [wild_server.__file__, str(tmp_path / "starts")]}
    write_settings(tmp_path / ".nacre", {"mcp": {"servers": {"w": asked, "gone": {"command": "no-such"}}}})
    first = run_nacre(tmp_path, "admin", "mcp", "tools")
    assert "w  add  approved" in first.stdout
    assert "'gone' is unavailable: there is no program or folder 'no-such'" in " ".join(first.stderr.split())
    assert "w  add  approved" in run_nacre(tmp_path, "admin", "mcp", "tools").stdout
    assert (tmp_path / "starts").read_text() == "1"


def test_a_changed_tool_is_approved_in_a_terminal(tmp_path: Path) -> None:
    """The list shows what waits; the approval is of the tool as it is now."""
    assert "No tools are known" in run_here(tmp_path, "admin", "mcp", "tools").stdout
    _changed(tmp_path)
    assert _state(tmp_path) == "waiting"
    with Terminal(tmp_path, "admin", "mcp", "approve", "tracker", "list") as terminal:
        terminal.wait_for("Approved for tracker: list")
        assert terminal.exit_code() == 0
    assert _state(tmp_path) == "approved"


def test_a_program_approves_nothing(tmp_path: Path) -> None:
    """Without a terminal on standard input nothing is approved."""
    _changed(tmp_path)
    assert run_nacre(tmp_path, "admin", "mcp", "approve", "tracker", stdin="y\n").returncode == 1
    assert _state(tmp_path) == "waiting"
