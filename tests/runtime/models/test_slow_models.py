"""Whole turns over HTTP with a provider that takes the question and then says nothing."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from nacre import Agent
from nacre.extensions.providers.litellm import LiteLLMModel
from nacre.extensions.providers.openai_compatible.model import OpenAICompatibleModel
from nacre.runtime.contracts.errors import ModelTimedOut, TurnCancelled
from nacre.runtime.contracts.events import (
    AnswerDiscarded,
    Event,
    FallbackAnswered,
    ModelSlow,
    ReplyReady,
    TurnFailed,
)
from nacre.runtime.contracts.model import ModelRequest, SystemPrompt
from nacre.runtime.models.scripted import Clock
from nacre.sessions.contracts.messages import user_message
from tests.runtime.agents import (
    agent_in,
    entries,
    events_of,
    said,
    transcript_file,
    user_texts,
    write_settings,
)
from tests.servers import provider_wire as wire
from tests.servers.provider_server import ProviderServer

FIRST, SECOND = "openai/first", "openai/second"
QUESTION = ModelRequest(system=SystemPrompt(stable=""), messages=(user_message("Hi", timestamp_ms=1),))
WITH_FALLBACK = {"primary": FIRST, "fallbacks": [SECOND]}


@pytest.fixture(params=["openai-completions", "litellm"])
async def api(request: pytest.FixtureRequest) -> str:
    """Each way to a provider; the second that a first request in a process takes is no silence of theirs."""
    way = LiteLLMModel if request.param == "litellm" else OpenAICompatibleModel
    async with ProviderServer() as server:
        server.reply("Warm.")
        model = way(FIRST, base_url=server.url, api_key="sk-test", now_ms=Clock().now_ms)
        async with aclosing(model):
            assert [item async for item in model.stream(QUESTION)]
    return str(request.param)


async def open_agent(state_dir: Path, server: ProviderServer, api: str, **defaults: Any) -> Agent:
    """An agent whose models are at the server."""
    provider = {"baseUrl": server.url, "apiKey": "sk-secret-key", "api": api}
    write_settings(
        state_dir, {"agents": {"defaults": defaults}, "models": {"providers": {"openai": provider}}}
    )
    return await agent_in(state_dir)


async def events_until_slow(agent: Agent, server: ProviderServer, *, has_begun: bool) -> list[Event]:
    """All events of a turn; what the server holds goes on once such a silence was told."""
    events: list[Event] = []
    async with aclosing(agent.stream(said("hello"))) as turn:
        async for event in turn:
            events.append(event)
            if isinstance(event, ModelSlow) and event.has_begun == has_begun:
                server.go_on()
    return events


def silences(events: list[Event]) -> list[ModelSlow]:
    """What was told of slow models."""
    return [event for event in events if isinstance(event, ModelSlow)]


def reply_text(events: list[Event]) -> str:
    """The answer that a turn ended with."""
    assert isinstance(events[-1], ReplyReady), events[-1]
    return events[-1].reply.text


@pytest.mark.covers("ATT-12")
async def test_one_that_sends_no_byte_is_told_and_left_for_the_fallback(tmp_path: Path, api: str) -> None:
    """Long before its own time-out, and it is left alone for a while as after any time-out."""
    async with ProviderServer() as server:
        server.add(wire.reply("Too late.", held="head"), wire.reply("Here."), wire.reply("Again."))
        settings = {"modelSlowSeconds": 0.05, "modelFirstByteSeconds": 0.5}
        async with await open_agent(tmp_path, server, api, model=WITH_FALLBACK, **settings) as agent:
            events = await events_of(agent, said("hello"))
            await server.client_left()
            assert reply_text(await events_of(agent, said("and now?"))) == "Again."
        assert [request["model"] for request in server.requests] == ["first", "second", "second"]
    assert reply_text(events) == "Here."
    told = silences(events)[0]
    assert (told.model_name, told.silent_seconds, told.has_begun) == (FIRST, 0.05, False)
    assert told.next_model_name == SECOND
    [fallback] = [event for event in events if isinstance(event, FallbackAnswered)]
    assert "sent nothing for 0.5 seconds" in fallback.problem
    assert user_texts(transcript_file(tmp_path)) == ["hello", "and now?"]


async def test_without_a_fallback_the_wait_goes_on(tmp_path: Path, api: str) -> None:
    """The owner is told that it is slow; the time after which a fallback is asked means nothing."""
    async with ProviderServer() as server:
        server.reply("Here I am.", held="head")
        settings = {"modelSlowSeconds": 0.2, "modelFirstByteSeconds": 0.05}
        async with await open_agent(tmp_path, server, api, model=FIRST, **settings) as agent:
            events = await events_until_slow(agent, server, has_begun=False)
    assert reply_text(events) == "Here I am."
    assert [(event.model_name, event.next_model_name) for event in silences(events)][:1] == [(FIRST, "")]


async def test_one_that_has_begun_and_thinks_is_not_left(tmp_path: Path, api: str) -> None:
    """The head of its answer is a sign of life: it is waited for past the time that a silent one has."""
    async with ProviderServer() as server:
        server.reply("I had to think.", held="words")
        settings = {"modelSlowSeconds": 1.2, "modelFirstByteSeconds": 1}
        async with await open_agent(tmp_path, server, api, model=WITH_FALLBACK, **settings) as agent:
            events = await events_until_slow(agent, server, has_begun=True)
        assert [request["model"] for request in server.requests] == ["first"]
    assert reply_text(events) == "I had to think."


async def test_one_that_falls_silent_in_the_middle_is_told(tmp_path: Path, api: str) -> None:
    """Its beginning is void once it is given up; the fallback's answer stands alone."""
    async with ProviderServer() as server:
        server.add(wire.stall("The hive "), wire.reply("Here."))
        settings = {"modelSlowSeconds": 0.05, "modelTimeoutSeconds": 1}
        async with await open_agent(tmp_path, server, api, model=WITH_FALLBACK, **settings) as agent:
            events = await events_of(agent, said("hello"))
    assert reply_text(events) == "Here."
    kinds = [type(event) for event in events if isinstance(event, ModelSlow | AnswerDiscarded)]
    assert kinds.index(ModelSlow) < kinds.index(AnswerDiscarded)
    assert any(told.has_begun for told in silences(events))


@pytest.mark.covers("ATT-12")
async def test_a_slow_turn_can_be_stopped(tmp_path: Path, api: str) -> None:
    """The request ends at once, nothing else is asked, and the question stays."""
    async with ProviderServer() as server:
        server.reply("Too late.", held="head")
        async with (
            await open_agent(tmp_path, server, api, model=WITH_FALLBACK, modelSlowSeconds=0.05) as agent,
            aclosing(agent.stream(said("hello"))) as turn,
        ):
            events: list[Event] = []
            async for event in turn:
                events.append(event)
                if isinstance(event, ModelSlow):
                    await server.asked()  # on a busy machine the question may still be on its way
                    agent.stop(said("/stop"))
            await server.client_left()
    assert isinstance(events[-1], TurnFailed)
    assert isinstance(events[-1].error, TurnCancelled)
    assert user_texts(transcript_file(tmp_path)) == ["hello"]
    assert [
        entry["message"]["role"] for entry in entries(transcript_file(tmp_path)) if "message" in entry
    ] == ["user"]


@pytest.mark.slow
async def test_all_that_are_silent_are_named(tmp_path: Path, api: str) -> None:
    """The last one has its own time-out and is asked twice; the sentence has both reasons."""
    async with ProviderServer() as server:
        server.add(*(wire.reply("Too late.", held="head") for _ in range(3)))
        settings = {"modelFirstByteSeconds": 1.5, "modelTimeoutSeconds": 2.5}
        async with await open_agent(tmp_path, server, api, model=WITH_FALLBACK, **settings) as agent:
            events = await events_of(agent, said("hello"))
    assert isinstance(events[-1], TurnFailed)
    error = events[-1].error
    assert not isinstance(error, ModelTimedOut)
    assert f"{FIRST}: The model 'openai/first' sent nothing for 1.5 seconds. (timeout)" in str(error)
    assert f"{SECOND}: " in str(error)
