"""An agent whose settings name a database: the next process goes on, and no note lies on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.runtime.models.scripted import ScriptedModel, calls, says
from nacre.sessions.contracts.messages import message_text
from tests.runtime.agents import opened, write_settings
from tests.servers.postgres_server import PostgresServer

pytestmark = pytest.mark.postgres


async def test_the_history_is_there_in_the_next_process(
    postgres_server: PostgresServer, database_url: str, tmp_path: Path
) -> None:
    """The model is sent what was said before; a restart of the server in between costs nobody a word."""
    write_settings(tmp_path, {"storage": {"driver": "postgres", "url": database_url}})
    first = ScriptedModel(says("Roses."), says("Two hives."))
    async with opened(tmp_path, first) as agent:
        await agent.ask("Plan the garden")
        postgres_server.restart()
        await agent.ask("Now the bees")
    second = ScriptedModel(says("Roses and two hives."))
    async with opened(tmp_path, second, ids="next") as agent:
        await agent.ask("What did we plan?")
        session = await agent.sessions.get()
        history = [message.text for message in await session.history()]

    sent = [message_text(message) for message in second.requests[-1].messages]
    said = ["Plan the garden", "Roses.", "Now the bees", "Two hives.", "What did we plan?"]
    assert history == [*said, "Roses and two hives."]
    assert [words for words in sent if words in said] == said
    assert list((tmp_path / "agents").rglob("*.json*")) == []


async def test_an_agent_leaves_no_note_on_the_disk(database_url: str, tmp_path: Path) -> None:
    """What the model writes is in the context of another process; this machine has no Markdown."""
    write_settings(tmp_path, {"storage": {"driver": "postgres", "url": database_url}})
    first = ScriptedModel(
        calls(("write", {"path": "MEMORY.md", "content": "Lisa has a zebra."})), says("Noted.")
    )
    async with opened(tmp_path, first) as agent:
        await agent.ask("Remember the zebra")
    second = ScriptedModel(calls(("memory_search", {"query": "zebra"})), says("Lisa's."))
    async with opened(tmp_path, second, ids="next") as agent:
        await agent.ask("Whose zebra?")
        notices = agent.notices

    assert "Lisa has a zebra." in str(second.requests[0])
    assert "MEMORY.md" in str(second.requests[1].messages[-1])
    assert list(tmp_path.rglob("*.md")) == []
    assert [line for line in notices if "not read" in line] == []


async def test_notes_left_in_the_folder_are_told(database_url: str, tmp_path: Path) -> None:
    """No template takes the place of what the owner has, and a sentence says how it is brought."""
    write_settings(tmp_path, {"storage": {"driver": "postgres", "url": database_url}})
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "MEMORY.md").write_text("Lisa has a zebra.")

    async with opened(tmp_path, ScriptedModel(says("Hello."))) as agent:
        [told] = [line for line in agent.notices if "nacre admin storage migrate" in line]
        await agent.ask("Hello")

    assert str(tmp_path / "workspace") in told
    assert [path.name for path in tmp_path.rglob("*.md")] == ["MEMORY.md"]
