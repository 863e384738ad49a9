"""Toolsets, MCP servers given in code, tools chosen for one call, and the errors of tools."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest

from nacre import AfterTool, Agent, ConfigError, ToolFailed, Toolset, mcp_server, sub_agent, tool
from nacre.runtime.contracts.events import ToolEnded, Warned
from nacre.runtime.models.scripted import ScriptedModel, calls, says
from nacre.sessions.contracts.messages import message_text
from tests.extensions.mcp.client import wild_server
from tests.runtime.agents import events_of, opened, said
from tests.runtime.tools.test_function_shapes import Hives, results


@tool
def depth() -> str:
    """How deep the water is."""
    return "four metres"


@tool(needs_approval=True)
def sail(to: str) -> str:
    """Sails somewhere."""
    return f"sailed to {to}"


class Pantry:
    """A class that a toolset makes."""

    @tool(timeout_seconds=3)
    def jars(self) -> str:
        """How many jars there are."""
        return "seven"


def plain() -> str:
    """A function without a decorator."""
    return "plain"


class SoldOut(ToolFailed):
    """An error of the author, with a value of its own."""

    def __init__(self, thing: str) -> None:
        super().__init__(f"There is no {thing} left.", detail=f"row of {thing} in table shelf is empty")
        self.thing = thing


@tool
def fetch(thing: str) -> str:
    """Fetches a thing."""
    raise SoldOut(thing)


async def test_a_toolset_names_its_tools_and_fills_in_what_they_leave_out(tmp_path: Path) -> None:
    """Functions, an object, a class and a further set are tools with one prefix; what a tool says stays."""
    inner = Toolset(Pantry, prefix="pantry_", timeout_seconds=9, chats=("group",))
    shop = Toolset(depth, Hives(30), inner, prefix="shop_", chats=("private",), timeout_seconds=5)
    assert [(each.name, *each.chats) for each in shop.tools if each.chats] == [
        ("shop_depth", "private"),
        ("shop_weigh", "private"),
        ("shop_feed_hive", "private"),
        ("shop_pantry_jars", "group"),
    ]
    assert [each.timeout_seconds for each in shop.tools] == [5, 5, 5, 3]
    called = ("shop_weigh", {"hive": "garden"}), ("shop_depth", {})
    assert await results(tmp_path, [shop], *called) == ["garden: 30 kg", "four metres"]


def test_a_toolset_that_needs_approval_asks_for_each_of_its_tools() -> None:
    """Also for those that ask nobody by themselves."""
    guarded = Toolset(depth, sail, needs_approval=True)
    assert [getattr(each, "needs_approval", None) for each in guarded.tools] == [True, True]
    with pytest.raises(TypeError, match="'a b_depth' is not a valid tool name"):
        Toolset(depth, prefix="a b_")


async def test_a_server_is_given_in_code(tmp_path: Path) -> None:
    """Its tools are in the request, `only` selects them, and the settings file stays what it was."""
    pytest.importorskip("mcp")
    args = [wild_server.__file__, str(tmp_path / "starts")]
    wild = mcp_server("wild", command=sys.executable, args=args, only=["add", "change"], trusted=["add"])
    model = ScriptedModel(calls(("wild__add", {"a": 40, "b": 2})), says("42."), says("Hello."))
    async with opened(tmp_path, model, tools=[wild, depth]) as agent:
        await agent.ask("Count")
        await agent.ask("And?", tools=[depth])
    first, second, third = model.requests
    names = {each.name for each in first.tools}
    assert {each for each in names if each.startswith("wild")} == {"wild__add", "wild__change"}
    assert message_text(second.messages[-1]).endswith("\n42")
    assert [each.name for each in third.tools] == ["depth"]
    assert not (tmp_path / "nacre.json5").exists()


async def test_a_server_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    """Without a way to reach it, with a name of the settings, or below a sub-agent."""
    with pytest.raises(ConfigError, match=r"mcp_server\('wild'\) cannot be used: .*a command or a url"):
        mcp_server("wild")
    wild = mcp_server("wild", url="http://127.0.0.1:1/mcp")
    tmp_path.joinpath("nacre.json5").write_text('{mcp: {servers: {wild: {command: "x"}}}}', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"mcp.servers has a server named 'wild', too"):
        await Agent.open(state_dir=tmp_path, tools=[wild], environment={})
    with pytest.raises(TypeError, match="has an MCP server"):
        sub_agent(name="helper", description="Helps.", instructions="Help.", tools=[wild])


async def test_a_call_restricts_the_tools_of_its_turn(tmp_path: Path) -> None:
    """Names, patterns and tools; the prompt of the session stays byte for byte, and the next call has all."""
    model = ScriptedModel(says("a"), calls(("sail", {"to": "Horta"})), says("b"), says("c"), says("d"))
    async with opened(tmp_path, model, tools=[depth, sail]) as agent:
        await agent.ask("one")
        await agent.ask("two", tools=[depth, "memory_*"])
        await agent.ask("three", tools=[])
        await agent.ask("four")
    every, chosen, refused, none, again = model.requests
    assert {"depth", "sail", "read"} <= {each.name for each in every.tools}
    assert {each.name for each in chosen.tools} == {"depth", "memory_search", "memory_get"}
    assert "There is no tool named 'sail'. The tools here are: " in message_text(refused.messages[-1])
    assert none.tools == ()
    assert again.tools == every.tools
    assert {request.system.stable for request in model.requests} == {every.system.stable}


async def test_a_call_chooses_what_the_agent_was_given(tmp_path: Path) -> None:
    """A plain function and an object, as they stand in `Agent.open(tools=)`; nothing else can be a tool."""
    pantry = Pantry()
    model = ScriptedModel(says("a"))
    async with opened(tmp_path, model, tools=[depth, plain, pantry]) as agent:
        await agent.ask("one", tools=[plain, pantry])
        with pytest.raises(ConfigError, match=r"List tools or names: tools=\[depth"):
            await agent.ask("two", tools=[7])
    assert {each.name for each in model.requests[0].tools} == {"plain", "jars"}


async def test_a_name_that_is_no_tool_here_is_told(tmp_path: Path) -> None:
    """A typo would otherwise leave the model without its tool, and nobody would know."""
    model = ScriptedModel(says("a"))
    async with opened(tmp_path, model, tools=[depth]) as agent:
        told = [event async for event in agent.stream(said("one"), tools=["dept"])]
        with pytest.raises(ConfigError, match=r"takes a list\. Write tools=\['depth'\]"):
            await agent.ask("two", tools="depth")
    [warned] = [event.message for event in told if isinstance(event, Warned)]
    assert "dept" in warned


async def test_an_approved_call_runs_in_a_turn_that_has_other_tools(tmp_path: Path) -> None:
    """What the owner approved is not lost because the next call chose something else."""
    tmp_path.joinpath("nacre.json5").write_text("{tools: {approvals: {waitSeconds: 0}}}", encoding="utf-8")
    model = ScriptedModel(calls(("sail", {"to": "Horta"})), says("It waits."), says("There."))
    async with opened(tmp_path, model, tools=[depth, sail]) as agent:
        await agent.ask("Sail to Horta")
        (waiting,) = await agent.approvals.list()
        await agent._parts.turn.approvals.answer(waiting.id, approved=True)
        await agent.ask("And?", tools=[depth])
    assert "sailed to Horta" in str(model.requests[2].messages)


async def test_the_author_sees_the_error_itself_and_the_model_its_sentence(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Events and hooks have the exception; its detail is logged and never sent."""
    heard: list[AfterTool] = []
    model = ScriptedModel(calls(("fetch", {"thing": "tea"})), says("None left."))
    with caplog.at_level(logging.WARNING):
        async with opened(tmp_path, model, tools=[fetch]) as agent:
            agent.hooks.on("after_tool", heard.append)
            events = await events_of(agent, said("Tea, please"))
    (ended,) = (event for event in events if isinstance(event, ToolEnded))
    assert isinstance(ended.error, SoldOut)
    assert (ended.error.thing, ended.result) == ("tea", "There is no tea left.")
    assert heard[0].error is ended.error
    assert "tool fetch failed: row of tea in table shelf is empty" in caplog.text
    assert "table shelf" not in str(model.requests)
