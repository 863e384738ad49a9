"""An agent whose memory is searched by meaning and in past conversations: real files, index and HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nacre import Agent
from nacre.memory.contracts.records import SyncReport
from nacre.memory.engine import MemoryEngine
from nacre.runtime.agent.opening.assembly import assemble
from nacre.runtime.agent.opening.author_parts import AuthorParts
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.models.scripted import Clock, CountingIds, ScriptedModel, calls, says
from nacre.runtime.settings.config import load_config
from nacre.sessions.contracts.messages import message_text
from tests.extensions.providers.embedding.embedding_server import EmbeddingServer
from tests.runtime.agents import START, engine_of, opened, said, transcript_file, write_settings
from tests.servers.provider_server import ProviderServer

HIVE = "The hive of the north meadow swarms when the lime trees bloom."
CONVERSATIONS = {
    "provider": "none",
    "sources": ["memory", "sessions"],
    "experimental": {"sessionMemory": True},
    "query": {"minScore": 0},
}


def remote(url: str, **more: Any) -> dict[str, Any]:
    """Settings for embeddings from a server on loopback."""
    return {"provider": "openai", "remote": {"baseUrl": url, "apiKey": "sk-secret-key"}, **more}


@asynccontextmanager
async def agent_with(
    state_dir: Path, model: ScriptedModel, search: dict[str, Any]
) -> AsyncIterator[tuple[Agent, MemoryEngine]]:
    """An agent with these `memorySearch` settings, and its engine; the model's script must be used up."""
    no_hooks = {"internal": {"enabled": False}}
    write_settings(state_dir, {"agents": {"defaults": {"memorySearch": search}}, "hooks": no_hooks})
    config = load_config({"HOME": str(state_dir / "home")}, state_dir=state_dir)
    parts = await assemble(
        config, AuthorParts(models=(model,)), clock=Clock(START), new_id=CountingIds(), watch=False
    )
    async with Agent(parts) as agent:
        yield agent, engine_of(parts)
    model.assert_complete()


def noted(state_dir: Path, text: str = HIVE) -> None:
    """Writes a note before the agent is opened."""
    notes = state_dir / "workspace" / "memory"
    notes.mkdir(parents=True, exist_ok=True)
    (notes / "bees.md").write_text(f"# Bees\n\n{text}\n", encoding="utf-8")


def found(model: ScriptedModel, number: int = -1) -> dict[str, Any]:
    """The result of the tool call that a request ends with."""
    result: dict[str, Any] = json.loads(message_text(model.requests[number].messages[-1]))
    return result


def search(query: str) -> Any:
    """Two steps: a search and an answer."""
    return calls(("memory_search", {"query": query})), says("I looked.")


async def synced(engine: MemoryEngine) -> SyncReport:
    """Brings words and vectors up to date."""
    return await engine.sync(reason="test")


async def test_search_goes_on_in_words_when_the_embedder_dies(tmp_path: Path) -> None:
    """Hybrid while the server lives; afterwards the same hit, marked degraded, with the reason and no key."""
    noted(tmp_path)
    model = ScriptedModel(*search("lime trees bloom"), *search("hive north meadow"))
    with ExitStack() as alive_until:
        server = alive_until.enter_context(ProviderServer(expected_key="sk-secret-key"))
        async with agent_with(tmp_path, model, remote(server.url)) as (agent, engine):
            report = await synced(engine)
            await agent.respond(said("when do they swarm?"))
            alive_until.close()
            await agent.respond(said("and where?"))

    assert report.embedded > 0
    assert (report.problem, report.pending_vectors) == ("", 0)
    assert all(asked["model"] == "text-embedding-3-small" for asked in server.embedding_requests)
    alive, dead = found(model, 1), found(model, 3)
    assert (alive["mode"], alive["provider"], alive["results"][0]["path"]) == (
        "hybrid",
        "openai",
        "memory/bees.md",
    )
    assert "degraded" not in alive
    assert (dead["mode"], dead["results"][0]["path"]) == ("lexical", "memory/bees.md")
    assert "cannot be reached" in dead["degraded"]
    assert "sk-secret" not in json.dumps(dead)


@pytest.mark.covers("SEED-4")
async def test_another_key_keeps_the_vectors_and_another_address_makes_new_ones(tmp_path: Path) -> None:
    """A key that was rotated costs nothing; a new endpoint may give other vectors."""
    noted(tmp_path)

    async def embedded(**settings: Any) -> int:
        async with agent_with(tmp_path, ScriptedModel(), settings) as (_, engine):
            return (await synced(engine)).embedded

    async with ProviderServer() as one, ProviderServer() as two:
        first = await embedded(**remote(one.url))
        rotated = await embedded(**remote(one.url) | {"remote": {"baseUrl": one.url, "apiKey": "sk-new"}})
        moved = await embedded(**remote(two.url))

    assert first > 0
    assert (rotated, moved) == (0, first)


@pytest.mark.covers("SEED-8", "SEED-13")
async def test_a_fallback_makes_the_vectors_when_the_provider_fails(tmp_path: Path) -> None:
    """One index run is enough: the installed model takes over, all is found, and status says why."""
    noted(tmp_path)
    model = ScriptedModel(*search("lime trees bloom"))
    with EmbeddingServer() as server:
        settings = remote(f"{server.url}/v1", fallback="local")
        async with agent_with(tmp_path, model, settings) as (agent, engine):
            await engine.search("lime trees bloom")
            assert len(server.asked) == 1
            for _ in range(9):
                server.fail(401, "Incorrect API key provided")
            report = await synced(engine)
            status = await engine.status()
            [hit, *_] = (await engine.search("lime trees bloom", explain=True)).hits
            await agent.respond(said("when do they swarm?"))
            shown = await agent.respond(said("/status"))

    assert report.embedded > 0
    assert shown is not None
    assert "hybrid search · " in shown.text
    assert (report.problem, status.provider, status.pending_vectors) == ("", "local", 0)
    assert hit.explain is not None
    assert hit.explain.vector_rank == 1
    assert status.last_sync_problem == ""
    assert status.fallback is not None
    assert "openai/text-embedding-3-small" in status.fallback.reason
    assert (found(model)["mode"], found(model)["provider"]) == ("hybrid", "local")
    assert found(model)["fallback"] == {"from": "openai", "reason": status.fallback.reason}


@pytest.mark.covers("SEED-24")
async def test_a_missing_key_is_told_by_status_before_the_first_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`/status` and what an agent says when it opens: what is missing, and that words are searched."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    async with agent_with(tmp_path, ScriptedModel(), {"provider": "openai"}) as (agent, _):
        shown, notices = await agent.respond(said("/status")), agent.notices

    assert shown is not None
    assert any(each.startswith("Notes are searched by words alone. There is no key") for each in notices)
    assert "lexical search · " in shown.text


async def test_without_settings_memory_is_searched_by_meaning(tmp_path: Path) -> None:
    """The installed model finds what shares no word with the question."""
    noted(tmp_path)
    model = ScriptedModel(*search("when do bees leave their home in summer?"))
    async with agent_with(tmp_path, model, {"query": {"minScore": 0}}) as (agent, engine):
        await synced(engine)
        await agent.respond(said("when do they swarm?"))

    assert (found(model)["mode"], found(model)["provider"]) == ("hybrid", "local")
    assert "memory/bees.md" in [hit["path"] for hit in found(model)["results"]]


async def test_a_provider_that_is_not_known_stops_the_start(tmp_path: Path) -> None:
    """A slip in a name is told at once, not at the first search."""
    write_settings(tmp_path, {"agents": {"defaults": {"memorySearch": {"provider": "opnai"}}}})
    with pytest.raises(ConfigError, match="'opnai'"):
        async with opened(tmp_path, ScriptedModel()):
            pass


@pytest.mark.covers("PART-27")
async def test_a_conversation_is_found_when_its_session_has_ended(tmp_path: Path) -> None:
    """Below the thresholds it stays unsearched; `/new` ends it, and its words and lines are found."""
    model = ScriptedModel(
        says("Noted: Saturday."),
        *search("regatta"),
        says("NO_REPLY", purpose="flush"),
        *search("regatta"),
        calls(("memory_get", {"path": "sessions/id-1.jsonl"})),
        says("I may not read that."),
    )
    async with agent_with(tmp_path, model, CONVERSATIONS) as (agent, engine):
        await agent.respond(said("See you at the regatta in Lindau on Saturday."))
        await agent.respond(said("when is it?"))
        await agent.respond(said("/new"))
        await synced(engine)
        await agent.respond(said("and now?"))
        await agent.respond(said("read it all"))

    before, after, read = found(model, 2), found(model, 5), found(model, 7)
    assert before["results"] == []
    [hit, *_] = after["results"]
    old = transcript_file(tmp_path)
    assert (hit["source"], hit["path"]) == ("sessions", f"sessions/{old.name}")
    assert "User: See you at the regatta in Lindau on Saturday." in hit["snippet"]
    rows = old.read_text(encoding="utf-8").splitlines()
    assert "regatta in Lindau" in " ".join(rows[hit["startLine"] - 1 : hit["endLine"]])
    assert (read["text"], read["disabled"]) == ("", True)


@pytest.mark.covers("PART-28")
async def test_a_running_conversation_is_found_after_enough_was_said(tmp_path: Path) -> None:
    """The threshold counts lines of the transcript since it was last indexed; a turn is enough to look."""
    settings = CONVERSATIONS | {"sync": {"sessions": {"deltaMessages": 8}}}
    model = ScriptedModel(says("Noted."), *search("regatta"), *search("regatta"))
    async with agent_with(tmp_path, model, settings) as (agent, _):
        for text in ("See you at the regatta in Lindau on Saturday.", "when is it?", "and now?"):
            await agent.respond(said(text))

    assert found(model, 2)["results"] == []
    assert found(model, 4)["results"][0]["source"] == "sessions"
    [tool] = [spec for spec in model.requests[0].tools if spec.name == "memory_search"]
    assert tool.description.startswith("Search MEMORY.md, memory/*.md and past conversations. Use it before")


async def test_a_group_sees_nothing_of_conversations(tmp_path: Path) -> None:
    """What the owner said in private is indexed, and a group's model has no way to it."""
    settings = CONVERSATIONS | {"sync": {"sessions": {"deltaMessages": 1}}}
    model = ScriptedModel(says("Noted."), calls(("memory_search", {"query": "regatta"})), says("I cannot."))
    group = {"chat_kind": "group", "is_owner": False, "channel": "telegram", "chat_id": "sailors"}
    async with agent_with(tmp_path, model, settings) as (agent, engine):
        await agent.respond(said("See you at the regatta in Lindau on Saturday."))
        await synced(engine)
        owners = await engine.search("regatta")
        await agent.respond(said("what did the owner tell you about the regatta?", **group))

    assert owners.hits
    told = [message_text(message) for message in model.requests[2].messages]
    assert "Lindau" not in " ".join([*told, model.requests[2].system.joined()])


@pytest.mark.covers("Q-37")
async def test_a_deleted_conversation_is_forgotten(tmp_path: Path) -> None:
    """When the transcript is gone, so is what was indexed of it."""
    settings = CONVERSATIONS | {"sync": {"sessions": {"deltaMessages": 1}}}
    async with agent_with(tmp_path, ScriptedModel(says("Noted.")), settings) as (agent, engine):
        await agent.respond(said("See you at the regatta in Lindau on Saturday."))
        await synced(engine)
        before = await engine.search("regatta")
        transcript_file(tmp_path).unlink()
        report = await synced(engine)
        after = await engine.search("regatta")

    assert (len(before.hits), report.removed_files, after.hits) == (1, 1, ())
