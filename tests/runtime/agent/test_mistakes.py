"""What an author writes by mistake is either done as it was meant, or answered with what to write."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from nacre import Agent, BlockingAgent, tool
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.contracts.events import Warned
from nacre.runtime.models.scripted import ScriptedModel, ScriptViolation, says
from tests.runtime.agents import events_of, opened, said


@tool
def who() -> str:
    """Who it is."""
    return "Ann"


@tool(chats=["private"])
def secret() -> str:
    """What only the owner may ask."""
    return "4711"


STRANGER = {"is_owner": False, "sender_id": "ann"}


async def test_a_withheld_tool_is_named_once_with_the_rule(tmp_path: Path) -> None:
    """Not in the next chat of that kind, and not where its author said which chats it is for."""
    async with opened(tmp_path, ScriptedModel(says("a"), says("b")), tools=[who, secret]) as agent:
        first = await events_of(agent, said("hi", **STRANGER))
        second = await events_of(agent, said("hi", is_owner=False, sender_id="bob"))
    [warned] = [event.message for event in first if isinstance(event, Warned)]
    assert "who" in warned
    assert "secret" not in warned
    assert "@tool(chats=('direct',))" in warned
    assert not [event for event in second if isinstance(event, Warned)]


async def test_the_agent_says_where_tools_are_that_say_nothing(tmp_path: Path) -> None:
    """Those that name their chats keep them."""
    model = ScriptedModel(says("a"))
    async with Agent.open(
        state_dir=tmp_path,
        model=model,
        tools=[who, secret],
        tool_chats=["private", "direct"],
        environment={},
        watch=False,
    ) as agent:
        events = await events_of(agent, said("hi", **STRANGER))
    names = [spec.name for spec in model.requests[0].tools]
    assert "who" in names
    assert "secret" not in names
    assert not [event for event in events if isinstance(event, Warned)]
    with pytest.raises(ConfigError, match=r"tool_chats=\['everywhere'\]"):
        await Agent.open(state_dir=tmp_path, tool_chats=["everywhere"], environment={})  # type: ignore[list-item]


async def test_two_models_with_one_name_are_refused(tmp_path: Path) -> None:
    """A chain finds its models by name; the sentence says how a model of one's own gets another."""
    with pytest.raises(ConfigError, match=r"two models named 'scripted/model'.*name='test/second'"):
        await Agent.open(state_dir=tmp_path, model=[ScriptedModel(), ScriptedModel()], environment={})
    with pytest.raises(ConfigError, match="two models named 'openai/gpt-5'"):
        await Agent.open(state_dir=tmp_path, model=["openai/gpt-5", "openai/gpt-5"], environment={})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"tools": ["who"]}, "'who' is not a tool"),
        ({"tools": [None]}, "None is not a tool"),
        ({"model": 5}, "5 is neither a model nor the name of one"),
        ({"model": ScriptedModel}, "is neither a model nor the name of one"),
        ({"commands": [print]}, r"commands=.*functions with @nacre\.command"),
        ({"hooks": [print]}, r"hooks=.*\{'before_tool': handler\}"),
        ({"instructions": ["Be brief."]}, r"instructions=\['Be brief\.'\]"),
        ({"limits": {"tokens": 5}}, r"limits=.*UsageLimits"),
        ({"memory": object}, r"memory=.*MemoryPlugin"),
    ],
)
async def test_a_value_of_another_kind_is_named_with_what_to_give(
    tmp_path: Path, given: dict[str, Any], words: str
) -> None:
    """An argument that cannot be used is refused when the agent is opened, and nothing is made."""
    with pytest.raises(ConfigError, match=words):
        await Agent.open(state_dir=tmp_path, environment={}, **given)
    assert list(tmp_path.iterdir()) == []


async def test_what_comes_with_a_message_is_checked_before_it_is_stored(tmp_path: Path) -> None:
    """A path is no attachment and a number no session; the sentence says what to write."""
    async with opened(tmp_path, ScriptedModel()) as agent:
        for wrong in ({"attachments": [tmp_path]}, {"attachments": "cat.png"}, {"session": 5}):
            with pytest.raises(ConfigError, match=f"{next(iter(wrong))}=.* cannot be used"):
                await agent.ask("hi", **wrong)  # type: ignore[arg-type]  # as a script might
        assert await agent.sessions.list() == ()


async def test_another_word_for_a_direct_chat_is_refused(tmp_path: Path) -> None:
    """The sentence says what to write; nothing is stored and no model is asked."""
    async with opened(tmp_path, ScriptedModel()) as agent:
        for kind in ("private", "Direct", "dm"):
            with pytest.raises(ConfigError, match=f"{kind}.* would count as a group"):
                await agent.respond(said("hi", chat_kind=kind))
        assert await agent.sessions.list() == ()


async def test_a_group_needs_an_id(tmp_path: Path) -> None:
    """Or a session: all groups without one would share a session."""
    async with opened(tmp_path, ScriptedModel(says("hello"))) as agent:
        with pytest.raises(ConfigError, match="has no chat_id"):
            await agent.respond(said("hi", chat_kind="group"))
        assert await agent.respond(said("hi", chat_kind="group", session_key="agent:main:web:group:7"))


async def test_a_stream_that_nobody_reads_warns(tmp_path: Path) -> None:
    """One that is read does not."""
    async with opened(tmp_path, ScriptedModel(says("hello"))) as agent:
        with pytest.warns(RuntimeWarning, match="was never read"):
            agent.stream(said("hi"))  # gone at once: nothing holds it
        await events_of(agent, said("hi"))


async def test_a_blocking_agent_in_a_coroutine_warns_once(tmp_path: Path) -> None:
    """It works, but the loop stands still; outside of one nothing is said."""
    with (
        pytest.warns(RuntimeWarning, match="blocks it until") as warned,
        BlockingAgent.open(state_dir=tmp_path, environment={}, watch=False) as agent,
    ):
        assert agent.ask("hello") is not None
    assert len(warned) == 1
    assert await asyncio.to_thread(_asked, tmp_path)


def _asked(state_dir: Path) -> str:
    with BlockingAgent.open(state_dir=state_dir, environment={}, watch=False) as agent:
        reply = agent.ask("hello")
    return reply.text if reply is not None else ""


async def test_a_text_and_an_inbound_are_not_mixed_up(tmp_path: Path) -> None:
    """A program's mistake is no bug that somebody should report."""
    message: Any = said("hi")
    text: Any = "hi"
    async with opened(tmp_path, ScriptedModel()) as agent:
        for call in (agent.respond(text), agent.ask(message)):
            with pytest.raises(
                ConfigError, match=r"`ask` takes a text, `respond` and `stream` take an Inbound"
            ):
                await call


async def test_an_option_of_a_wrong_type_is_refused(tmp_path: Path) -> None:
    """It would look like a failure of the provider."""
    given: Any = {"temperature": 0}
    async with opened(tmp_path, ScriptedModel()) as agent:
        with pytest.raises(ConfigError, match=r"Write parameters=ModelParameters\(…\)\."):
            await agent.ask("hi", parameters=given)
        with pytest.raises(ConfigError, match=r"Write limits=UsageLimits\(…\)\."):
            await agent.ask("hi", limits=given)


class Shop:
    """Needs a name."""

    def __init__(self, name: str) -> None:
        self.name = name


@pytest.mark.parametrize(
    ("tools", "what_to_write"),
    [
        (who, r"takes a list\. Write tools=\[who\]\."),
        ([Shop], r"missing 1 required .* Give an object of the class, tools=\[Shop\(…\)\]"),
    ],
)
async def test_tools_that_are_no_list_of_tools(tools: Any, what_to_write: str, tmp_path: Path) -> None:
    """The sentence says what to write."""
    with pytest.raises(ConfigError, match=what_to_write):
        await Agent.open(state_dir=tmp_path, tools=tools, environment={})


def test_an_agent_is_not_made_by_its_class() -> None:
    """As it is elsewhere; here opening waits for the disk."""
    made: Any = Agent
    for call in (lambda: made(tools=[who]), lambda: made("openai/gpt-5-mini")):
        with pytest.raises(TypeError, match=r"Write `async with Agent\.open\(…\) as agent:`"):
            call()


async def test_a_request_outside_of_the_script_is_told_as_it_is(tmp_path: Path) -> None:
    """A test's script that is too short is no bug of the runtime."""
    async with opened(tmp_path, ScriptedModel(says("a"))) as agent:
        await agent.ask("one")
        with pytest.raises(ScriptViolation, match=r"^Request 2 .* is not in the script"):
            await agent.ask("two")
