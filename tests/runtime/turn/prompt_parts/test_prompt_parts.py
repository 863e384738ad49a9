"""An author's own sections of the system prompt: where they stand, who reads them, what a failure costs."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from nacre import Agent, PromptPart, ToolChat, prompt_part
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.contracts.events import ReplyReady, Warned
from nacre.runtime.models.scripted import Clock, CountingIds, ScriptedModel, says
from tests.runtime.agents import START, events_of, said

GROUP = {"chat_kind": "group", "channel": "chat", "chat_id": "club"}


async def opened_with(state_dir: Path, model: ScriptedModel, *parts: Any, **more: Any) -> Agent:
    return await Agent.open(
        state_dir=state_dir,
        model=model,
        prompt_parts=parts,
        environment={"HOME": str(state_dir / "home")},
        clock=Clock(START),
        new_id=CountingIds(),
        watch=False,
        **more,
    )


def counted(text: str, **options: Any) -> PromptPart:
    """A part that says how often it was asked."""
    numbers = itertools.count(1)

    @prompt_part(**{"name": text, **options})
    def part(chat: ToolChat) -> str:
        return f"{text} {next(numbers)}"

    return part


async def test_a_stable_part_is_asked_once_in_a_session(tmp_path: Path) -> None:
    """It stands in the cached part, byte for byte the same; a new session asks again."""
    quiet = says("NO_REPLY", purpose="flush")
    model = ScriptedModel(says("one"), says("two"), quiet, says("three"))
    async with await opened_with(tmp_path, model, counted("bees")) as agent:
        for text in ("hi", "again", "/new Once more"):
            await agent.respond(said(text))

    asked = [request.system.stable for request in model.requests if request.purpose == "turn"]
    first, second, third = asked
    assert "\n\nbees 1\n\n# Project context" in first
    assert first == second
    assert "bees 2" in third
    assert "bees" not in model.requests[0].system.tail


async def test_a_changing_part_is_asked_each_turn_and_stands_at_the_end(tmp_path: Path) -> None:
    """In the order given; the cached part does not move with it."""
    model = ScriptedModel(says("one"), says("two"))
    parts = (counted("weather", changing=True), counted("tide", changing=True))
    async with await opened_with(tmp_path, model, *parts) as agent:
        await agent.respond(said("hi"))
        await agent.respond(said("again"))

    first, second = (request.system for request in model.requests)
    assert first.tail == "weather 1\n\ntide 1"
    assert second.tail == "weather 2\n\ntide 2"
    assert first.stable == second.stable


async def test_a_part_is_private_unless_it_says_otherwise(tmp_path: Path) -> None:
    """A group reads what is made for groups alone, and the owner's chat what is made for it."""
    model = ScriptedModel(says("one"), says("two"))
    parts = (
        counted("secret"),
        counted("secret tail", changing=True),
        counted("everybody", chats=("private", "group")),
        counted("only groups", chats=("group",)),
    )
    async with await opened_with(tmp_path, model, *parts) as agent:
        await agent.respond(said("hi", **GROUP))
        await agent.respond(said("hi"))

    group, private = (request.system.joined() for request in model.requests)
    assert "secret" not in group
    assert "everybody 1" in group
    assert "only groups 1" in group
    assert "secret 1" in private
    assert "everybody 2" in private
    assert "only groups" not in private


async def test_a_part_is_given_the_chat_and_may_say_nothing(tmp_path: Path) -> None:
    """Policy, session, channel; an async one works too, and nothing leaves no trace."""
    seen: list[ToolChat] = []

    async def who(chat: ToolChat) -> str | None:
        seen.append(chat)
        return None

    plain = ScriptedModel(says("one"))
    async with await opened_with(tmp_path / "a", plain) as agent:
        await agent.respond(said("hi", channel="chat"))
    model = ScriptedModel(says("one"))
    async with await opened_with(tmp_path / "a", model, who) as agent:
        await agent.respond(said("hi", channel="chat"))
        workspace = agent.workspace

    [chat] = seen
    assert (chat.session_key, chat.channel, chat.policy.is_private) == ("agent:main:main", "chat", True)
    assert chat.workspace == workspace
    assert model.requests[0].system == plain.requests[0].system


async def test_a_part_that_fails_costs_no_turn(tmp_path: Path) -> None:
    """It is left out and told once; the others stand, and a later turn asks it again."""
    asked: list[str] = []

    def broken(chat: ToolChat) -> str:
        asked.append(chat.session_id)
        raise RuntimeError("the station is down")

    def wrong(chat: ToolChat) -> str:
        return 7  # type: ignore[return-value] # what an author without a type checker may do

    model = ScriptedModel(says("one"), says("two"))
    async with await opened_with(tmp_path, model, broken, wrong, counted("bees")) as agent:
        first = await events_of(agent, said("hi"))
        second = await events_of(agent, said("again"))

    told = [event.message for event in first if isinstance(event, Warned)]
    assert told == [
        "The prompt part 'broken' was left out: RuntimeError: the station is down.",
        "The prompt part 'wrong' was left out: it gave int, not text.",
    ]
    assert not [event for event in second if isinstance(event, Warned)]
    assert isinstance(second[-1], ReplyReady)
    assert "bees 1" in model.requests[1].system.stable
    assert len(asked) == 2


async def test_instructions_come_first_and_are_for_every_chat(tmp_path: Path) -> None:
    """They are the simplest of the parts."""
    model = ScriptedModel(says("one"), says("two"))
    async with await opened_with(tmp_path, model, counted("bees"), instructions="Be brief.") as agent:
        await agent.respond(said("hi"))
        await agent.respond(said("hi", **GROUP))

    private, group = (request.system.stable for request in model.requests)
    assert "## Instructions of this program\n\nBe brief.\n\nbees 1\n\n" in private
    assert "## Instructions of this program\n\nBe brief.\n\n" in group


async def test_a_part_that_cannot_be_one_is_refused_at_the_start(tmp_path: Path) -> None:
    """A function without the chat, a chat kind that there is not, one name for two parts."""

    def part(chat: ToolChat) -> str:
        return ""

    def nothing() -> str:
        return ""

    with pytest.raises(ConfigError, match=r"'nothing' must be a function of one argument"):
        await opened_with(tmp_path, ScriptedModel(), nothing)
    with pytest.raises(ConfigError, match="two prompt parts named 'part'"):
        await opened_with(tmp_path, ScriptedModel(), part, part)
    with pytest.raises(TypeError, match=r"name some of \('private', 'direct', 'group'\)"):
        prompt_part(chats=("owner",))(part)  # type: ignore[arg-type] # the mistake that is tested
