"""`context`: an object of the program's that a turn's tools, prompt parts, hooks and sub-agents get."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nacre import Agent, BeforeTool, ToolChat, ToolContext, prompt_part, sub_agent, tool
from nacre.runtime.ledger.records import inbound_from_json, inbound_to_json
from nacre.runtime.models.scripted import ScriptedModel, calls, says
from tests.runtime.agents import opened, said


@dataclass
class User:
    name: str


@tool
def who(context: ToolContext[User]) -> str:
    """Who asks."""
    return context.context.name


@tool
async def who_else(context: ToolContext[User] | None = None) -> str:
    """Who asks."""
    assert context is not None
    return context.chat.context.name


@prompt_part(changing=True)
def greeting(chat: ToolChat[User]) -> str:
    return f"You talk with {chat.context.name}." if chat.context else ""


async def test_each_call_has_its_own_context(tmp_path: Path) -> None:
    """A tool, a thread, a prompt part, a hook and a sub-agent get it; a call without one has none."""
    asker = sub_agent(name="asker", description="Asks.", instructions="Ask.", tools=[who])
    hooked: list[object] = []
    both = calls(("who", {}), ("who_else", {}), ("asker", {"task": "Ask."}))
    model = ScriptedModel(both, calls(("who", {})), says("Cleo in the sub-agent"), says("Done."), says("Hm."))
    async with Agent.open(
        state_dir=tmp_path,
        model=model,
        tools=[who, who_else, asker],
        prompt_parts=[greeting],
        environment={"HOME": str(tmp_path)},
        watch=False,
    ) as agent:

        def seen(event: BeforeTool) -> None:
            hooked.append(event.chat.context)

        agent.hooks.on("before_tool", seen)
        await agent.ask("Who am I?", context=User("Cleo"))
        await agent.ask("And now?")

    results = [message.content for message in model.requests[3].messages[-3:]]
    assert "Cleo" in str(results[0])
    assert "Cleo" in str(results[1])
    assert "Cleo" in str(model.requests[2].messages[-1])
    assert hooked == [User("Cleo")] * 4
    assert "You talk with Cleo." in model.requests[0].system.tail
    assert model.requests[4].system.tail == ""
    model.assert_complete()


async def test_a_context_is_neither_sent_nor_stored(tmp_path: Path) -> None:
    """No request and no file has it, and a message that waits on disk comes back without it."""
    model = ScriptedModel(says("Hello."))
    inbound = said("hello", context=User("Zanzibar"))
    async with opened(tmp_path, model) as agent:
        await agent.respond(inbound)
    assert "Zanzibar" not in str(model.requests)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if b"Zanzibar" in path.read_bytes()]
    assert inbound_from_json(inbound_to_json(inbound)) == inbound
    assert inbound_from_json(inbound_to_json(inbound)).context is None
