"""Blocks of Anthropic's messages as entries of a transcript. Pure."""

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
    """Milliseconds since the epoch of an ISO time, whichever zone it is in; zero when it cannot be read."""
    try:
        moment = datetime.fromisoformat(str(text))
        return max(0, int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000))
    except (ValueError, OverflowError):
        return 0


def question(blocks: Sequence[Mapping[str, Any]], when_ms: int) -> list[KnownBody]:
    """What a person said, behind the results of tools that stand in the same message."""
    bodies: list[KnownBody] = list(_results(blocks, when_ms))
    shown = tuple(shown for block in blocks for shown in _shown(block))
    return [*bodies, UserMessage(content=shown, timestamp_ms=when_ms)] if shown else bodies


def answer_and_results(
    blocks: Sequence[Mapping[str, Any]], *, provider: str, model: str, when_ms: int
) -> list[KnownBody]:
    """What a model said, and the results of the tools that it called in between, in their order."""
    bodies: list[KnownBody] = []
    for is_result, group in groupby(blocks, key=lambda block: block.get("type") == "tool_result"):
        some = list(group)
        if is_result:
            bodies += _results(some, when_ms)
        elif content := tuple(said for block in some for said in _said(block)):
            called = any(isinstance(each, ToolCall) for each in content)
            bodies.append(
                AssistantMessage(
                    content=content,
                    api="import",
                    provider=provider,
                    model=model,
                    usage=None,
                    stop_reason="toolUse" if called else "stop",
                    timestamp_ms=when_ms,
                )
            )
    return bodies


def _shown(block: Mapping[str, Any]) -> list[Text | Image]:
    if block.get("type") == "text" and str(block.get("text") or "").strip():
        return [Text(text=str(block["text"]))]
    source = block.get("source")
    if block.get("type") == "image" and isinstance(source, dict) and source.get("type") == "base64":
        return [Image(data=str(source.get("data") or ""), mime_type=str(source.get("media_type") or ""))]
    return []


def _said(block: Mapping[str, Any]) -> list[Text | Thinking | ToolCall]:
    match block.get("type"):
        case "text" if str(block.get("text") or "").strip():
            return [Text(text=str(block["text"]))]
        case "thinking" if str(block.get("thinking") or "").strip():
            return [Thinking(thinking=str(block["thinking"]))]
        case "tool_use":
            given = block.get("input")
            arguments = given if isinstance(given, dict) else {"input": given}
            return [ToolCall(id=str(block.get("id") or ""), name=str(block.get("name")), arguments=arguments)]
    return []


def _results(blocks: Sequence[Mapping[str, Any]], when_ms: int) -> list[ToolResultMessage]:
    found = []
    for block in blocks:
        if block.get("type") != "tool_result":
            continue
        content = block.get("content")
        parts = content if isinstance(content, list) else [{"type": "text", "text": str(content or "")}]
        shown = tuple(shown for part in parts if isinstance(part, dict) for shown in _shown(part))
        found.append(
            ToolResultMessage(
                tool_call_id=str(block.get("tool_use_id") or ""),
                tool_name=str(block.get("name") or "tool"),
                content=shown,
                is_error=block.get("is_error") is True,
                timestamp_ms=when_ms,
            )
        )
    return found
