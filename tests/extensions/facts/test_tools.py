"""What the model does with facts and notes in a chat, and what no other chat sees of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import nacre
from nacre import Agent
from nacre.memory.files.sources.sources import Sources
from nacre.memory.workspace.folder import FolderWorkspace
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.models.scripted import ScriptedModel, calls, says
from nacre.sessions.contracts.messages import ToolResultMessage, message_text
from tests.runtime.agents import entries, opened, said, transcript_file, write_settings

NAMES = {"memory_set_fact", "memory_note", "memory_recall"}
GROUP = {"chat_kind": "group", "channel": "telegram", "chat_id": "7", "sender_id": "9", "is_owner": False}
ANNA = {"chat_kind": "direct", "channel": "telegram", "sender_id": "70", "is_owner": False}
STRANGER = {"chat_kind": "direct", "channel": "telegram", "sender_id": "dipankar", "is_owner": False}


def _switched_on(state_dir: Path, **facts: Any) -> None:
    settings = {
        "memory": {"facts": {"enabled": True, "owner": "dipankar", **facts}},
        "session": {"identityLinks": {"anna": ["telegram:70"], "dipankar": ["telegram:9"]}},
    }
    write_settings(state_dir, settings)


async def _called(
    agent: Agent, model: ScriptedModel, tool: str, arguments: dict[str, Any], **chat: Any
) -> Any:
    """What a tool answers when the model calls it in a chat."""
    model.add(calls((tool, arguments)), says("Done."))
    await agent.respond(said("Go on.", **chat))
    result = [item for item in model.requests[-1].messages if isinstance(item, ToolResultMessage)][-1]
    text = message_text(result)
    return text if result.is_error else json.loads(text)


@pytest.mark.covers("FACT-4", "FACT-5", "FACT-6")
async def test_the_model_sets_notes_and_recalls(tmp_path: Path) -> None:
    """A fact says of which session it is; what was set in private is on the owner's page."""
    _switched_on(tmp_path)
    model = ScriptedModel()
    async with opened(tmp_path, model) as agent:
        fact = await _called(agent, model, "memory_set_fact", {"key": "city", "value": "Porto"})
        note = await _called(agent, model, "memory_note", {"text": "Prefers Postgres over MySQL."})
        found = await _called(agent, model, "memory_recall", {"query": "Postgres?", "k": 1})
        refused = await _called(agent, model, "memory_set_fact", {"key": "a: b", "value": 1})

        assert (fact["identity_id"], fact["key"], fact["value"]) == ("dipankar", "city", "Porto")
        assert fact["source"].startswith("session ")
        assert found["identity_facts"] == [fact]
        (chunk,) = found["memory_chunks"]
        assert (chunk["id"], chunk["text"]) == (note["id"], "Prefers Postgres over MySQL.")
        assert "cannot be the key of a fact" in refused
        page = (tmp_path / "workspace" / "memory" / "facts.md").read_text()
        assert f"- city: Porto (2026-03-14, {fact['source']})" in page
        (known,) = (await agent.memory.known("dipankar")).facts
        assert (known.key, known.value) == ("city", "Porto")
        lines = [line for line in page.split("\n") if line.startswith("- ")]
        workspace = FolderWorkspace(tmp_path / "workspace", lock_dir=tmp_path / "locks")
        said_in = {entry["id"] for entry in entries(transcript_file(tmp_path))}
        for kept in await Sources(workspace).of_lines("memory/facts.md", lines):
            assert kept is not None
            assert (kept.written_by, kept.audience, kept.is_owners_word) == ("tool", "private", True)
            assert kept.entry_ids
            assert set(kept.entry_ids) <= said_in


async def test_recall_marks_what_the_owner_replaced_in_another_note(tmp_path: Path) -> None:
    """A fact and a note, as `memory_search` does; not as of a day before, and nothing else."""
    _switched_on(tmp_path)
    model = ScriptedModel()
    async with opened(tmp_path, model) as agent:
        await _called(agent, model, "memory_set_fact", {"key": "dentist's phone", "value": "555-1234"})
        await _called(agent, model, "memory_set_fact", {"key": "city", "value": "Porto"})
        await _called(agent, model, "memory_note", {"text": "Boat mooring: pier 7"})
        for line in ("Dentist phone: +351 2", "Boat's mooring: pier 9"):
            await agent.respond(said(f"/remember {line}"))
        asked = {"query": "boat mooring"}
        found = await _called(agent, model, "memory_recall", asked)
        before = await _called(agent, model, "memory_recall", {**asked, "asOf": "2026-03-13"})

    marked = {fact["key"]: fact.get("superseded", []) for fact in found["identity_facts"]}
    assert [mark["by"] for mark in marked["dentist's phone"]] == ["MEMORY.md"]
    assert marked["city"] == []
    (chunk,) = found["memory_chunks"]
    assert [each["by"] for each in chunk["superseded"]] == ["MEMORY.md"]
    assert "superseded" not in json.dumps(before)


async def test_what_a_program_sets_is_nobodys_word(tmp_path: Path) -> None:
    """Its source says that a program wrote it, in no chat; what a hand wrote before has none."""
    page = tmp_path / "workspace" / "memory" / "facts.md"
    async with opened(tmp_path, ScriptedModel()) as agent:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text("## Facts\n\n- pet: a cat\n", encoding="utf-8")
        await agent.memory.set_fact("owner", "city", "Porto", source="a letter")
    lines = page.read_text(encoding="utf-8").splitlines()
    workspace = FolderWorkspace(tmp_path / "workspace", lock_dir=tmp_path / "locks")
    sources = dict(zip(lines, await Sources(workspace).of_lines("memory/facts.md", lines), strict=True))

    city = sources["- city: Porto (2026-03-14, a letter)"]
    assert city is not None
    assert (city.written_by, city.said_by, city.session_key) == ("code", ("unknown",), "")
    assert city.at.startswith("2026-03-14")
    assert not city.is_owners_word
    assert [line for line, source in sources.items() if "pet" in line and source is not None] == []


@pytest.mark.covers("FACT-9")
async def test_nothing_of_one_reaches_another(tmp_path: Path) -> None:
    """A group and a stranger see what was set in them alone; a name or a link opens nothing."""
    _switched_on(tmp_path, identities={"chat:telegram-group-7": {"reads": ["dipankar", "anna"]}})
    model = ScriptedModel()
    async with opened(tmp_path, model) as agent:
        for name in ("dipankar", "anna"):
            await agent.memory.set_fact(name, "secret", f"CANARY {name}")
            await agent.memory.note(name, f"The giraffe is called CANARY {name}.")
        owner_by_link = {**ANNA, "sender_id": "9"}
        for chat in (GROUP, STRANGER, owner_by_link):
            told = await _called(agent, model, "memory_set_fact", {"key": "day", "value": "Tuesday"}, **chat)
            assert told["identity_id"].startswith("chat:")
            found = await _called(agent, model, "memory_recall", {"query": "giraffe", "k": 9}, **chat)
            assert [fact["value"] for fact in found["identity_facts"]] == ["Tuesday"]
            assert found["memory_chunks"] == []
            taken = {"key": "secret", "value": "x", "identity": "dipankar"}
            assert "cannot be changed in this chat" in await _called(
                agent, model, "memory_set_fact", taken, **chat
            )
            await _called(agent, model, "read", {"path": "people/anna/facts.md"}, **chat)
            await _called(agent, model, "memory_search", {"query": "giraffe CANARY"}, **chat)
            assert "CANARY dipankar" not in str(model.requests[-1].messages)
            assert "is called CANARY" not in str(model.requests)

        found = await _called(agent, model, "memory_recall", {"query": "giraffe", "k": 9}, **ANNA)
        assert [fact["value"] for fact in found["identity_facts"]] == ["CANARY anna"]
        assert {chunk["identity"] for chunk in found["memory_chunks"]} == {"anna"}


@pytest.mark.covers("FACT-10")
async def test_a_household_is_shared_by_rule(tmp_path: Path) -> None:
    """The owner writes what Anna reads; Anna may not write it."""
    _switched_on(
        tmp_path,
        identities={"dipankar": {"writes": ["household"]}, "anna": {"reads": ["household"]}},
    )
    model = ScriptedModel()
    wifi = {"key": "wifi", "value": "giraffe", "identity": "household"}
    async with opened(tmp_path, model) as agent:
        assert (await _called(agent, model, "memory_set_fact", wifi))["identity_id"] == "household"
        found = await _called(agent, model, "memory_recall", {}, **ANNA)
        assert [(fact["identity_id"], fact["value"]) for fact in found["identity_facts"]] == [
            ("household", "giraffe")
        ]
        assert "cannot be changed" in await _called(agent, model, "memory_set_fact", wifi, **ANNA)


@pytest.mark.covers("FACT-5")
async def test_they_are_offered_where_the_owner_wants_them(tmp_path: Path) -> None:
    """Not without the switch; beside the LanceDB engine recall has a name of its own."""
    model = ScriptedModel(says("Hello."))
    async with opened(tmp_path / "off", model) as agent:
        await agent.respond(said("Hello."))
        assert not NAMES & {tool.name for tool in model.requests[-1].tools}

    _switched_on(tmp_path / "on")
    model = ScriptedModel(says("Hello."))
    async with opened(tmp_path / "on", model) as agent:
        await agent.respond(said("Hello."))
        assert {tool.name for tool in model.requests[-1].tools} >= NAMES

    write_settings(
        tmp_path / "none",
        {
            "memory": {"facts": {"enabled": True}},
            "plugins": {
                "slots": {"memory": "memory-lancedb"},
                "entries": {"memory-lancedb": {"enabled": False}},
            },
        },
    )
    model = ScriptedModel(says("Hello."))
    async with opened(tmp_path / "none", model) as agent:
        await agent.respond(said("Hello."))
        assert {"memory_set_fact", "memory_recall_facts"} <= {tool.name for tool in model.requests[-1].tools}


async def test_what_the_settings_keep_from_a_session_is_kept(tmp_path: Path) -> None:
    """Where notes may be read alone nothing is set; without access nothing is told."""
    for access, refusal in (("ro", "read-only"), ("none", "keep all notes")):
        state_dir = tmp_path / access
        _switched_on(state_dir)
        settings = json.loads((state_dir / "nacre.json5").read_text())
        settings["agents"] = {"defaults": {"sandbox": {"mode": "all", "workspaceAccess": access}}}
        write_settings(state_dir, settings)
        model = ScriptedModel()
        async with opened(state_dir, model) as agent:
            await agent.memory.set_fact("dipankar", "city", "Porto")
            arguments = {"key": "city", "value": "Braga"}
            assert refusal in await _called(agent, model, "memory_set_fact", arguments)
            found = await _called(agent, model, "memory_recall", {})
            assert ("Porto" in str(found)) is (access == "ro")


@pytest.mark.covers("FACT-4")
async def test_what_a_page_says_is_no_fact_before_the_owner_accepts_it(tmp_path: Path) -> None:
    """A fact that is set after a tool was heard waits, and a later session does not recall it."""
    _switched_on(tmp_path)
    model = ScriptedModel(
        calls(("browse", {})),
        calls(("memory_set_fact", {"key": "boat", "value": "Halcyon"})),
        calls(("memory_set_fact", {"key": "city", "value": "Porto"})),
        says("Noted."),
        calls(("memory_recall", {})),
        says("Known."),
    )

    @nacre.tool
    def browse() -> str:
        """Look at a page."""
        return "The boat is called Halcyon."

    async with opened(tmp_path, model, tools=[browse]) as agent:
        await agent.respond(said("My city is Porto. What does the page say?"))
        await agent.respond(said("What is known?", session_key="agent:main:dm:later"))
    model.assert_complete()
    told = json.loads(message_text(model.requests[-1].messages[-1]))["identity_facts"]

    assert told == []
    results = [message_text(each) for each in model.requests[3].messages]
    assert sum("browse" in text and "/review" in text for text in results) == 2


async def test_a_program_has_facts_that_no_setting_switches_on(tmp_path: Path) -> None:
    """By default the model has none of the tools, and `agent.memory` works unless `facts` is denied."""
    model = ScriptedModel(says("Hello."))
    async with opened(tmp_path, model) as agent:
        await agent.respond(said("Hi."))
        await agent.memory.set_fact("anna", "city", "Porto")
        assert (tmp_path / "workspace" / "people" / "anna" / "facts.md").is_file()
        assert agent.memory is agent.memory
        assert not NAMES & {tool.name for tool in model.requests[-1].tools}

    model = ScriptedModel(says("Hello."))
    write_settings(tmp_path, {"plugins": {"deny": ["facts"]}, "memory": {"facts": {"enabled": True}}})
    async with opened(tmp_path, model) as agent:
        await agent.respond(said("Hi."))
        assert not NAMES & {tool.name for tool in model.requests[-1].tools}
        with pytest.raises(ConfigError, match=r"plugins\.deny names 'facts'"):
            _ = agent.memory


async def test_a_rejected_value_is_no_fact_again(tmp_path: Path) -> None:
    """The model reads why; another value of the same thing is kept."""
    _switched_on(tmp_path)
    model = ScriptedModel()
    async with opened(tmp_path, model) as agent:
        await _called(agent, model, "memory_set_fact", {"key": "city", "value": "Porto"})
        await agent.ask("/forget porto --yes")
        again = await _called(agent, model, "memory_set_fact", {"key": "city", "value": "Porto"})
        other = await _called(agent, model, "memory_set_fact", {"key": "city", "value": "Lisbon"})

    assert "rejected" in again
    assert other["value"] == "Lisbon"
