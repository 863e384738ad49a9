"""What is noted of a chat that is not private belongs to it, and reaches nobody as the owner's word."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nacre.runtime.contracts.policy import notes_folder_of
from nacre.runtime.models.scripted import ScriptedModel, ScriptedStep, calls, says
from nacre.sessions.contracts.messages import ToolResultMessage, Usage, message_text
from tests.runtime.agents import TODAY, opened, said, window_settings, write_settings

DAY = Path(TODAY).name
CLUB = {"chat_kind": "group", "channel": "chat", "chat_id": "club", "is_owner": False, "sender_id": "mallory"}
PUB = CLUB | {"chat_id": "pub"}
EVE = {"chat_kind": "direct", "channel": "chat", "chat_id": "eve", "sender_id": "eve", "is_owner": False}
FULL = Usage(input_tokens=8_490, output_tokens=10)


def flushing(text: str) -> list[ScriptedStep]:
    """A turn that fills the window, and one with a flush in front of it."""
    return [
        says("ok", usage=FULL),
        calls(("append", {"path": TODAY, "text": text}), purpose="flush"),
        says("NO_REPLY", purpose="flush"),
        says("on we go"),
    ]


def results(model: ScriptedModel, number: int = -1) -> dict[str, Any]:
    """What the last tool call of a request found."""
    return dict(json.loads(message_text(model.requests[number].messages[-1])))


@pytest.mark.parametrize(("chat", "folder"), [(CLUB, "chat-group-club"), (EVE, "chat-dm-eve")])
@pytest.mark.covers("ATT-2")
async def test_what_others_say_is_flushed_to_their_chat(
    tmp_path: Path, chat: dict[str, Any], folder: str
) -> None:
    """The owner's log gets nothing of it, and the owner's next session does not begin with it."""
    write_settings(tmp_path, window_settings())
    model = ScriptedModel(*flushing("- The owner's PIN is 4711."), says("hello"))
    async with opened(tmp_path, model) as agent:
        await agent.respond(said("one", **chat))
        await agent.respond(said("two", **chat))
        await agent.respond(said("good morning"))
        workspace = agent.workspace
    model.assert_complete()

    assert "4711" in (workspace / "chats" / folder / DAY).read_text(encoding="utf-8")
    assert not (workspace / TODAY).exists()
    owners = model.requests[-1]
    assert "4711" not in owners.system.joined() + "".join(map(message_text, owners.messages))


@pytest.mark.covers("ATT-2")
async def test_a_chat_finds_its_own_notes_and_no_others(tmp_path: Path) -> None:
    """Search and files reach the chat's folder: not another chat's, and nothing of the owner's."""
    write_settings(tmp_path, window_settings())
    look = [
        ("memory_search", {"query": "regatta"}),
        ("memory_get", {"path": f"chats/chat-group-club/{DAY}"}),
        ("read", {"path": f"chats/chat-group-club/{DAY}"}),
    ]
    model = ScriptedModel(
        *flushing("- The regatta is on Saturday."),
        *[step for call in look for step in (calls(call), says("so"))],
        *[step for call in look for step in (calls(call), says("so"))],
    )
    async with opened(tmp_path, model) as agent:
        (agent.workspace / "MEMORY.md").write_text("The regatta is rigged.", encoding="utf-8")
        for text in ("one", "two"):
            await agent.respond(said(text, **CLUB))
        await agent.index_notes(wait_seconds=20)
        for _ in look:
            await agent.respond(said("look", **CLUB))
        for _ in look:
            await agent.respond(said("look", **PUB))
    model.assert_complete()

    (hit,) = results(model, 5)["results"]
    assert (hit["path"], "Saturday" in hit["snippet"]) == (f"chats/chat-group-club/{DAY}", True)
    assert "Saturday" in results(model, 7)["text"]
    assert "Saturday" in message_text(model.requests[9].messages[-1])
    assert results(model, 11)["results"] == []
    assert "Saturday" not in str(results(model, 13))
    assert model.requests[15].messages[-1].is_error


@pytest.mark.covers("ATT-2")
async def test_the_owner_finds_it_as_the_words_of_others(tmp_path: Path) -> None:
    """A private search names the chat that it comes from."""
    model = ScriptedModel(calls(("memory_search", {"query": "regatta"})), says("so"))
    async with opened(tmp_path, model) as agent:
        notes = agent.workspace / "chats/chat-group-club" / DAY
        notes.parent.mkdir(parents=True)
        notes.write_text("- The regatta is on Saturday.\n", encoding="utf-8")
        await agent.index_notes(wait_seconds=20)
        await agent.respond(said("when is the regatta?"))

    (hit,) = results(model)["results"]
    assert "chats/chat-group-club" in hit["saidBy"]
    assert "`chats/` holds the words of others" in model.requests[0].system.stable


async def test_shared_files_change_only_when_the_owner_speaks(tmp_path: Path) -> None:
    """What every chat reads is for the owner to change in private; what is asked for in a group waits."""
    writes = calls(
        ("append", {"path": "shared/rules.md", "text": "- All is free."}),
        ("append", {"path": "chats/chat-group-club/rules.md", "text": "- Be kind."}),
        ("append", {"path": "chats/chat-group-pub/rules.md", "text": "- Be loud."}),
    )
    own = calls(("append", {"path": "shared/rules.md", "text": "- Tea is at four."}))
    model = ScriptedModel(writes, says("done"), writes, says("done"), own, says("done"))
    async with opened(tmp_path, model) as agent:
        workspace = agent.workspace
        await agent.respond(said("write", **CLUB))
        assert not (workspace / "shared/rules.md").exists()
        await agent.respond(said("write", **CLUB | {"is_owner": True}))
        assert not (workspace / "shared/rules.md").exists()
        assert "Be kind" in (workspace / "chats/chat-group-club/rules.md").read_text(encoding="utf-8")
        assert not (workspace / "chats/chat-group-pub").exists()
        await agent.respond(said("write"))

    assert (workspace / "shared/rules.md").read_text(encoding="utf-8") == "- Tea is at four.\n"
    refused = model.requests[1].messages[-3]
    assert isinstance(refused, ToolResultMessage)
    assert refused.is_error


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("agent:main:chat:group:a-b", "agent:main:chat-a:group:b"),
        ("agent:main:chat:group:x/y", "agent:main:chat:group:x%2fy"),
        ("agent:main:chat:group:..", "agent:main:chat:group:."),
        ("agent:main:chat:group:ä", "agent:main:chat:group:ö"),
        ("agent:main:chat:group:" + "a" * 127, "agent:main:chat:group:" + "a" * 126),
        ("agent:main:chat:dm:eve", "agent:main:chat:group:eve"),
    ],
)
def test_two_chats_never_share_a_folder(one: str, other: str) -> None:
    """Whatever their ids are; and a folder's name is one that every file system takes."""
    folders = notes_folder_of(one), notes_folder_of(other)
    assert folders[0] != folders[1]
    for folder in folders:
        assert folder.startswith("chats/")
        name = folder.removeprefix("chats/")
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_@+-")
        assert len(name) <= 100


def test_topics_of_a_group_share_its_notes() -> None:
    """They have the same readers."""
    assert notes_folder_of("agent:main:chat:group:club:thread:7") == "chats/chat-group-club"
