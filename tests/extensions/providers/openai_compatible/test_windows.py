"""How large a window is, by who knows it; and how far an answer of an own server may go."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from nacre.extensions.providers.completions.provider_model import RememberedWindows
from nacre.extensions.providers.openai_compatible.model import OpenAICompatibleModel
from nacre.runtime.contracts.errors import ContextOverflow
from nacre.runtime.contracts.events import FlushEnded, PromptRead, Warned
from nacre.runtime.contracts.model import ModelAlive, ModelRequest, SystemPrompt
from nacre.runtime.models.scripted import Clock
from nacre.sessions.contracts.messages import AssistantMessage, message_text, user_message
from tests.runtime.agents import events_of, opened, said, write_settings
from tests.servers import provider_wire as wire
from tests.servers.provider_server import ProviderServer

HELLO = ModelRequest(system=SystemPrompt(stable="s"), messages=(user_message("Hello", timestamp_ms=1),))
LLAMA_CPP = {"data": [{"id": "small", "owned_by": "llamacpp", "meta": {"n_ctx": 8192, "n_ctx_train": 32768}}]}


def listed(**fields: Any) -> dict[str, Any]:
    return {"/v1/models": {"object": "list", "data": [{"id": "other"}, {"id": "small", **fields}]}}


@pytest.fixture
async def server() -> AsyncIterator[ProviderServer]:
    """A provider whose script must be used up."""
    async with ProviderServer() as server:
        yield server


def model_at(server: ProviderServer, **options: Any) -> OpenAICompatibleModel:
    return OpenAICompatibleModel("desk/small", base_url=server.url, now_ms=Clock().now_ms, **options)


@pytest.mark.parametrize(
    ("facts", "window"),
    [
        ({"/v1/models": LLAMA_CPP}, 8_192),
        ({"/v1/models": LLAMA_CPP, "/props": {"default_generation_settings": {"n_ctx": 4096}}}, 4_096),
        (listed(max_model_len=10_240), 10_240),
        (listed(context_length=131_072, pricing={"prompt": "0.000001"}), 131_072),
        ({**listed(), "/api/v0/models/small": {"id": "small", "loaded_context_length": 12_288}}, 12_288),
        ({**listed(), "/api/ps": {"models": [{"name": "small", "context_length": 16_384}]}}, 16_384),
        ({**listed(), "/api/show": {"parameters": "stop x\nnum_ctx                        6144"}}, 6_144),
        (listed(), None),
        ({"/v1/models": {"hello": "world"}}, None),
    ],
)
async def test_a_server_says_how_large_the_window_is(
    server: ProviderServer, facts: dict[str, Any], window: int | None
) -> None:
    """llama.cpp (of one slot of several), vLLM, OpenRouter, LM Studio, Ollama loaded and not; or nobody."""
    server.facts = facts
    async with contextlib.aclosing(model_at(server)) as model:
        await model.learn_window()
        assert model.context_window_tokens == window
        assert model.window_source == ("server" if window else "model")


async def test_a_server_that_reports_nothing_is_not_asked_at_each_turn(server: ProviderServer) -> None:
    """It is asked again a minute later, and a server that began meanwhile tells its window."""
    clock = Clock()
    model = OpenAICompatibleModel("desk/small", base_url=server.url, now_ms=clock.now_ms)
    async with contextlib.aclosing(model):
        for _ in range(3):
            await model.learn_window()
        assert server.questions == ["/v1/models"]
        server.facts = {"/v1/models": LLAMA_CPP}
        clock.advance(seconds=61)
        await model.learn_window()
        assert model.context_window_tokens == 8_192


async def test_a_provider_is_not_asked_what_the_price_map_knows() -> None:
    """No request goes anywhere for it."""
    async with contextlib.aclosing(
        OpenAICompatibleModel("openai/gpt-4o", api_key="sk-x", now_ms=Clock().now_ms)
    ) as model:
        await model.learn_window()
        assert (model.context_window_tokens, model.window_source) == (128_000, "model")


async def test_a_refusal_teaches_the_window_and_is_remembered(server: ProviderServer, tmp_path: Path) -> None:
    """Over restarts, at that address alone, and until a server or the owner says otherwise."""
    remembered = RememberedWindows(tmp_path / "windows.json")
    server.overflow(window_tokens=8_192)
    async with contextlib.aclosing(model_at(server, remembered=remembered)) as model:
        assert model.context_window_tokens is None
        with pytest.raises(ContextOverflow):
            [item async for item in model.stream(HELLO)]
        assert (model.context_window_tokens, model.window_source) == (8_192, "refusal")
    later = model_at(server, remembered=RememberedWindows(tmp_path / "windows.json"))
    assert (later.context_window_tokens, later.window_source) == (8_192, "remembered")
    chosen = model_at(server, remembered=remembered, context_window_tokens=16_000)
    assert (chosen.context_window_tokens, chosen.window_source) == (16_000, "settings")
    server.facts = listed(max_model_len=32_768)
    async with contextlib.aclosing(later):
        await later.learn_window()
        assert later.context_window_tokens == 32_768


@pytest.mark.parametrize(
    ("options", "asked", "sent"),
    [
        ({}, None, 2_048),
        ({}, 500, 500),
        ({}, 9_000, 2_048),
        ({"max_answer_tokens": 700}, None, 700),
        ({"max_answer_tokens": 700}, 9_000, 700),
    ],
)
async def test_every_answer_of_an_own_server_is_bounded(
    server: ProviderServer, options: dict[str, int], asked: int | None, sent: int
) -> None:
    """By a quarter of the window, or what the settings say."""
    server.facts = {"/v1/models": LLAMA_CPP}
    server.reply("Hi")
    request = ModelRequest(system=HELLO.system, messages=HELLO.messages, max_output_tokens=asked)
    async with contextlib.aclosing(model_at(server, **options)) as model:
        assert [item async for item in model.stream(request)]
    assert server.requests[0]["max_tokens"] == sent


async def test_an_answer_that_repeats_itself_is_stopped(server: ProviderServer) -> None:
    """It ends as one that was cut off, says why, and keeps the passage once; a long answer is left alone."""
    server.stall("A beginning. " + "The user is asking for help. " * 200)
    server.reply("\n".join(f"{number}. Hive {number} has {number % 7} frames." for number in range(200)))
    async with contextlib.aclosing(model_at(server)) as model:
        stopped = [item async for item in model.stream(HELLO)][-1]
        whole = [item async for item in model.stream(HELLO)][-1]
    assert isinstance(stopped, AssistantMessage)
    assert stopped.stop_reason == "length"
    kept = message_text(stopped)
    assert kept.startswith("A beginning. The user is asking for help. ")
    assert len(kept) < len("A beginning. " + "The user is asking for help. " * 3)
    assert stopped.error_message
    assert isinstance(whole, AssistantMessage)
    assert (whole.stop_reason, whole.error_message) == ("stop", None)


async def test_how_far_the_prompt_is_read(server: ProviderServer) -> None:
    """A llama.cpp server is asked to tell, and others are not sent a field that they may refuse."""
    progress = {"choices": [], "prompt_progress": {"total": 4_000, "cache": 0, "processed": 1_000}}
    words = {"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}
    server.add(wire.Step(body="".join(f"data: {json.dumps(each)}\n\n" for each in (progress, words))))
    server.facts = {"/v1/models": LLAMA_CPP}
    async with contextlib.aclosing(model_at(server)) as model:
        items = [item async for item in model.stream(HELLO)]
    assert ModelAlive(is_reading=True, read_tokens=1_000, prompt_tokens=4_000) in items
    assert server.requests[0]["return_progress"] is True
    server.facts = listed(max_model_len=8_192)
    server.reply("Hi")
    async with contextlib.aclosing(model_at(server)) as model:
        assert [item async for item in model.stream(HELLO)]
    assert "return_progress" not in server.requests[1]


def desk(server: ProviderServer, **model: Any) -> dict[str, Any]:
    """Settings with a server of the owner's, and what OpenClaw's keys say of its model."""
    models = [{"id": "small", **model}] if model else []
    return {
        "agents": {"defaults": {"model": {"primary": "desk/small"}}},
        "models": {"providers": {"desk": {"baseUrl": server.url, "models": models}}},
    }


async def test_openclaws_keys_for_window_and_answer_are_read(server: ProviderServer, tmp_path: Path) -> None:
    """The smaller of the settings' window and the server's counts; `maxTokens` bounds an answer."""
    server.facts = {"/v1/models": LLAMA_CPP}
    write_settings(tmp_path, desk(server, contextWindow=6_000, maxTokens=300))
    server.reply("Hello.")
    async with opened(tmp_path, None) as agent:
        await agent.ask("Hi")
        status = await agent.ask("/status")
    assert "/6.0k" in status.text
    assert server.requests[0]["max_tokens"] == 300


async def test_an_agent_works_in_a_window_of_4096_tokens(server: ProviderServer, tmp_path: Path) -> None:
    """The prompt of a new owner leaves room to talk: nothing is flushed or compacted for two words."""
    server.facts = {
        "/v1/models": {"data": [{"id": "small", "owned_by": "llamacpp", "meta": {"n_ctx": 4096}}]}
    }
    write_settings(tmp_path, desk(server))
    progress = {"choices": [], "prompt_progress": {"total": 2_000, "cache": 0, "processed": 500}}
    words = {"choices": [{"index": 0, "delta": {"content": "Hello."}, "finish_reason": "stop"}]}
    server.add(wire.Step(body="".join(f"data: {json.dumps(each)}\n\n" for each in (progress, words))))
    async with opened(tmp_path, None) as agent:
        events = await events_of(agent, said("Hi there"))
        status = await agent.ask("/status")
    assert "/4.1k" in status.text
    assert "window assumed" not in status.text
    assert PromptRead(model_name="desk/small", read_tokens=500, prompt_tokens=2_000) in events
    assert not any(isinstance(event, FlushEnded) for event in events)
    assert {tool["function"]["name"] for tool in server.requests[0]["tools"]} == {
        "read",
        "append",
        "memory_search",
    }


async def test_an_overflow_that_tells_the_window_sets_it(server: ProviderServer, tmp_path: Path) -> None:
    """The turn is answered in it, and the next one begins with it."""
    write_settings(tmp_path, desk(server))
    server.overflow(window_tokens=8_192, asked_tokens=9_000)
    server.reply("Here I am.")
    async with opened(tmp_path, None) as agent:
        assumed = await agent.ask("/status")
        reply = await agent.ask("word " * 6_000)
        status = await agent.ask("/status")
    assert "window assumed" in assumed.text
    assert reply.text == "Here I am."
    assert "/8.2k" in status.text


async def test_a_loop_is_told_to_whoever_watches(server: ProviderServer, tmp_path: Path) -> None:
    """One sentence, and the turn ends with what was said."""
    write_settings(tmp_path, desk(server))
    server.stall("I am here to help. " * 100)
    async with opened(tmp_path, None) as agent:
        events = await events_of(agent, said("Hello"))
    told = [event.message for event in events if isinstance(event, Warned)]
    assert any("repeated itself without end, so it was stopped" in text for text in told)
