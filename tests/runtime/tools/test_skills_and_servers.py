"""Skills and tools of MCP servers, as a model meets them in whole turns."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from nacre import Agent
from nacre.memory.files.sources.source import NOT_THE_OWNERS, PRIVATE, Source
from nacre.memory.files.sources.sourced_workspace import SourcedWorkspace
from nacre.memory.files.sources.sources import SourceOf, Sources
from nacre.memory.workspace.folder import FolderWorkspace
from nacre.runtime.contracts.events import ApprovalAsked, Warned
from nacre.runtime.models.scripted import ScriptedModel, calls, says
from nacre.sessions.contracts.messages import Image, ToolResultMessage, message_text
from tests.extensions.mcp.client import wild_server
from tests.runtime.agents import agent_in, events_of, said, write_settings

TEA = "---\nname: brew-tea\ndescription: Brews tea. Use it when tea is wanted.\n---\n\nBoil water first.\n"


async def opened(tmp_path: Path, model: ScriptedModel, settings: dict[str, Any] | None = None) -> Agent:
    """An agent whose model is scripted."""
    write_settings(tmp_path, settings or {})
    return await agent_in(tmp_path, model, environment={"HOME": str(tmp_path)})


def write_skill(tmp_path: Path, name: str, text: str) -> None:
    """A skill in the workspace."""
    file = tmp_path / "workspace/skills" / name / "SKILL.md"
    file.parent.mkdir(parents=True)
    file.write_text(text, encoding="utf-8")


@pytest.mark.covers("A2-7")
async def test_a_skill_is_told_read_and_told_again_when_new(tmp_path: Path) -> None:
    """It stands in the prompt; one that comes later is a change at the tail, and the prompt stays."""
    write_skill(tmp_path, "brew-tea", TEA)
    model = ScriptedModel(
        calls(("read", {"path": "skills/brew-tea/SKILL.md"})), says("Boiled."), says("Yes.")
    )
    async with await opened(tmp_path, model) as agent:
        await events_of(agent, said("tea, please"))
        write_skill(tmp_path, "bake-bread", TEA.replace("brew-tea", "bake-bread").replace("tea", "bread"))
        await events_of(agent, said("and bread"))
    first, second, third = model.requests
    assert "- `brew-tea` (skills/brew-tea/SKILL.md): Brews tea." in first.system.stable
    assert "Boil water first." in message_text(second.messages[-1])
    assert third.system.stable == first.system.stable
    assert any("bake-bread" in message_text(message) for message in third.messages)


async def test_skills_of_a_trusted_folder_are_told_and_read_and_nothing_else_there(tmp_path: Path) -> None:
    """Files of skills are read by the paths in the list; what lies beside, above or behind a link is not."""
    write_skill(tmp_path, "brew-tea", TEA)
    shared = tmp_path / "shared"
    for name, text in {
        "bake-bread/SKILL.md": TEA.replace("brew-tea", "bake-bread"),
        "bake-bread/flour.md": "Rye.",
        "brew-tea/SKILL.md": TEA.replace("Brews", "Spills"),
        "notes/diary.md": "secret",
        "plain.md": "secret",
    }.items():
        (shared / name).parent.mkdir(parents=True, exist_ok=True)
        (shared / name).write_text(text, encoding="utf-8")
    (tmp_path / "outside.md").write_text("secret", encoding="utf-8")
    (shared / "bake-bread/out.md").symlink_to(tmp_path / "outside.md")
    asked = [
        "bake-bread/flour.md",
        "notes/diary.md",
        "plain.md",
        "bake-bread/../plain.md",
        "bake-bread/out.md",
    ]
    model = ScriptedModel(*(calls(("read", {"path": f"~/shared/{name}"})) for name in asked), says("Baked."))
    settings = {"skills": {"load": {"extraDirs": ["~/shared/"]}}}
    async with await opened(tmp_path, model, settings) as agent:
        await events_of(agent, said("bread, please"))
    told = model.requests[0].system.stable
    assert "- `bake-bread` (~/shared/bake-bread/SKILL.md): Brews tea." in told
    assert "- `brew-tea` (skills/brew-tea/SKILL.md): Brews tea." in told
    assert "Spills" not in told
    results = [message for message in model.requests[-1].messages if isinstance(message, ToolResultMessage)]
    assert [message.is_error for message in results] == [False, True, True, True, True]
    assert message_text(results[0]).splitlines()[0] == "Rye."
    assert NOT_THE_OWNERS in message_text(results[0])
    assert not any("secret" in message_text(message) for message in results)


async def test_a_group_reads_no_skill_of_a_trusted_folder(tmp_path: Path) -> None:
    """It is the owner's, as those of the workspace are."""
    skill = tmp_path / "shared/brew-tea/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text(TEA, encoding="utf-8")
    model = ScriptedModel(calls(("read", {"path": "~/shared/brew-tea/SKILL.md"})), says("No."))
    async with await opened(tmp_path, model, {"skills": {"load": {"extraDirs": ["~/shared"]}}}) as agent:
        await events_of(agent, said("hello", chat_kind="group", chat_id="club"))
    assert "brew-tea" not in model.requests[0].system.stable
    assert "Boil water" not in message_text(model.requests[1].messages[-1])


@pytest.mark.covers("A2-7")
async def test_a_group_hears_of_no_skill(tmp_path: Path) -> None:
    """Skills are the owner's files, which no other chat can read."""
    write_skill(tmp_path, "brew-tea", TEA)
    model = ScriptedModel(says("Hello."))
    async with await opened(tmp_path, model) as agent:
        await events_of(agent, said("hello", chat_kind="group", chat_id="club"))
    assert "brew-tea" not in str(model.requests[0])


@pytest.mark.covers("A2-7")
async def test_skills_keep_to_their_budget_and_broken_ones_are_told(tmp_path: Path) -> None:
    """What has no room is named alone; what is switched off or broken is not there."""
    write_skill(tmp_path, "brew-tea", TEA)
    write_skill(tmp_path, "make-jam", TEA.replace("brew-tea", "make-jam"))
    write_skill(tmp_path, "off", TEA.replace("brew-tea", "off"))
    write_skill(tmp_path, "broken", "no front matter")
    limits = {"maxSkillsPromptChars": 130}
    skills = {"skills": {"limits": limits, "entries": {"off": {"enabled": False}}}}
    model = ScriptedModel(says("Hello."))
    async with await opened(tmp_path, model, skills) as agent:
        events = await events_of(agent, said("hello"))
    prompt = model.requests[0].system.stable
    assert "brew-tea/SKILL.md): Brews" in prompt
    assert prompt.endswith("- `make-jam` (skills/make-jam/SKILL.md)")
    assert "skills/off" not in prompt
    told = str(events)
    assert "skills/broken is left out" in told


async def test_tools_of_a_server_are_called_in_a_turn(tmp_path: Path) -> None:
    """The first request has them; what may change something waits for the owner; `/status` tells of it."""
    pytest.importorskip("mcp")
    server = {"command": sys.executable, "args": [wild_server.__file__, str(tmp_path / "starts")]}
    settings = {"mcp": {"servers": {"wild": server}}, "tools": {"approvals": {"waitSeconds": 0}}}
    model = ScriptedModel(
        calls(("wild__add", {"a": 40, "b": 2})), calls(("wild__change", {})), says("Done."), says("No.")
    )
    async with await opened(tmp_path, model, settings) as agent:
        events = await events_of(agent, said("count"))
        status = await events_of(agent, said("/status"))
        await events_of(agent, said("count", chat_kind="group", chat_id="club"))
    first, second, _third, group = model.requests
    assert {"wild__add", "wild__change"} <= {tool.name for tool in first.tools}
    assert message_text(second.messages[-1]).endswith("\n42")
    asked = [event for event in events if isinstance(event, ApprovalAsked)]
    assert [event.tool_name for event in asked] == ["wild__change"]
    assert "wild (running, 13 tools)" in str(status)
    assert "'far' of the MCP server 'wild'" in str(events)
    assert not any(tool.name.startswith("wild") for tool in group.tools)


async def test_pictures_of_a_server_are_shown_to_the_model(tmp_path: Path) -> None:
    """A real picture comes along behind the text; what is called one and is none is told."""
    pytest.importorskip("mcp")
    server = {"command": sys.executable, "args": [wild_server.__file__, str(tmp_path / "starts")]}
    model = ScriptedModel(calls(("wild__picture", {})), says("Grey."))
    async with await opened(tmp_path, model, {"mcp": {"servers": {"wild": server}}}) as agent:
        await events_of(agent, said("show me"))
    result = model.requests[1].messages[-1]
    assert isinstance(result, ToolResultMessage)
    assert result.content[1:] == (Image(data=wild_server.GREY_DOT, mime_type="image/png"),)
    assert "Image 2" in message_text(result)
    assert "image/bmp" in message_text(result)


async def test_a_skill_with_lines_of_others_is_left_out_and_told(tmp_path: Path) -> None:
    """An import brought it: no prompt lists it, and the owner learns where to move it."""
    root = tmp_path / "workspace"
    write_skill(tmp_path, "brew-tea", TEA)
    source = Source(written_by="import", audience=PRIVATE, names=("chatgpt",), at="2026-03-14T10:00")

    async def begin() -> SourceOf:
        return lambda _line: source

    folder = FolderWorkspace(root, lock_dir=tmp_path / "locks")
    text = TEA.replace("brew-tea", "bake-bread")
    await SourcedWorkspace(folder, Sources(folder), begin).append("skills/bake-bread/SKILL.md", text)
    model = ScriptedModel(says("Yes."))
    async with await opened(tmp_path, model) as agent:
        events = await events_of(agent, said("Can you bake?"))

    [request] = model.requests
    assert "`brew-tea`" in request.system.stable
    assert "`bake-bread`" not in request.system.stable
    assert any(
        isinstance(event, Warned)
        and event.message.startswith("The skill skills/bake-bread/SKILL.md is left out")
        for event in events
    )
