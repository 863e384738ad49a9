"""How many tokens a conversation takes: what the provider counted, and an estimate for the rest. Pure.

`count_tokens` counts a text; which tokenizer it uses is the caller's affair.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from nacre.sessions.contracts.messages import AssistantMessage, Image, Message, Text, Thinking, ToolCall
from nacre.sessions.entries.entries import Compaction, Entry
from nacre.sessions.view.sent_view import saved_tokens_since
from nacre.sessions.view.transcript import TranscriptItem

IMAGE_TOKENS = 1200
"""An image of usual size; providers count between 300 and 1600."""

MOST_QUICK_MESSAGES = 4
MOST_QUICK_CHARS = 2_000
"""What is counted at once: up to so many characters in the newest so many messages."""

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
    place = last_counted_place(items)
    if place is not None and _stands_behind_compactions(branch, items[place].entry_id):
        saved_tokens = saved_tokens_since(branch, items[place].entry_id)
        usage_tokens = max(0, _reported_tokens(items[place].message) - saved_tokens)
        trailing_tokens = estimate_tokens(items[place + 1 :], count_tokens)
        return ContextMeasure(
            tokens=usage_tokens + trailing_tokens,
            usage_tokens=usage_tokens,
            trailing_tokens=trailing_tokens,
        )
    estimated = overhead_tokens + estimate_tokens(items, count_tokens)
    return ContextMeasure(tokens=estimated, usage_tokens=0, trailing_tokens=estimated)


def is_little_to_count(items: Sequence[TranscriptItem]) -> bool:
    """Whether `measure_context` needs less time than handing it to a thread would: a few short texts."""
    newest = items[-MOST_QUICK_MESSAGES:]
    place = last_counted_place(newest)
    if place is None:
        return False
    blocks = [block for item in newest[place + 1 :] for block in item.message.content]
    chars = sum(len(block.text) for block in blocks if isinstance(block, Text))
    return chars <= MOST_QUICK_CHARS and all(isinstance(block, Text) for block in blocks)


def last_counted_place(items: Sequence[TranscriptItem]) -> int | None:
    """Where the newest answer stands with which a provider counted all up to there."""
    newest_first = range(len(items) - 1, -1, -1)
    return next((place for place in newest_first if _reported_tokens(items[place].message)), None)


def _stands_behind_compactions(branch: Sequence[Entry], entry_id: str) -> bool:
    newest_first = takewhile(lambda entry: not isinstance(entry.body, Compaction), reversed(branch))
    return any(entry.id == entry_id for entry in newest_first)


def _reported_tokens(message: Message) -> int:
    """What the provider counted for a whole answer; zero when it did not, or for anything else."""
    if not isinstance(message, AssistantMessage) or message.stop_reason in ("error", "aborted"):
        return 0
    return message.usage.context_tokens if message.usage is not None else 0
