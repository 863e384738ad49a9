"""Messages as plain text for a summary, so that a model reads them and does not continue them. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Image,
    Message,
    Thinking,
    ToolCall,
    UserMessage,
    message_text,
)

_CLOSING_TAGS = re.compile(r"</(?=\s*(?:conversation|previous-summary)\b)", re.IGNORECASE)


def serialise_for_summary(messages: Sequence[Message], *, tool_result_chars: int = 2000) -> str:
    """The conversation as labelled paragraphs: `[User]:`, `[Assistant]:`, `[Tool result]:` and so on.

    Tool results are cut at `tool_result_chars` characters with a note; what people and models said
    never is. The tags around the text in a prompt cannot be closed from within.
    """
    paragraphs = [paragraph for message in messages for paragraph in _paragraphs(message, tool_result_chars)]
    return _CLOSING_TAGS.sub("&lt;/", "\n\n".join(paragraphs))


def _paragraphs(message: Message, tool_result_chars: int) -> list[str]:
    if isinstance(message, AssistantMessage):
        return _answer(message)
    images = sum(isinstance(block, Image) for block in message.content)
    shown = "\n".join([*filter(None, [message_text(message)]), *["[image]"] * images])
    if isinstance(message, UserMessage):
        return [f"[User]: {shown}"] if shown else []
    left_out = len(shown) - tool_result_chars
    if left_out > 0:
        shown = f"{shown[:tool_result_chars]}\n[... {left_out} more characters truncated]"
    return [f"[Tool result]: {shown or '(empty)'}"]


def _answer(message: AssistantMessage) -> list[str]:
    thinking = "\n".join(block.thinking for block in message.content if isinstance(block, Thinking))
    calls = "; ".join(map(call_text, message.tool_calls))
    parts = (
        ("Assistant thinking", thinking),
        ("Assistant", message_text(message)),
        ("Assistant tool calls", calls),
    )
    return [f"[{label}]: {text}" for label, text in parts if text.strip()]


def call_text(call: ToolCall) -> str:
    """A call as `name(argument=json, …)`."""
    if call.invalid_arguments is not None:
        return f"{call.name}({call.invalid_arguments})"
    arguments = (
        f"{name}={json.dumps(value, ensure_ascii=False, default=str)}"
        for name, value in call.arguments.items()
    )
    return f"{call.name}({', '.join(arguments)})"
