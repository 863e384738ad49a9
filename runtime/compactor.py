"""Asks a model for the summary that takes the place of old history. Stores nothing itself.

A summary that came out empty, cut off or not at all is a failure: the history then stays whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nacre.prompts import render
from nacre.runtime.errors import BadModelReply
from nacre.runtime.loop import Ask
from nacre.runtime.model import ModelRequest, SystemPrompt
from nacre.runtime.silence import without_token
from nacre.sessions.cut import CompactionPlan
from nacre.sessions.messages import AssistantMessage, Message, message_text, user_message
from nacre.sessions.serialise import serialise_for_summary

WORDS_PER_TOKEN = 0.6
"""English prose has about 0.75 words a token; less is asked for, so that an answer is not cut off."""

FILE_LIST_LIMIT = 40


@dataclass(frozen=True, kw_only=True)
class SummaryLimits:
    """`part_tokens` bounds one request's conversation, `summary_tokens` one answer."""

    part_tokens: int
    summary_tokens: int


async def summarise(
    plan: CompactionPlan,
    *,
    focus: str,
    ask: Ask,
    limits: SummaryLimits,
    count_tokens: Callable[[str], int],
    now_ms: Callable[[], int],
) -> str:
    """The summary of what a plan takes out of the view, with the files that were touched.

    A history too long for one request is read in parts, each with the summary of those before it.

    Raises:
        ModelError: the model could not be asked, or its answer is no summary.
    """

    async def request(prompt: str) -> str:
        return await _request(prompt, ask=ask, limits=limits, now_ms=now_ms)

    async def parts_of(messages: Sequence[Message]) -> list[str]:
        # Counting megabytes takes seconds, in which other sessions want their turns.
        return await asyncio.to_thread(
            conversation_parts, messages, part_tokens=limits.part_tokens, count_tokens=count_tokens
        )

    max_words = str(int(limits.summary_tokens * WORDS_PER_TOKEN))
    added = f"\n\n{render('compaction_focus', focus=focus)}" if focus else ""
    summary = plan.previous_summary or ""
    for part in await parts_of(plan.to_summarise):
        if summary:
            prompt = render(
                "compaction_update", previous_summary=summary, conversation=part, max_words=max_words
            )
        else:
            prompt = render("compaction", conversation=part, max_words=max_words)
        summary = await request(prompt + added)
    prefix = ""
    for part in await parts_of(plan.turn_prefix):
        prompt = render("compaction_turn_prefix", conversation=part, max_words=max_words)
        prefix = "\n\n".join(text for text in (prefix, await request(prompt)) if text)
    if prefix:
        summary = render("compaction_split_turn", history=summary or "No prior history.", turn_prefix=prefix)
    return summary + _file_lists(plan)


def conversation_parts(
    messages: Sequence[Message], *, part_tokens: int, count_tokens: Callable[[str], int]
) -> list[str]:
    """The messages as text in parts of at most `part_tokens`; a longer message is cut into pieces."""
    parts: list[str] = []
    room_tokens = 0
    for message in messages:
        for piece in _pieces(serialise_for_summary([message]), part_tokens, count_tokens):
            tokens = count_tokens(piece)
            if parts and tokens <= room_tokens:
                parts[-1] += "\n\n" + piece
                room_tokens -= tokens + 1
            else:
                parts.append(piece)
                room_tokens = part_tokens - tokens
    return parts


def _pieces(text: str, part_tokens: int, count_tokens: Callable[[str], int]) -> list[str]:
    if not text.strip():
        return []
    tokens = count_tokens(text)
    if tokens <= part_tokens:
        return [text]
    middle = len(text) // 2
    cut = text.rfind("\n", middle // 2, middle) + 1 or middle
    return _pieces(text[:cut], part_tokens, count_tokens) + _pieces(text[cut:], part_tokens, count_tokens)


async def _request(prompt: str, *, ask: Ask, limits: SummaryLimits, now_ms: Callable[[], int]) -> str:
    request = ModelRequest(
        system=SystemPrompt(stable=render("compaction_system")),
        messages=(user_message(prompt, timestamp_ms=now_ms()),),
        max_output_tokens=limits.summary_tokens,
        purpose="compaction",
    )
    answer: AssistantMessage | None = None
    async for item in ask(request):
        if isinstance(item, AssistantMessage):
            answer = item
    text = without_token(message_text(answer)).strip() if answer else ""
    if answer is None or not text:
        raise BadModelReply("The model gave an empty summary, so the history was left as it is. Try again.")
    if answer.stop_reason == "length":
        raise BadModelReply(
            f"The model's summary was cut off at {limits.summary_tokens} tokens, "
            "so the history was left as it is."
        )
    return text


def _file_lists(plan: CompactionPlan) -> str:
    blocks = ""
    for tag, paths in (("read-files", plan.read_files), ("modified-files", plan.modified_files)):
        if paths:
            more = [f"... and {len(paths) - FILE_LIST_LIMIT} more"] if len(paths) > FILE_LIST_LIMIT else []
            blocks += f"\n\n<{tag}>\n" + "\n".join([*paths[:FILE_LIST_LIMIT], *more]) + f"\n</{tag}>"
    return blocks
