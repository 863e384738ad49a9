"""`nacre admin mcp` as another program sees it, with the client of the protocol's own library."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from nacre.memory.files.sources.sources import Sources
from nacre.memory.workspace.folder import FolderWorkspace
from tests.cli.program import environment, run_here
from tests.libraries import needs
from tests.runtime.agents import write_settings

if TYPE_CHECKING:
    from mcp import ClientSession

needs("mcp", why="the extra mcp is not installed: make protocols")

FACT = "- The boat is called Halcyon."


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home folder with a workspace whose notes are found by words."""
    state = tmp_path / ".nacre"
    write_settings(
        state, {"agents": {"defaults": {"userTimezone": "UTC", "memorySearch": {"provider": "none"}}}}
    )
    (state / "workspace/memory").mkdir(parents=True)
    (state / "workspace/memory/2026-01-20.md").write_text("# Tuesday\n\nThe cabin's key hangs at Marco's.\n")
    (state / "workspace/AGENTS.md").write_text("Rules, which are no note.\n")
    return tmp_path


@asynccontextmanager
async def connected(home: Path) -> AsyncIterator[ClientSession]:
    """The program, and a client that has greeted it."""
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    program = StdioServerParameters(
        command=str(Path(sys.executable).with_name("nacre")),
        args=["admin", "mcp"],
        env=environment(home),
        cwd=home,
    )
    with (home / "stderr").open("w") as errors:
        async with (
            stdio_client(program, errlog=errors) as (reads, writes),
            ClientSession(reads, writes) as client,
        ):
            await client.initialize()
            yield client
    assert (home / "stderr").read_text() == ""


async def _called(client: ClientSession, tool: str, **arguments: Any) -> tuple[str, bool]:
    result = await client.call_tool(tool, arguments)
    [content] = result.content
    return content.text, bool(result.is_error)  # type: ignore[union-attr]


async def test_a_note_is_added_found_and_read_by_a_program(home: Path) -> None:
    """It stands in today's log once, is found at once, and is known as not the owner's own word."""
    async with connected(home) as client:
        tools = (await client.list_tools()).tools
        noted, _ = await _called(client, "memory_append", text=FACT)
        again, _ = await _called(client, "memory_append", text=FACT)
        found, _ = await _called(client, "memory_search", query="what is the boat called")
        read, _ = await _called(client, "memory_get", path="memory/2026-01-20.md")

    workspace = home / ".nacre/workspace"
    [log] = [path for path in (workspace / "memory").glob("*.md") if path.name != "2026-01-20.md"]
    text = log.read_text()
    assert [tool.name for tool in tools] == ["memory_search", "memory_get", "memory_append"]
    assert [tool.annotations and tool.annotations.read_only_hint for tool in tools] == [True, True, False]
    assert text.startswith("## Noted by a program at ")
    assert text.count(FACT) == 1
    assert noted == f"Noted in memory/{log.name}."
    assert again == f"Nothing was added: memory/{log.name} already contains all of it."
    best = json.loads(found)["results"][0]
    assert (best["path"], FACT in best["snippet"]) == (f"memory/{log.name}", True)
    assert "Marco" in json.loads(read)["text"]
    [source] = await Sources(FolderWorkspace(workspace, lock_dir=home)).of_lines(f"memory/{log.name}", [FACT])
    assert source is not None
    assert (source.is_owners_word, source.names, source.audience) == (False, ("mcp",), "private")
    assert datetime.fromisoformat(source.at).tzinfo is not None


async def test_notes_are_resources_and_nothing_else_is(home: Path) -> None:
    """Each note has an address; what is no note, or lies elsewhere, is refused with the reason."""
    from mcp.shared.exceptions import MCPError

    (home / "secret.md").write_text("not yours")
    (home / ".nacre/workspace/memory/a b é.md").write_text("ü\n")
    async with connected(home) as client:
        listed = (await client.list_resources()).resources
        texts = {
            item.name: (await client.read_resource(item.uri)).contents[0].text  # type: ignore[union-attr]
            for item in listed
        }
        for uri, reason in {
            "nacre://notes/AGENTS.md": "not a memory file",
            "nacre://notes/../../secret.md": "not a memory file",
            "nacre://notes/%2e%2e/%2e%2e/secret.md": "not a memory file",
            f"file://{home}/secret.md": "is not a note",
            "nacre://notes/memory/2020-01-01.md": "memory/2020-01-01.md does not exist",
        }.items():
            with pytest.raises(MCPError, match=reason):
                await client.read_resource(uri)

    assert texts == {
        "memory/2026-01-20.md": "# Tuesday\n\nThe cabin's key hangs at Marco's.\n",
        "memory/a b é.md": "ü\n",
    }


async def test_what_cannot_be_done_is_a_result_with_a_sentence(home: Path) -> None:
    """Wrong arguments, an unknown tool, a day that there is not, a workspace that cannot be written."""
    async with connected(home) as client:
        assert await _called(client, "memory_append", text=" ") == (
            "The text is empty; there is nothing to append.",
            True,
        )
        wrong, is_error = await _called(client, "memory_append", note="x")
        assert (is_error, "text: Field required" in wrong) == (True, True)
        unknown, is_error = await _called(client, "shell", command="ls")
        assert (is_error, "shell" in unknown) == (True, True)
        (home / ".nacre/workspace").rename(home / "elsewhere")
        gone, is_error = await _called(client, "memory_append", text=FACT)
        assert (is_error, "the workspace folder 'workspace' is gone" in gone) == (True, True)
        (home / "elsewhere").rename(home / ".nacre/workspace")


async def test_without_an_index_notes_are_read_and_written(home: Path) -> None:
    """Search that is switched off is told as the reason."""
    write_settings(home / ".nacre", {"agents": {"defaults": {"memorySearch": {"enabled": False}}}})
    ended = run_here(home, "config", "check")
    assert ended.returncode == 0

    from nacre.extensions.mcp.server.server import shared_memory
    from nacre.memory.files.sources.rejections import reject
    from nacre.runtime.models.scripted import Clock
    from nacre.runtime.settings.config import load_config
    from nacre.runtime.storage.storage import storage_of
    from nacre.sessions.contracts.messages import ToolCall, message_text
    from tests.runtime.agents import START, TODAY

    async with shared_memory(load_config(environment(home)), Clock(START)) as memory:
        added = await memory.tools.run(ToolCall(id="1", name="memory_append", arguments={"text": FACT}))
        asked = await memory.tools.run(ToolCall(id="2", name="memory_search", arguments={"query": "boat"}))
        got = await memory.tools.run(ToolCall(id="3", name="memory_get", arguments={"path": TODAY}))

        await reject(
            storage_of(load_config(environment(home))).workspace(), "", "- Key: 4711", ["- Key: 4711"]
        )
        gone = await memory.tools.run(
            ToolCall(id="4", name="memory_append", arguments={"text": "- Key: 4711\n- Oars: 2"})
        )

    assert "rejected" in message_text(gone.message)
    assert message_text(added.message) == f"Noted in {TODAY}."
    assert "Memory search is disabled" in message_text(asked.message)
    assert FACT in json.loads(message_text(got.message))["text"]
