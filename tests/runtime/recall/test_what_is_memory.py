"""What owner and model are told of the notes: own words, none of a template's, and their languages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nacre.runtime.models.scripted import Clock, ScriptedModel, says
from nacre.runtime.recall.memory_core import memory_tools
from nacre.runtime.tools.toolbox import Toolbox
from nacre.sessions.contracts.messages import ToolCall, message_text
from tests.memory.doubles import NO_SOURCES, open_engine, workspace
from tests.runtime.agents import START, engine_of, opened, said


@pytest.mark.covers("ATT-11")
async def test_a_template_is_not_found_as_memory(tmp_path: Path) -> None:
    """A fresh MEMORY.md answers nothing; what was written into it is found, and the preface is not."""
    async with opened(tmp_path, None) as agent:
        before = await agent.respond(said("What are the raw notes and decisions of the owner?"))
    memory = tmp_path / "workspace" / "MEMORY.md"
    memory.write_text(memory.read_text().replace("## Decisions\n", "## Decisions\n\n- The boat is sold.\n"))
    async with opened(tmp_path, None) as agent:
        after = await agent.respond(said("What about the boat?"))

    assert before is not None
    assert after is not None
    assert "found nothing" in before.text
    line = memory.read_text().splitlines().index("- The boat is sold.") + 1
    assert f"> The boat is sold.\n> — `MEMORY.md#L{line}`" in after.text
    assert "newest wording wins" not in before.text + after.text


async def test_the_model_is_told_in_which_languages_to_ask(tmp_path: Path) -> None:
    """In the description of the search, and a search takes the question in each of them."""
    workspace(
        tmp_path, {"memory/2026-02-10.md": "- We were told that Lisa has a cat, and it is named Pepper.\n"}
    )
    engine = await open_engine(tmp_path)
    await engine.sync(reason="cli")
    tools = memory_tools(engine, NO_SOURCES, cites=False, languages=engine.languages)
    in_a_chat, _ = memory_tools(
        engine, NO_SOURCES, cites=False, below="chats/club", languages=engine.languages
    )
    arguments = {"query": "кошка Лизы", "queries": ["Lisa's cat"]}
    call = ToolCall(id="c", name="memory_search", arguments=arguments)
    reply = await Toolbox(tools, now_ms=lambda: 0).run(call)
    await engine.close()

    assert "The notes are in English:" in tools[0].description
    assert "The notes are in" not in in_a_chat.description
    (hit,) = json.loads(message_text(reply.message))["results"]
    assert hit["path"] == "memory/2026-02-10.md"


async def test_the_tools_stay_the_same_while_a_conversation_goes_on(tmp_path: Path) -> None:
    """A provider's cache holds through the day of the first notes; the next day knows their language."""
    clock, model = Clock(START), ScriptedModel(*[says("ok")] * 5)
    async with opened(tmp_path, model, clock=clock) as agent:
        await agent.ask("hello")
        note = "- We were told that Lisa has a cat, and it is named Pepper.\n"
        (tmp_path / "workspace/memory/cat.md").write_text(note, encoding="utf-8")
        engine = engine_of(agent._parts)
        await engine.sync(reason="cli")
        await agent.ask("and now?")
        clock.advance(days=1)
        await agent.ask("and today?")

    asked = [request for request in model.requests if request.purpose == "turn"]
    first, second, third = ([tool.description for tool in request.tools] for request in asked)
    assert engine.languages == ("English",)
    assert first == second
    assert any("The notes are in English" in text for text in third)
