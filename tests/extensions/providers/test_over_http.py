"""Each way to a provider against a real HTTP server that speaks OpenAI's protocol."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any, TypeAlias, cast

import pytest

from nacre.extensions.providers.litellm import LiteLLMModel
from nacre.extensions.providers.openai_compatible.model import OpenAICompatibleModel
from nacre.runtime.contracts.errors import BadModelReply, ContextOverflow, ModelError, ModelUnavailable
from nacre.runtime.contracts.model import ChatModel, ModelRequest, SystemPrompt, TextDelta, ToolSpec
from nacre.runtime.models.scripted import Clock
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Thinking,
    ToolCall,
    Usage,
    message_text,
    user_message,
)
from tests.servers import provider_wire as wire
from tests.servers.provider_server import ProviderServer

HELLO = ModelRequest(
    system=SystemPrompt(stable="Be kind.", changing="Today is Saturday."),
    messages=(user_message("Hello", timestamp_ms=1),),
)


Way: TypeAlias = type[LiteLLMModel] | type[OpenAICompatibleModel]


class Provider(ProviderServer):
    """A provider, and the way to it."""

    def __init__(self, way: Way) -> None:
        super().__init__()
        self.way = way


@pytest.fixture(params=[LiteLLMModel, OpenAICompatibleModel])
async def server(request: pytest.FixtureRequest) -> AsyncIterator[Provider]:
    """A provider whose script must be used up."""
    async with Provider(request.param) as server:
        yield server


def opened(server: Provider, name: str = "openai/test-model", **options: Any) -> ChatModel:
    """A model at that provider."""
    return server.way(
        name, **{"base_url": server.url, "api_key": "sk-test", "now_ms": Clock().now_ms} | options
    )


async def answer(model: ChatModel, request: ModelRequest = HELLO) -> AssistantMessage:
    """The message of one request; the model is closed behind it."""
    async with contextlib.aclosing(model):
        message = [item async for item in model.stream(request)][-1]
    assert isinstance(message, AssistantMessage)
    return message


async def show(model: ChatModel, shown: list[str]) -> None:
    """Collects the text of one request as it is streamed."""
    async for item in model.stream(HELLO):
        if isinstance(item, TextDelta):
            shown.append(item.text)


async def test_text_arrives_in_pieces_with_the_providers_usage(server: Provider) -> None:
    """Pieces are streamed as they come, and input tokens leave out those that were cached."""
    server.reply("Good morning, dear owner", usage=wire.usage(100, 5, cached_tokens=40))
    async with contextlib.aclosing(opened(server)) as model:
        *deltas, message = [item async for item in model.stream(HELLO)]
    texts = [delta.text for delta in deltas if isinstance(delta, TextDelta)]
    assert texts == ["Good ", "morning, ", "dear ", "owner"]
    assert isinstance(message, AssistantMessage)
    assert message.usage == Usage(input_tokens=100, output_tokens=5, cache_read_tokens=40)
    assert (message.provider, message.model) == ("openai", "test-model")
    assert message.timestamp_ms == Clock().now_ms()


async def test_the_request_on_the_wire(server: Provider) -> None:
    """System prompt, question, tools, limit and key are sent, and the stream asks for usage."""
    server.reply("Hi")
    spec = ToolSpec(name="read", description="Reads.", parameters={"type": "object", "properties": {}})
    request = ModelRequest(system=HELLO.system, messages=HELLO.messages, tools=(spec,), max_output_tokens=77)
    await answer(opened(server), request)
    sent = server.requests[0]
    assert sent["messages"] == [
        {"role": "system", "content": "Be kind.\n\nToday is Saturday."},
        {"role": "user", "content": "Hello"},
    ]
    assert sent["tools"][0]["function"]["name"] == "read"
    assert sent["max_tokens"] == 77
    assert sent["stream_options"] == {"include_usage": True}
    assert b"bearer sk-test" in server.raw[0].lower()


async def test_interleaved_fragments_become_whole_calls(server: Provider) -> None:
    """Parallel calls, streamed piece by piece through each other, are put together in order."""
    server.tool_calls(("read", {"path": "a b.md"}), ("list", {}), text="Looking.", reasoning="hm, a file")
    message = await answer(opened(server))
    assert [(call.name, dict(call.arguments)) for call in message.tool_calls] == [
        ("read", {"path": "a b.md"}),
        ("list", {}),
    ]
    assert message_text(message) == "Looking."
    assert [block.thinking for block in message.content if isinstance(block, Thinking)] == ["hm, a file"]
    assert message.stop_reason == "toolUse"


async def test_arguments_that_are_no_object_and_ids_that_are_missing(server: Provider) -> None:
    """Broken JSON is kept as it came, and calls without ids get different ones."""
    server.tool_calls(("read", '{"path": "a'), ("read", "[1]"), ("read", {"path": "b"}), call_ids=False)
    calls = (await answer(opened(server))).tool_calls
    assert [call.invalid_arguments for call in calls] == ['{"path": "a', "[1]", None]
    assert len({call.id for call in calls}) == 3
    assert all(call.id for call in calls)


async def test_usage_that_was_not_sent_is_not_invented(server: Provider) -> None:
    """Without a count from the provider there is none."""
    server.reply("Hi", usage=None)
    assert (await answer(opened(server))).usage is None


async def test_the_output_limit_is_told(server: Provider) -> None:
    """An answer that the limit cut says `length`."""
    server.reply("Once upon", finish_reason="length")
    assert (await answer(opened(server))).stop_reason == "length"


async def test_an_empty_answer_is_an_answer(server: Provider) -> None:
    """A model that ends properly without a word has nothing to say."""
    server.reply("")
    message = await answer(opened(server))
    assert message.content == ()
    assert message.stop_reason == "stop"


async def test_a_withheld_answer_is_an_error(server: Provider) -> None:
    """The content filter's stop is a bad reply, with a sentence."""
    server.reply("I", finish_reason="content_filter")
    with pytest.raises(BadModelReply, match="content filter"):
        await answer(opened(server))


@pytest.mark.parametrize("step", [wire.drop("Half an"), wire.reply("Half an", ending="cut")])
async def test_a_broken_stream_is_not_an_answer(server: Provider, step: wire.Step) -> None:
    """A dropped connection, and a stream that ends without a finish reason, are failures."""
    server.add(step)
    shown: list[str] = []
    async with contextlib.aclosing(opened(server)) as model:
        with pytest.raises(ModelUnavailable):
            await show(model, shown)
    assert "".join(shown) == "Half an"


async def test_a_stalled_stream_is_given_up(server: Provider) -> None:
    """Silence for longer than the stall time-out is a failure, and the connection is closed."""
    server.stall("Wait")
    model = opened(server, stall_timeout_seconds=0.2)
    with pytest.raises(ModelUnavailable, match=r"nothing for 0\.2 seconds"):
        await answer(model)
    await server.client_left()


async def test_cancelling_hangs_up(server: Provider) -> None:
    """A cancelled request closes its HTTP stream at once."""
    server.stall("Wait")
    first = asyncio.Event()
    model = opened(server)

    async def listen() -> None:
        async for _ in model.stream(HELLO):
            first.set()

    task = asyncio.create_task(listen())
    await first.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await server.client_left()
    await model.aclose()


async def test_a_server_that_is_not_there(server: Provider) -> None:
    """A refused connection names the address and what to check."""
    model = opened(server, base_url="http://127.0.0.1:9/v1")
    with pytest.raises(ModelUnavailable, match=r"http://127\.0\.0\.1:9/v1"):
        await answer(model)


@pytest.mark.covers("A10-12")
async def test_overflow_that_the_provider_hides(server: Provider) -> None:
    """An answer whose prompt was counted larger than the window is an overflow."""
    server.reply("Sure", usage=wire.usage(900, 5, cached_tokens=200))
    with pytest.raises(ContextOverflow, match="1100 tokens"):
        await answer(opened(server, context_window_tokens=1_000))


async def test_claude_gets_cache_marks_through_a_reseller(server: Provider) -> None:
    """The stable part of the prompt and the newest user message are marked for Anthropic's cache."""
    server.reply("Hi")
    await answer(opened(server, "openrouter/anthropic/claude-sonnet-4"))
    system, user = server.requests[0]["messages"]
    mark = {"type": "ephemeral"}
    assert system["content"] == [
        {"type": "text", "text": "Be kind.", "cache_control": mark},
        {"type": "text", "text": "Today is Saturday."},
    ]
    assert user["content"] == [{"type": "text", "text": "Hello", "cache_control": mark}]


async def test_closing_one_model_leaves_its_twin_alone(server: Provider) -> None:
    """Two models on one event loop share connections, and the first to close does not take them away."""
    server.reply("one")
    server.reply("two")
    twin = opened(server)
    assert [item async for item in twin.stream(HELLO)]
    server_side = cast("list[dict[str, Any]]", server.requests)
    other = opened(server)
    items = other.stream(HELLO)
    assert await anext(items)
    await twin.aclose()
    rest = [item async for item in items]
    assert isinstance(rest[-1], AssistantMessage)
    await other.aclose()
    assert len(server_side) == 2


async def test_a_closed_model_says_so(server: Provider) -> None:
    """After `aclose` a request is a plain `ModelError`, which nobody tries again."""
    model = opened(server)
    await model.aclose()
    with pytest.raises(ModelError, match="was closed"):
        await answer(model)


async def test_the_window_comes_from_settings_or_from_the_price_map(server: Provider) -> None:
    """A configured window wins; known models bring theirs; unknown ones have none."""

    def window(name: str, configured: int | None = None) -> int | None:
        return opened(server, name, context_window_tokens=configured).context_window_tokens

    assert window("openai/gpt-4o") == 128_000
    assert window("openai/gpt-4o", 5_000) == 5_000
    assert window("anthropic/gpt-4o") is None
    assert window("openai/test-model") is None


async def test_known_prices_become_a_cost(server: Provider) -> None:
    """Usage of a model in the price map carries dollars, the cached part at its lower price."""
    server.reply("Hi", usage=wire.usage(1_000_000, 0, cached_tokens=1_000_000))
    message = await answer(opened(server, "openai/gpt-4o", context_window_tokens=3_000_000))
    assert message.usage is not None
    assert message.usage.cost_usd == pytest.approx(2.5 + 1.25)


@pytest.mark.covers("W8-11")
async def test_what_a_model_said_is_never_taken_for_an_error(server: Provider) -> None:
    """Overflow phrases in the conversation and in the answer stay text."""
    phrase = "context_length_exceeded: prompt is too long, 429 rate limit, invalid api key"
    server.reply(phrase)
    request = ModelRequest(
        system=SystemPrompt(stable=phrase), messages=(user_message(phrase, timestamp_ms=1),)
    )
    assert message_text(await answer(opened(server), request)) == phrase
    assert json.dumps(server.requests[0]).count("context_length_exceeded") == 2


async def test_a_history_with_calls_is_sent_back_complete(server: Provider) -> None:
    """What one answer asked for can be sent in the next request as it was stored."""
    server.tool_calls(("read", {"path": "a"}))
    server.reply("Done")
    async with contextlib.aclosing(opened(server)) as model:
        first = [item async for item in model.stream(HELLO)][-1]
        assert isinstance(first, AssistantMessage)
        assert isinstance(first.content[0], ToolCall)
        request = ModelRequest(system=HELLO.system, messages=(*HELLO.messages, first))
        assert [item async for item in model.stream(request)]
    assert server.requests[1]["messages"][-1]["tool_calls"][0]["id"] == first.content[0].id
