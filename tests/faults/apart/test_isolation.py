"""No agent reaches another's notes, conversations, index or files, whatever its model asks for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nacre import Inbound
from nacre.runtime.contracts.errors import ConfigError, PrivacyError
from nacre.runtime.contracts.model import ModelRequest
from nacre.runtime.models.scripted import ScriptedModel, calls, says
from nacre.sessions.contracts.messages import message_text
from tests.faults.apart.isolation import NO_EMBEDDER, SECRET, listed, opened_agent, tree_bytes, with_secrets


def hostile_paths(state_dir: Path, transcript: Path) -> list[str]:
    """What a model may try in order to get out of `<state>/workspace`."""
    work = state_dir / "workspace-work"
    return [
        str(work / "MEMORY.md"),
        str(work / "memory" / "2026-03-14.md"),
        str(work / "plans.txt"),
        str(transcript),
        str(state_dir / "memory" / "work.sqlite"),
        str(state_dir / "agents" / "work" / "sessions" / "sessions.json"),
        str(state_dir / "workspace" / ".." / "workspace-work" / "MEMORY.md"),
        "../workspace-work/MEMORY.md",
        "memory/../../workspace-work/MEMORY.md",
        f"../agents/work/sessions/{transcript.name}",
        "~/../workspace-work/MEMORY.md",
        "linked/MEMORY.md",
        "memory/linked/2026-03-14.md",
        "memory/linked.md",
        "linked-file.txt",
        "sessions/work/x.md",
        f"file://{work}/MEMORY.md",
        f"//{work}/MEMORY.md",
        "..\\workspace-work\\MEMORY.md",
        "\x00../workspace-work/MEMORY.md",
        "/proc/self/cwd/workspace-work/MEMORY.md",
        "..",
        "linked",
        str(state_dir),
    ]


def hostile_calls(path: str) -> list[tuple[str, dict[str, Any]]]:
    """Every tool that takes a path, with this one."""
    return [
        ("read", {"path": path}),
        ("list", {"path": path}),
        ("write", {"path": path, "content": "overwritten"}),
        ("append", {"path": path, "text": "appended"}),
        ("edit", {"path": path, "old_text": SECRET, "new_text": "edited"}),
        ("memory_get", {"path": path}),
    ]


def knows(request: ModelRequest) -> bool:
    """Whether a request carries the secret."""
    shown = [message_text(message) for message in request.messages]
    return SECRET in "\n".join([request.system.joined(), *shown])


async def test_no_tool_reaches_another_agent(tmp_path: Path) -> None:
    """Absolute paths, `..`, links to folders and files: each is refused, and nothing of it is changed."""
    listed(tmp_path, {}, {})
    transcript = await with_secrets(tmp_path)
    workspace, other = tmp_path / "workspace", tmp_path / "workspace-work"
    (workspace / "memory").mkdir(parents=True)
    (workspace / "linked").symlink_to(other)
    (workspace / "linked-file.txt").symlink_to(other / "plans.txt")
    (workspace / "memory" / "linked").symlink_to(other / "memory")
    (workspace / "memory" / "linked.md").symlink_to(other / "MEMORY.md")
    before = tree_bytes(other) | tree_bytes(tmp_path / "agents" / "work")
    tried = [call for path in hostile_paths(tmp_path, transcript) for call in hostile_calls(path)]
    model = ScriptedModel(
        calls(*tried), calls(("memory_search", {"query": "vault heliotrope"})), says("Nothing.")
    )

    async with await opened_agent(tmp_path, "main", model) as main:
        await main.ask("Find out how the vault is opened.")

    model.assert_complete()
    assert not any(map(knows, model.requests))
    assert json.loads(message_text(model.requests[-1].messages[-1]))["results"] == []
    assert tree_bytes(other) | tree_bytes(tmp_path / "agents" / "work") == before


@pytest.mark.parametrize(
    "key", ["agent:work:main", " AGENT:Work:main", "agent:work:telegram:group:7", "agent:work:subagent:x"]
)
async def test_a_session_key_of_another_agent_is_refused(tmp_path: Path, key: str) -> None:
    """The owner too asks the agent itself; nothing is written under the foreign key."""
    listed(tmp_path, {}, {})

    async with await opened_agent(tmp_path, "main", ScriptedModel()) as main:
        with pytest.raises(PrivacyError):
            await main.ask("hello", session=key)
        with pytest.raises(PrivacyError, match="agent 'work'"):
            await main.respond(Inbound(text="hello", chat_kind="group", session_key=key))

    assert not list((tmp_path / "agents").rglob("*.jsonl"))


async def test_no_command_leads_to_another_agents_session(tmp_path: Path) -> None:
    """`/resume` with an id of the other agent finds nothing."""
    listed(tmp_path, {}, {})
    transcript = await with_secrets(tmp_path)
    session_id = transcript.stem

    async with await opened_agent(tmp_path, "main", ScriptedModel(says("Hi."))) as main:
        await main.ask("hello")
        for name in (session_id, session_id[:8], "agent:work:main", f"../../work/sessions/{session_id}"):
            reply = await main.ask(f"/resume {name}")
            assert reply is not None
            assert "no earlier session" in reply.text


@pytest.mark.covers("SEED-12")
async def test_transcripts_as_a_source_are_the_agents_own(tmp_path: Path) -> None:
    """With conversations switched on, a search finds none of the other agent's, and none is read."""
    search = {
        **NO_EMBEDDER,
        "sources": ["memory", "sessions"],
        "experimental": {"sessionMemory": True},
        "sync": {"sessions": {"deltaBytes": 0, "deltaMessages": 0}},
    }
    listed(tmp_path, {"memorySearch": search}, {"memorySearch": search})
    transcript = await with_secrets(tmp_path)
    model = ScriptedModel(
        calls(
            ("memory_search", {"query": "vault heliotrope", "source": "sessions"}),
            ("memory_get", {"path": f"sessions/work/{transcript.stem}.md"}),
            ("memory_get", {"path": f"sessions/{transcript.name}"}),
        ),
        says("Nothing."),
    )

    async with await opened_agent(tmp_path, "main", model) as main:
        await main.ask("What was said of the vault?")

    assert not any(map(knows, model.requests))
    own = ScriptedModel(
        calls(("memory_search", {"query": "vault heliotrope", "source": "sessions"})), says("There.")
    )
    async with await opened_agent(tmp_path, "work", own) as work:
        await work.ask("And what was it?")
    assert json.loads(message_text(own.requests[-1].messages[-1]))["results"], "its own words are found"


async def test_a_path_can_be_allowed(tmp_path: Path) -> None:
    """The owner's explicit word: what it names is searched and read, the rest stays out of reach."""
    shared = tmp_path / "workspace-work" / "shared"
    own = {"allowPaths": ["~/../workspace-work/shared"], "memorySearch": {"extraPaths": [str(shared)]}}
    listed(tmp_path, own, {})
    await with_secrets(tmp_path)
    shared.mkdir(exist_ok=True)
    (shared / "tea.md").write_text("- The oolong is in the blue tin.", encoding="utf-8")
    model = ScriptedModel(
        calls(
            ("memory_search", {"query": "oolong"}),
            ("memory_get", {"path": "../workspace-work/shared/tea.md"}),
            ("memory_get", {"path": "../workspace-work/MEMORY.md"}),
        ),
        says("In the tin."),
    )

    async with await opened_agent(tmp_path, "main", model) as main:
        await main.ask("Where is the oolong?")

    found, read, other = (message_text(message) for message in model.requests[-1].messages[-3:])
    assert "blue tin" in found
    assert "blue tin" in read
    assert SECRET not in other
    listed(tmp_path, {**own, "memorySearch": {"extraPaths": [str(shared.parent)]}}, {})
    with pytest.raises(ConfigError, match="reaches the workspace"):
        await opened_agent(tmp_path, "main")
