"""An agent whose settings name a database: the next process goes on, also after the server was away."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.runtime.models.scripted import ScriptedModel, says
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
