"""Messages of transcripts, from Anthropic's content blocks and from the parts of other programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Image,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from nacre.sessions.entries.entries import KnownBody


def at_ms(text: object) -> int:
    """Milliseconds since the epoch of an ISO 8601 time, UTC by default; 0 if it cannot be parsed."""
    try:
        moment = datetime.fromisoformat(str(text))
        return max(0, int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000))
    except (ValueError, OverflowError):
        return 0


def question(blocks: Sequence[Mapping[str, Any]], when_ms: int) -> list[KnownBody]:
    """A person's message, preceded by the tool results in the same message."""
    bodies: list[KnownBody] = list(_results(blocks, when_ms))
    visible = tuple(visible for block in blocks for visible in _visible(block))
    return [*bodies, UserMessage(content=visible, timestamp_ms=when_ms)] if visible else bodies


def answer_and_results(
    blocks: Sequence[Mapping[str, Any]], *, provider: str, model: str, when_ms: int
) -> list[KnownBody]:
    """A model's messages and the results of the tools that it called in between, in order."""
    bodies: list[KnownBody] = []
    for is_result, group in groupby(blocks, key=lambda block: block.get("type") == "tool_result"):
        group_blocks = list(group)
        if is_result:
            bodies += _results(group_blocks, when_ms)
        elif content := tuple(each for block in group_blocks for each in _model_content(block)):
            bodies.append(assistant_message(content, provider=provider, model=model, when_ms=when_ms))
    return bodies


def assistant_message(
    content: Sequence[Text | Thinking | ToolCall], *, provider: str, model: str, when_ms: int
) -> AssistantMessage:
    """An imported message of a model; it ends in a tool call if it contains one."""
    return AssistantMessage(
        content=tuple(content),
        api="import",
        provider=provider,
        model=model,
        usage=None,
        stop_reason="toolUse" if any(isinstance(each, ToolCall) for each in content) else "stop",
        timestamp_ms=when_ms,
    )


def _visible(block: Mapping[str, Any]) -> list[Text | Image]:
    if block.get("type") == "text" and str(block.get("text") or "").strip():
        return [Text(text=str(block["text"]))]
    source = block.get("source")
    if block.get("type") == "image" and isinstance(source, dict) and source.get("type") == "base64":
        return [Image(data=str(source.get("data") or ""), mime_type=str(source.get("media_type") or ""))]
    return []


def _model_content(block: Mapping[str, Any]) -> list[Text | Thinking | ToolCall]:
    match block.get("type"):
        case "text" if str(block.get("text") or "").strip():
            return [Text(text=str(block["text"]))]
        case "thinking" if str(block.get("thinking") or "").strip():
            return [Thinking(thinking=str(block["thinking"]))]
        case "tool_use":
            tool_input = block.get("input")
            arguments = tool_input if isinstance(tool_input, dict) else {"input": tool_input}
            return [ToolCall(id=str(block.get("id") or ""), name=str(block.get("name")), arguments=arguments)]
    return []


def _results(blocks: Sequence[Mapping[str, Any]], when_ms: int) -> list[ToolResultMessage]:
    found = []
    for block in blocks:
        if block.get("type") != "tool_result":
            continue
        content = block.get("content")
        parts = content if isinstance(content, list) else [{"type": "text", "text": str(content or "")}]
        visible = tuple(visible for part in parts if isinstance(part, dict) for visible in _visible(part))
        found.append(
            ToolResultMessage(
                tool_call_id=str(block.get("tool_use_id") or ""),
                tool_name=str(block.get("name") or "tool"),
                content=visible,
                is_error=block.get("is_error") is True,
                timestamp_ms=when_ms,
            )
        )
    return found
