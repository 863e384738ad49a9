"""Decides which old tool results a model is no longer sent in full. Pure; the record is kept elsewhere.

Formulas are OpenClaw's: sizes in characters, four to a token; soft trim from 0.3 of the window on, hard
clear from 0.5. Two things are ours. A result that was pruned stays pruned, so that the next request
begins like this one. And a window that is getting full is pruned also while the provider still
remembers the prompt, because in a busy session its time is never up.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from nacre.record import Record
from nacre.runtime.contracts.budget import ContextBudget
from nacre.runtime.settings.sections.agents import ContextPruningSettings
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    message_text,
)
from nacre.sessions.view.sent_view import Cleared, Projection, Trimmed, caller_ids, is_own_result, projected
from nacre.sessions.view.transcript import TranscriptItem

CHARS_PER_TOKEN = 4
IMAGE_CHARS = 8_000
UNREADABLE_CALL_CHARS = 128
LEAST_SAVING_RATIO = 0.05
"""A prompt that the provider remembers is only changed for at least this share of the window."""


class Pruning(Record):
    """All results that are to be shown otherwise from now on, and why: `reason` is for the record."""

    projections: Mapping[str, Projection]
    saved_chars: int
    reason: str
    numbers: str


class NothingToPrune(Record):
    """Why nothing is done, with the numbers that led to it."""

    reason: str


class PruningFacts(Record):
    """`items` is the transcript, not pruned; `recorded` what of it is shown otherwise already.

    `tokens` is how full the window is now. `idle_seconds` is how long ago the model was last asked,
    `None` when it never was.
    """

    items: Sequence[TranscriptItem]
    recorded: Mapping[str, Projection]
    tokens: int
    idle_seconds: float | None


def plan_pruning(
    facts: PruningFacts, *, settings: ContextPruningSettings, budget: ContextBudget
) -> Pruning | NothingToPrune:
    """What to prune before the next request, if anything."""
    size_line = int(budget.flush_at * settings.size_trigger_ratio)
    trigger = _trigger(facts, settings, size_line)
    idle = "never asked" if facts.idle_seconds is None else f"idle {facts.idle_seconds:.0f} s"
    numbers = (
        f"{facts.tokens} tokens of {budget.window_tokens}, {idle}, ttl {settings.ttl_seconds:.15g} s, "
        f"size line {size_line}"
    )
    if not trigger:
        return NothingToPrune(reason=f"neither time nor size calls for it: {numbers}")
    window_chars = budget.window_tokens * CHARS_PER_TOKEN
    chars = sum(message_chars(_shown(item, facts.recorded)) for item in facts.items)
    # Scripts with more tokens to a character fill the window earlier than their characters say.
    ratio = max(chars / window_chars, facts.tokens / budget.window_tokens)
    numbers += f", {chars} characters, ratio {ratio:.2f}"
    if ratio < settings.soft_trim_ratio:
        least = f"{settings.soft_trim_ratio:.15g}"
        return NothingToPrune(reason=f"the window is less than {least} full: {numbers}")
    candidates = _candidates(facts.items, settings)
    if not candidates:
        return NothingToPrune(reason=f"no tool result is old enough: {numbers}")
    projections = dict(facts.recorded)
    saved_chars = _soft_trim(candidates, projections, settings)
    excess_chars = chars * (1 - settings.hard_clear_ratio / ratio)
    saved_chars += _hard_clear(candidates, projections, settings, wanted_chars=excess_chars - saved_chars)
    if projections == facts.recorded:
        return NothingToPrune(reason=f"no old tool result is long enough: {numbers}")
    if trigger == "size" and saved_chars < LEAST_SAVING_RATIO * window_chars:
        return NothingToPrune(reason=f"it would save only {saved_chars} characters: {numbers}")
    return Pruning(projections=projections, saved_chars=saved_chars, reason=trigger, numbers=numbers)


def message_chars(message: Message) -> int:
    """How much room a message takes, in characters."""
    chars = 0
    for block in message.content:
        match block:
            case Text():
                chars += len(block.text)
            case Thinking():
                chars += len(block.thinking)
            case Image():
                chars += IMAGE_CHARS
            case ToolCall():
                chars += _call_chars(block)
    return chars


def _trigger(facts: PruningFacts, settings: ContextPruningSettings, size_line: int) -> str:
    idle = facts.idle_seconds
    if settings.ttl_seconds > 0 and idle is not None and idle >= settings.ttl_seconds:
        return "ttl"
    return "size" if settings.size_trigger_ratio < 1 and facts.tokens >= size_line else ""


def _call_chars(call: ToolCall) -> int:
    if call.invalid_arguments is not None:
        return len(call.invalid_arguments)
    try:
        return len(json.dumps(dict(call.arguments), ensure_ascii=False))
    except (TypeError, ValueError):
        return UNREADABLE_CALL_CHARS


def _shown(item: TranscriptItem, projections: Mapping[str, Projection]) -> Message:
    projection = projections.get(item.entry_id)
    return item.message if projection is None else projected(item.message, projection)


def _candidates(items: Sequence[TranscriptItem], settings: ContextPruningSettings) -> list[TranscriptItem]:
    """The old results, between the person's first words and the model's last messages."""
    said = [place for place, item in enumerate(items) if isinstance(item.message, UserMessage)]
    answers = [place for place, item in enumerate(items) if isinstance(item.message, AssistantMessage)]
    kept = settings.keep_last_assistants
    if not said or len(answers) < kept:
        return []
    end = answers[-kept] if kept else len(items)
    callers = caller_ids(items)
    return [
        item
        for item in items[said[0] : end]
        if isinstance(item.message, ToolResultMessage)
        and is_own_result(item, callers)
        and settings.tools.admits(item.message.tool_name)
        and not any(isinstance(block, Image) for block in item.message.content)
    ]


def _soft_trim(
    candidates: Sequence[TranscriptItem], projections: dict[str, Projection], settings: ContextPruningSettings
) -> int:
    trim = settings.soft_trim
    saved_chars = 0
    for item in candidates:
        text_chars = len(message_text(item.message))
        if item.entry_id in projections or text_chars <= trim.max_chars:
            continue
        if trim.head_chars + trim.tail_chars >= text_chars:
            continue
        projections[item.entry_id] = Trimmed(head_chars=trim.head_chars, tail_chars=trim.tail_chars)
        saved_chars += text_chars - message_chars(_shown(item, projections))
    return saved_chars


def _hard_clear(
    candidates: Sequence[TranscriptItem],
    projections: dict[str, Projection],
    settings: ContextPruningSettings,
    *,
    wanted_chars: float,
) -> int:
    """Replaces the oldest results until more than `wanted_chars` are saved; gives how many it saved."""
    clear = settings.hard_clear
    left = [item for item in candidates if not isinstance(projections.get(item.entry_id), Cleared)]
    sizes = {item.entry_id: message_chars(_shown(item, projections)) for item in left}
    if not clear.enabled or sum(sizes.values()) < settings.min_prunable_tool_chars:
        return 0
    saved_chars = 0
    for item in left:
        if saved_chars > wanted_chars:
            break
        gain_chars = sizes[item.entry_id] - len(clear.placeholder)
        if gain_chars > 0:
            projections[item.entry_id] = Cleared(placeholder=clear.placeholder)
            saved_chars += gain_chars
    return saved_chars
