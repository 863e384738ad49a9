"""A sub-agent: a tool that works in a turn of its own and gives back its words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nacre import Agent, Inbound, ModelError, SubAgent, UsageLimits, sub_agent, tool
from nacre.runtime.contracts.errors import TurnCancelled, UsageLimitReached
from nacre.runtime.contracts.events import ReplyReady, TextStreamed, ToolProgressed, TurnFailed
from nacre.runtime.contracts.model import ChatModel
from nacre.runtime.models.scripted import ScriptedModel, calls, fails, says
from nacre.runtime.tools.function import FunctionTool
from nacre.sessions.contracts.messages import Usage, message_text
from tests.runtime.agents import (
    TODAY,
    entries,
    events_of,
    index_lines,
    opened,
    said,
    user_texts,
    write_settings,
)

SPENT = Usage(input_tokens=500, output_tokens=50, cost_usd=0.01)
TASK = ("scout", {"task": "Find the harbour's depth."})


@tool(chats=("private", "group"))
def depth(harbour: str) -> str:
    """How deep a harbour is."""
    return f"{harbour}: 4 m"


@tool
def diary() -> str:
    """What the owner wrote today."""
    return "I am afraid of water."


def scout(**changes: Any) -> SubAgent:
    """A sub-agent that looks up depths, offered everywhere."""
    given: dict[str, Any] = {
        "name": "scout",
        "description": "Finds out facts about harbours.",
        "instructions": "Give the depth in metres.",
        "tools": [depth, diary],
        "chats": ("private", "group"),
    }
    return sub_agent(**{**given, **changes})


@asynccontextmanager
async def opened_with(
    tmp_path: Path, model: ChatModel, *tools: SubAgent | FunctionTool[..., Any], ids: str = ""
) -> AsyncIterator[Agent]:
    async with opened(tmp_path, model, ids=ids, tools=tools) as agent:
        yield agent


def sub_key(state_dir: Path) -> str:
    """The key of the one sub-agent's session."""
    (key,) = [key for key in index_lines(state_dir) if ":subagent:" in key]
    return key


def sub_file(state_dir: Path) -> Path:
    """The transcript of the one sub-agent."""
    session_id = index_lines(state_dir)[sub_key(state_dir)]["sessionId"]
    (file,) = (state_dir / "agents" / "main" / "sessions").glob(f"*{session_id}*.jsonl")
    return file


def tools_of(request: Any) -> list[str]:
    return [spec.name for spec in request.tools]


async def test_its_words_come_back(tmp_path: Path) -> None:
    """It sees its instructions and the task alone, has its own tools alone, and its answer is the result."""
    model = ScriptedModel(
        calls(TASK), calls(("depth", {"harbour": "Sines"})), says("Sines is 4 m deep."), says("Four metres.")
    )
    async with opened_with(tmp_path, model, scout()) as agent:
        events = await events_of(agent, said("How deep is it? My secret is Bea."))

    first, own, _, last = model.requests
    assert "scout" in tools_of(first)
    assert tools_of(own) == ["depth", "diary"]
    assert [message_text(message) for message in own.messages] == ["Find the harbour's depth."]
    assert "Give the depth in metres." in own.system.stable
    assert "Bea" not in f"{own.system}{own.messages}"
    assert message_text(last.messages[-1]) == "Sines is 4 m deep."
    assert "".join(event.text for event in events if isinstance(event, TextStreamed)) == "Four metres."
    assert [event.text for event in events if isinstance(event, ToolProgressed)] == ["depth"]
    model.assert_complete()


async def test_its_usage_is_the_turns(tmp_path: Path) -> None:
    """What it used stands in the reply of the turn that called it, also when it came to nothing."""
    model = ScriptedModel(calls(TASK, usage=SPENT), says("4 m", usage=SPENT), says("Four.", usage=SPENT))
    async with opened_with(tmp_path, model, scout()) as agent:
        *_, ended = await events_of(agent, said("How deep?"))

    assert isinstance(ended, ReplyReady)
    assert ended.reply.usage is not None
    assert ended.reply.usage.input_tokens == 1_500
    assert ended.reply.usage.cost_usd == pytest.approx(0.03)


async def test_its_limits_end_it_and_not_the_turn(tmp_path: Path) -> None:
    """One that goes on for too long gives a sentence, and the assistant answers with what it has."""
    again = calls(("depth", {"harbour": "Sines"}))
    model = ScriptedModel(calls(TASK), again, again, says("It took too long."))
    async with opened_with(tmp_path, model, scout(limits=UsageLimits(model_calls=2))) as agent:
        reply = await agent.ask("How deep?")

    assert reply is not None
    told = message_text(model.requests[-1].messages[-1])
    assert told.startswith("The sub-agent 'scout' ended without an answer.")
    assert "2 model calls" in told
    assert index_lines(tmp_path)[sub_key(tmp_path)]["abortedLastRun"] is True
    model.assert_complete()


@pytest.mark.parametrize("limits", [UsageLimits(tokens=1_000), UsageLimits(model_calls=2)])
async def test_it_cannot_use_more_than_its_caller_may(tmp_path: Path, limits: UsageLimits) -> None:
    """The limits of the turn hold for its parts: what a sub-agent uses ends both."""
    model = ScriptedModel(calls(TASK, usage=SPENT), calls(("depth", {"harbour": "Sines"}), usage=SPENT))
    async with opened_with(tmp_path, model, scout()) as agent:
        with pytest.raises(UsageLimitReached):
            await agent.ask("How deep?", limits=limits)

    model.assert_complete()


async def test_its_tool_calls_are_the_turns(tmp_path: Path) -> None:
    """With one call allowed, which calls it, it has none left, and the assistant answers without it."""
    model = ScriptedModel(calls(TASK), calls(("depth", {"harbour": "Sines"})), says("I do not know."))
    async with opened_with(tmp_path, model, scout()) as agent:
        await agent.ask("How deep?", limits=UsageLimits(tool_calls=1))

    assert "1 tool calls" in message_text(model.requests[-1].messages[-1])
    model.assert_complete()


async def test_in_a_group_it_sees_nothing_private(tmp_path: Path) -> None:
    """It has the group's rights: tools of the owner alone are not offered, and files are the shared ones."""
    tries = [("read", {"path": name}) for name in ("MEMORY.md", "USER.md", TODAY)]
    tries += [("memory_get", {"path": TODAY}), ("memory_search", {"query": "code of the safe"})]
    model = ScriptedModel(calls(TASK), calls(*tries, ("diary", {})), says("Nothing."), says("Sorry."))
    async with opened_with(tmp_path, model, scout(notes=True)) as agent:
        for name in ("MEMORY.md", "USER.md", TODAY):
            (agent.workspace / name).parent.mkdir(exist_ok=True)
            (agent.workspace / name).write_text("The code of the safe is 7391.", encoding="utf-8")
        await events_of(agent, said("How deep?", chat_kind="group", chat_id="club", is_owner=False))

    own, after = model.requests[1], model.requests[2]
    assert "depth" in tools_of(own)
    assert "diary" not in tools_of(own)
    results = [message_text(message) for message in after.messages[-6:]]
    assert "7391" not in str(model.requests)
    assert "afraid" not in str(results)
    assert "'diary'" in results[-1]
    assert "subagent" in sub_key(tmp_path)


async def test_with_notes_it_may_look_them_up(tmp_path: Path) -> None:
    """Asked for, the tools for files and memory are there in the owner's private chat."""
    model = ScriptedModel(
        calls(TASK), calls(("read", {"path": "MEMORY.md"})), says("The code is 7391."), says("Yes.")
    )
    async with opened_with(tmp_path, model, scout(notes=True)) as agent:
        (agent.workspace / "MEMORY.md").write_text("The safe's code is 7391.", encoding="utf-8")
        await agent.ask("What is the code?")

    own = model.requests[1]
    assert {"read", "memory_search", "depth"} <= set(tools_of(own))
    assert "7391" not in f"{own.system}"
    assert "7391" in message_text(model.requests[2].messages[-1])


async def test_it_is_stopped_with_its_caller(tmp_path: Path) -> None:
    """A turn that is stopped stops what works for it, and both transcripts say what was done until then."""
    began, ended = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Waits."""
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    model = ScriptedModel(calls(TASK), calls(("wait", {})))
    async with opened_with(tmp_path, model, scout(tools=[wait])) as agent:
        turn = asyncio.create_task(events_of(agent, said("How deep?")))
        await began.wait()
        assert agent.stop()
        *_, last = await turn

    assert isinstance(last, TurnFailed)
    assert isinstance(last.error, TurnCancelled)
    assert ended.is_set()
    assert index_lines(tmp_path)[sub_key(tmp_path)]["abortedLastRun"] is True
    assert user_texts(sub_file(tmp_path)) == ["Find the harbour's depth."]


async def test_it_can_be_stopped_alone(tmp_path: Path) -> None:
    """Its session can be stopped like any other; the turn that called goes on."""
    began = asyncio.Event()

    @tool
    async def wait() -> str:
        """Waits."""
        began.set()
        await asyncio.Event().wait()
        return ""

    model = ScriptedModel(calls(TASK), calls(("wait", {})), says("It was stopped."))
    async with opened_with(tmp_path, model, scout(tools=[wait])) as agent:
        turn = asyncio.create_task(agent.ask("How deep?"))
        await began.wait()
        assert agent.stop(sub_key(tmp_path))
        reply = await turn

    assert reply is not None
    assert message_text(model.requests[-1].messages[-1]) == "The sub-agent 'scout' was stopped."


async def test_its_transcript_is_there_after_a_restart(tmp_path: Path) -> None:
    """Its session is a program's: readable, with who called it, not reset and not in the daily log."""
    write_settings(tmp_path, {"agents": {"defaults": {"contextTokens": 24_000}}})
    long = "A word of the depths. " * 1_500
    model = ScriptedModel(
        calls(TASK), calls(("depth", {"harbour": "Sines"}), text=long), says("4 m"), says("Four.")
    )
    async with opened_with(tmp_path, model, scout()) as agent:
        await agent.ask("How deep?")
    model.assert_complete()
    key = sub_key(tmp_path)

    async with opened_with(tmp_path, ScriptedModel(), scout(), ids="b") as agent:
        session = await agent.sessions.get(key)
        history = await session.history()

    assert [message.text for message in history][-1] == "4 m"
    called_by = [
        item["data"] for item in entries(sub_file(tmp_path)) if item.get("customType") == "nacre.sub_agent"
    ]
    assert called_by[0]["sessionKey"] == "agent:main:main"
    assert not (tmp_path / "workspace" / TODAY).exists()


async def test_one_may_call_another(tmp_path: Path) -> None:
    """A sub-agent may have sub-agents, and each has its own tools alone."""
    inner = scout(name="inner")
    outer = scout(name="outer", tools=[inner])
    model = ScriptedModel(
        calls(("outer", {"task": "Ask on."})),
        calls(("inner", {"task": "How deep?"})),
        says("4 m"),
        says("4"),
        says("!"),
    )
    async with opened_with(tmp_path, model, outer) as agent:
        await agent.ask("How deep?")

    assert tools_of(model.requests[1]) == ["inner"]
    assert tools_of(model.requests[2]) == ["depth", "diary"]
    model.assert_complete()


async def test_it_may_have_a_model_of_its_own(tmp_path: Path) -> None:
    """The given model works on the task, and is closed with the agent."""
    own = ScriptedModel(says("4 m"), name="scripted/small")
    model = ScriptedModel(calls(TASK), says("Four."))
    async with opened_with(tmp_path, model, scout(model=own)) as agent:
        await agent.ask("How deep?")

    own.assert_complete()
    model.assert_complete()
    with pytest.raises(AssertionError, match="after aclose"):
        await anext(aiter(own.stream(own.requests[0])))


async def test_a_hand_off_takes_the_conversation_along_and_answers(tmp_path: Path) -> None:
    """It reads what was said and no notes or results; its words are the reply, without another model call.
    The next turn goes on from them.
    """
    pilot = scout(name="pilot", hand_off=True)
    model = ScriptedModel(
        says("Hello Ann."),
        calls(("depth", {"harbour": "Horta"})),
        calls(("pilot", {"task": "Find the way."}), text="I hand over."),
        calls(("depth", {"harbour": "Sines"})),
        says("Steer north."),
        says("You are welcome."),
    )
    async with opened_with(tmp_path, model, pilot, depth) as agent:
        await agent.ask("I am Ann.")
        events = await events_of(agent, said("Bring me to Sines."))
        thanks = await agent.ask("Thanks.")

    (ready,) = (event for event in events if isinstance(event, ReplyReady))
    assert ready.reply.text == "Steer north."
    streamed = [event.text for event in events if isinstance(event, TextStreamed)]
    assert "".join(streamed).endswith("Steer north.")
    own = model.requests[3]
    assert [message_text(message) for message in own.messages] == [
        "I am Ann.",
        "Hello Ann.",
        "Bring me to Sines.",
        "I hand over.",
        "Find the way.",
    ]
    assert "Give the depth in metres." in own.system.stable
    assert "handed a conversation over to you" in own.system.stable
    assert "nothing of their conversation" not in own.system.stable
    assert tools_of(own) == ["depth", "diary"]
    assert thanks is not None
    assert thanks.text == "You are welcome."
    assert "Steer north." in [message_text(message) for message in model.requests[-1].messages]
    model.assert_complete()


async def test_a_hand_off_in_a_group_names_who_spoke(tmp_path: Path) -> None:
    """Once each, as in the conversation itself."""
    model = ScriptedModel(calls(TASK), says("Four metres."))
    async with opened_with(tmp_path, model, scout(hand_off=True)) as agent:
        await agent.respond(
            Inbound(text="How deep?", chat_kind="group", chat_id="club", sender_id="bea", sender_name="Bea")
        )
    asked, task = model.requests[1].messages
    assert message_text(asked) == message_text(model.requests[0].messages[-1])
    assert message_text(asked).count("Bea") == 1
    assert message_text(task).endswith("Find the harbour's depth.")


async def test_a_hand_off_that_fails_leaves_the_turn_to_its_caller(tmp_path: Path) -> None:
    """The calling model reads why, and answers itself; where a type is asked for, the answer is a result."""
    model = ScriptedModel(
        calls(TASK),
        fails(ModelError("It is broken.")),
        says("Ask the pilot."),
        calls(TASK),
        says("Four metres."),
        calls(("final_answer", {"answer": 4})),
    )
    async with opened_with(tmp_path, model, scout(hand_off=True)) as agent:
        reply = await agent.ask("How deep?")
        typed = await agent.ask("How deep, as a number?", output_type=int)
    assert reply is not None
    assert reply.text == "Ask the pilot."
    assert "It is broken." in message_text(model.requests[2].messages[-1])
    assert typed.output == 4
