"""Requests made by hand, and what the offline responder streams for them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from nacre.runtime.contracts.model import ModelRequest, Purpose, SystemPrompt, TextDelta, ToolSpec
from nacre.runtime.models.offline.model import OfflineModel
from nacre.runtime.models.scripted import CountingIds
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Message,
    Text,
    ToolCall,
    ToolResultMessage,
    message_text,
    user_message,
)

PRIVATE = "## Now\n\nToday is Friday, 2026-11-20. Time zone: Europe/Berlin.\nChannel: terminal. Chat: direct."
GROUP = PRIVATE.replace("Chat: direct", "Chat: group")
TODAY = "memory/2026-11-20.md"
NOW_MS = 1_795_000_000_000


def tool(name: str, *parameters: str) -> ToolSpec:
    """A tool with text parameters of these names."""
    schema = {"type": "object", "properties": {parameter: {"type": "string"} for parameter in parameters}}
    return ToolSpec(name=name, description=f"The tool {name}.", parameters=schema)


APPEND = tool("append", "path", "text")
SEARCH = tool("memory_search", "query")
GET = tool("memory_get", "path", "from", "lines")
TOOLS = (APPEND, SEARCH, GET)


def count_tokens(text: str) -> int:
    """Four characters a token, and one for the rest."""
    return -(-len(text) // 4)


def user(text: str) -> Message:
    """Something that a person said."""
    return user_message(text, timestamp_ms=1)


def assistant(text: str = "", *calls: ToolCall) -> AssistantMessage:
    """An answer as a transcript holds it."""
    return AssistantMessage(
        content=(*((Text(text=text),) if text else ()), *calls),
        api="scripted",
        provider="scripted",
        model="scripted",
        usage=None,
        stop_reason="toolUse" if calls else "stop",
        timestamp_ms=2,
    )


def result(call: ToolCall, text: str, *, is_error: bool = False) -> ToolResultMessage:
    """What a tool gave back."""
    return ToolResultMessage(
        tool_call_id=call.id,
        tool_name=call.name,
        content=(Text(text=text),),
        is_error=is_error,
        timestamp_ms=3,
    )


def hits(*places: tuple[str, int, int, str], **more: Any) -> str:
    """A search result as `memory_search` writes it: path, first line, last line, snippet."""
    results = [
        {"path": path, "startLine": first, "endLine": last, "score": 0.9, "snippet": text, "source": "memory"}
        for path, first, last, text in places
    ]
    return json.dumps({"results": results, "provider": "none", **more}, ensure_ascii=False)


def request(
    *messages: Message | str,
    tools: Sequence[ToolSpec] = TOOLS,
    changing: str = PRIVATE,
    stable: str = "You are an assistant.",
    purpose: Purpose = "turn",
    max_output_tokens: int | None = None,
) -> ModelRequest:
    """A request; plain text stands for something that a person said."""
    return ModelRequest(
        system=SystemPrompt(stable=stable, changing=changing),
        messages=tuple(user(item) if isinstance(item, str) else item for item in messages),
        tools=tuple(tools),
        purpose=purpose,
        max_output_tokens=max_output_tokens,
    )


def offline() -> OfflineModel:
    """A fresh responder with a frozen clock."""
    return OfflineModel(now_ms=lambda: NOW_MS, new_id=CountingIds(), count_tokens=count_tokens)


async def answer(asked: ModelRequest) -> AssistantMessage:
    """The message that ends the stream; what was streamed before it is the same text."""
    *deltas, message = [item async for item in offline().stream(asked)]
    assert isinstance(message, AssistantMessage)
    assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == message_text(message)
    assert message.stop_reason == ("toolUse" if message.tool_calls else message.stop_reason)
    return message


async def said(*messages: Message | str, **changes: Any) -> str:
    """The text of the answer; no tool may be called."""
    message = await answer(request(*messages, **changes))
    assert not message.tool_calls
    return message_text(message)


async def called(*messages: Message | str, **changes: Any) -> tuple[ToolCall, ...]:
    """The calls of the answer."""
    return (await answer(request(*messages, **changes))).tool_calls


async def told(
    question: str, results: Mapping[str, str | tuple[str, bool]], *before: Message | str, **changes: Any
) -> str:
    """The final answer to a message, each call answered with the result for its tool (text, is error)."""
    messages: list[Message | str] = [*before, question]
    for _ in range(4):
        message = await answer(request(*messages, **changes))
        if not message.tool_calls:
            return message_text(message)
        messages.append(message)
        for call in message.tool_calls:
            given = results[call.name]
            text, is_error = (given, False) if isinstance(given, str) else given
            messages.append(result(call, text, is_error=is_error))
    raise AssertionError(f"the responder kept calling tools for {question!r}")
