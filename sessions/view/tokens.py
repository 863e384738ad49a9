"""How many tokens a conversation takes: what the provider counted, and an estimate for the rest. Pure.

`count_tokens` counts a text; which tokenizer it uses is the caller's affair.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nacre.sessions.contracts.messages import AssistantMessage, Image, Message, Text, Thinking, ToolCall
from nacre.sessions.entries.entries import Entry
from nacre.sessions.view.pruned_view import saved_tokens_since
from nacre.sessions.view.transcript import TranscriptItem, last_compaction_place

IMAGE_TOKENS = 1200
"""An image of usual size; providers count between 300 and 1600."""

MESSAGE_OVERHEAD_TOKENS = 4
"""Role and separators, as OpenAI's cookbook counts them for chat models."""


@dataclass(frozen=True, kw_only=True)
class ContextMeasure:
    """`tokens` in all; of these `usage_tokens` counted by the provider, `trailing_tokens` estimated."""

    tokens: int
    usage_tokens: int
    trailing_tokens: int


def estimate_message_tokens(message: Message, count_tokens: Callable[[str], int]) -> int:
    """Tokens of one message: text, thinking, tool names, arguments as JSON, images and overhead."""
    tokens = MESSAGE_OVERHEAD_TOKENS
    for block in message.content:
        match block:
            case Text():
                tokens += count_tokens(block.text)
            case Thinking():
                tokens += count_tokens(block.thinking)
            case ToolCall():
                arguments = block.invalid_arguments or json.dumps(
                    dict(block.arguments), ensure_ascii=False, default=str
                )
                tokens += count_tokens(block.name) + count_tokens(arguments)
            case Image():
                tokens += IMAGE_TOKENS
    return tokens


def estimate_tokens(items: Sequence[TranscriptItem], count_tokens: Callable[[str], int]) -> int:
    """Tokens of all these messages; no usage is asked."""
    return sum(estimate_message_tokens(item.message, count_tokens) for item in items)


def measure_context(
    items: Sequence[TranscriptItem],
    branch: Sequence[Entry],
    count_tokens: Callable[[str], int],
    *,
    overhead_tokens: int,
) -> ContextMeasure:
    """How much of the window the next call would take.

    The newest usage counts that the provider gave for a whole answer after the latest compaction;
    whatever follows it is estimated. Usage from before a compaction speaks of a context that is
    gone; what was pruned since the usage was reported is taken off it. Without usage everything is
    estimated and `overhead_tokens`, for the system prompt and the tools, is added.
    """
    compacted_at = last_compaction_place(branch)
    after = branch if compacted_at is None else branch[compacted_at + 1 :]
    trusted_ids = {entry.id for entry in after}
    for index in range(len(items) - 1, -1, -1):
        message = items[index].message
        if (
            items[index].entry_id in trusted_ids
            and isinstance(message, AssistantMessage)
            and _trusted(message)
        ):
            reported_tokens = message.usage.context_tokens if message.usage else 0
            usage_tokens = max(0, reported_tokens - saved_tokens_since(branch, items[index].entry_id))
            trailing_tokens = estimate_tokens(items[index + 1 :], count_tokens)
            return ContextMeasure(
                tokens=usage_tokens + trailing_tokens,
                usage_tokens=usage_tokens,
                trailing_tokens=trailing_tokens,
            )
    estimated = overhead_tokens + estimate_tokens(items, count_tokens)
    return ContextMeasure(tokens=estimated, usage_tokens=0, trailing_tokens=estimated)


def _trusted(answer: AssistantMessage) -> bool:
    has_usage = answer.usage is not None and answer.usage.context_tokens > 0
    return has_usage and answer.stop_reason not in ("error", "aborted")
