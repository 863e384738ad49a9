"""The contract of `ChatModel` as tests that any model can be put through.

Subclass `ModelContract` in a test module, under a name that begins with `Test`, and give it `opened`. A model
that can fail on purpose is a subclass of `FailingModelContract`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal, cast

import pytest

from nacre.runtime.contracts.errors import ModelError, RateLimited
from nacre.runtime.contracts.model import (
    ChatModel,
    ModelAlive,
    ModelRequest,
    SystemPrompt,
    TextDelta,
    ToolSpec,
)
from nacre.sessions.contracts.messages import AssistantMessage, Text, user_message

Answer = Literal["text", "calls", "failure"]
"""What the model is to answer: some words; one or more tool calls; some words and then a rate limit."""

NOTE_TOOL = ToolSpec(
    name="append",
    description="Appends a note.",
    parameters={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
)


async def everything(model: ChatModel, request: ModelRequest) -> list[TextDelta | AssistantMessage]:
    """All that the model says to one request, without its signs of life, which stand before the message."""
    items = [item async for item in model.stream(request)]
    assert not isinstance(items[-1], ModelAlive)
    return [item for item in items if not isinstance(item, ModelAlive)]


async def _last(items: AsyncIterator[object]) -> None:
    async for _ in items:
        pass


class ModelContract:
    """Facts that hold for every model."""

    def opened(self, answers: Sequence[Answer]) -> AbstractAsyncContextManager[ChatModel]:
        """A model that is going to give these answers in this order."""
        raise NotImplementedError

    def request(self, answer: Answer) -> ModelRequest:
        """A request that the model under test answers in that way."""
        words = "Remember that the boat is called Halcyon." if answer == "calls" else "Hello, who are you?"
        return ModelRequest(
            system=SystemPrompt(stable="You are an assistant.", changing="Today is Saturday."),
            messages=(user_message(words, timestamp_ms=1),),
            tools=(NOTE_TOOL,),
        )

    async def test_text_streams_and_one_message_ends_it(self) -> None:
        """Deltas come first, one message is last, and both hold the same text."""
        async with self.opened(["text"]) as model:
            *deltas, message = await everything(model, self.request("text"))
        assert isinstance(message, AssistantMessage)
        assert all(isinstance(delta, TextDelta) for delta in deltas)
        streamed = "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))
        assert streamed == "".join(block.text for block in message.content if isinstance(block, Text))
        assert streamed
        assert message.stop_reason == "stop"
        assert not message.tool_calls

    async def test_calls_are_complete_with_ids(self) -> None:
        """Tool calls arrive whole, each with an id of its own, and the stop reason says so."""
        async with self.opened(["calls"]) as model:
            message = (await everything(model, self.request("calls")))[-1]
        assert isinstance(message, AssistantMessage)
        ids = [call.id for call in message.tool_calls]
        assert ids
        assert all(ids)
        assert len(set(ids)) == len(ids)
        assert all(call.name and call.invalid_arguments is None for call in message.tool_calls)
        assert message.stop_reason == "toolUse"

    async def test_a_stream_left_early_leaves_the_model_usable(self) -> None:
        """Closing the iterator after its first item ends it, and the next request is answered."""
        async with self.opened(["text", "text"]) as model:
            items = cast("AsyncGenerator[object, None]", model.stream(self.request("text")))
            await anext(items)
            await items.aclose()
            assert await anext(items, None) is None
            assert await everything(model, self.request("text"))

    async def test_nothing_is_kept_between_requests(self) -> None:
        """The same request gets the same kind of answer again."""
        async with self.opened(["text", "text"]) as model:
            first = (await everything(model, self.request("text")))[-1]
            second = (await everything(model, self.request("text")))[-1]
        assert isinstance(first, AssistantMessage)
        assert isinstance(second, AssistantMessage)
        assert first.content == second.content

    async def test_it_says_who_it_is(self) -> None:
        """It is a `ChatModel`, has a name, and knows its window or says that it does not."""
        async with self.opened([]) as model:
            assert isinstance(model, ChatModel)
            assert model.name
            assert model.context_window_tokens is None or model.context_window_tokens > 0


class FailingModelContract(ModelContract):
    """The same, and facts about failures."""

    async def test_a_failure_is_typed_and_final(self) -> None:
        """A failed request raises a `ModelError` and yields nothing after it."""
        async with self.opened(["failure"]) as model:
            items = model.stream(self.request("failure"))
            with pytest.raises(RateLimited) as failure:
                await _last(items)
            assert isinstance(failure.value, ModelError)
            assert str(failure.value).endswith(".")
            assert await anext(items, None) is None
