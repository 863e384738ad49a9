"""Both ways send the same request, and give the same message, usage and cost for the same answer."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from typing import Any

import pytest

from nacre.extensions.providers.litellm import LiteLLMModel
from nacre.extensions.providers.openai_compatible.model import OpenAICompatibleModel
from nacre.runtime.contracts.model import ModelRequest, SystemPrompt, ToolSpec
from nacre.runtime.models.scripted import Clock
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Image,
    Text,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    user_message,
)
from tests.servers import provider_wire as wire
from tests.servers.provider_server import ProviderServer

LOOK = ToolSpec(
    name="look",
    description="Looks.",
    parameters={
        "type": "object",
        "properties": {"where": {"type": "string"}},
        "required": ["where"],
        "additionalProperties": False,
    },
)
PNG = Image(
    data="iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
    mime_type="image/png",
)
CALL = ToolCall(id="call_1", name="look", arguments={"where": "hier: ö \u2028"})
TALK = (
    user_message("Look there", timestamp_ms=1),
    AssistantMessage(
        content=(CALL,),
        api="",
        provider="",
        model="",
        usage=None,
        stop_reason="toolUse",
        timestamp_ms=1,
    ),
    ToolResultMessage(
        tool_call_id="call_1",
        tool_name="look",
        content=(Text(text="A hive"),),
        is_error=False,
        timestamp_ms=1,
    ),
    user_message("And?", timestamp_ms=1),
)
REQUEST = ModelRequest(
    system=SystemPrompt(stable="Be kind.", changing="Today is Saturday."),
    messages=TALK,
    tools=(LOOK,),
    max_output_tokens=77,
)
SEEN = replace(REQUEST, messages=(UserMessage(content=(Text(text="See"), PNG), timestamp_ms=1),))


async def both(
    name: str, step: wire.Step, request: ModelRequest = REQUEST
) -> list[tuple[dict[str, Any], AssistantMessage]]:
    """What each way sends for a request, and the message that it makes of the answer."""
    found = []
    for way in (LiteLLMModel, OpenAICompatibleModel):
        async with ProviderServer() as server:
            server.add(step)
            model = way(name, base_url=server.url, api_key="sk-test", now_ms=Clock().now_ms)
            async with contextlib.aclosing(model):
                message = [item async for item in model.stream(request)][-1]
            assert isinstance(message, AssistantMessage)
            found.append((server.requests[0], message))
    return found


@pytest.mark.parametrize(
    "request_", [REQUEST, SEEN, replace(REQUEST, tools=())], ids=["calls", "image", "bare"]
)
@pytest.mark.parametrize(
    "name",
    [
        "openai/test-model",
        "openai/gpt-4o",
        "openai/gpt-5-mini",
        "openrouter/openai/gpt-4o",
        "openrouter/anthropic/claude-sonnet-4",
        "hosted_vllm/qwen",
        "lm_studio/qwen",
        "groq/openai/gpt-oss-120b",
        "xai/grok-4",
        "deepseek/deepseek-chat",
        "mistral/mistral-large-latest",
    ],
)
async def test_the_same_is_sent(name: str, request_: ModelRequest) -> None:
    """The bodies mean the same, field by field."""
    (litellm, _), (ours, _) = await both(name, wire.reply("Hi"), request_)
    assert ours == litellm


@pytest.mark.parametrize(
    "name",
    [
        "openai/gpt-4o",
        "openai/gpt-5-mini",
        "deepseek/deepseek-chat",
        "mistral/mistral-large-latest",
        "groq/x",
    ],
)
@pytest.mark.parametrize(
    "usage",
    [
        wire.usage(1_000, 200),
        wire.usage(1_000, 200, cached_tokens=3_000),
        {**wire.usage(900, 300), "completion_tokens_details": {"reasoning_tokens": 250}},
        {**wire.usage(900, 300), "prompt_cache_hit_tokens": 600, "prompt_cache_miss_tokens": 300},
        None,
    ],
    ids=["plain", "cached", "reasoning", "deepseek", "none"],
)
async def test_the_same_is_counted(name: str, usage: dict[str, Any] | None) -> None:
    """Tokens, cached tokens and dollars; and the same text, thoughts and calls."""
    step = wire.tool_calls(("look", {"where": "a"}), text="Well then", reasoning="hm", usage=usage)
    if usage and "prompt_cache_hit_tokens" in usage:
        # as DeepSeek writes it, without OpenAI's field
        step = replace(step, usage={key: value for key, value in usage.items() if "details" not in key})
    (_, litellm), (_, ours) = await both(name, step)
    if name.startswith("mistral/"):  # litellm does not hear what Mistral counts; the other facts stay
        ours, counted = replace(ours, usage=None), ours.usage
        assert counted is None or counted.cost_usd > 0
        usage = None
    assert ours.usage == litellm.usage
    assert (ours.usage is None) == (usage is None)
    assert ours == replace(litellm, api="openai-completions")
    if usage is not None and name != "groq/x":
        assert ours.usage is not None
        assert ours.usage.cost_usd > 0


async def test_openrouters_own_price_counts_where_no_other_is_known() -> None:
    """It says what it charged, for whichever of its providers answered."""
    step = wire.reply("Hi", usage={**wire.usage(100, 5), "cost": 0.0125})
    (_, litellm), (_, ours) = await both("openrouter/nobody/knows", step)
    assert ours.usage is not None
    assert ours.usage.cost_usd == 0.0125
    assert litellm.usage is not None
    assert json.dumps(ours.usage.to_json()) == json.dumps(litellm.usage.to_json())
