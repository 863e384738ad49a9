"""The offline responder as a `ChatModel`. It needs no key and no network."""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime

from nacre.record import paused_collector
from nacre.runtime.contracts.model import ModelRequest, TextDelta, overhead_tokens
from nacre.runtime.models.offline.answers import PROVIDER, Answer
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    StopReason,
    Text,
    Usage,
    call_text,
    message_text,
)
from nacre.sessions.view.sent_view import estimate_message_tokens

MODEL = "extractive"
CONTEXT_WINDOW_TOKENS = 32_000

MOST_COUNTED_MESSAGES = 2_000
"""Of more messages, evenly spaced ones are counted, at least half as many."""
MOST_QUICK_MESSAGES = 4
_PIECE = re.compile(r"\S{1,24}\s{0,24}|\s{1,24}")
MOST_QUICK_CHARS = 50_000
"""If the newest four messages have more characters, they are read on a thread."""


def _is_long(request: ModelRequest) -> bool:
    newest = request.messages[-MOST_QUICK_MESSAGES:]
    return sum(len(message_text(message)) for message in newest) > MOST_QUICK_CHARS


class OfflineModel:
    """Answers without a language model: remembers, quotes, takes notes and summarizes by extraction.

    `now_ms` gives milliseconds since the epoch, `new_id` the ids of tool calls.
    """

    name = f"{PROVIDER}/{MODEL}"
    context_window_tokens = CONTEXT_WINDOW_TOKENS
    """The window for the budget. The responder itself has no limit."""

    def __init__(
        self, now_ms: Callable[[], int], new_id: Callable[[], str], count_tokens: Callable[[str], int]
    ) -> None:
        self._now_ms = now_ms
        self._new_id = new_id
        self._count_tokens = count_tokens

    async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | AssistantMessage]:
        """Streams the answer in pieces of about a word, then the whole message."""
        if request.purpose in ("flush", "compaction") or _is_long(request):
            # Reading a long history takes seconds, in which other sessions need the event loop.
            message = await asyncio.to_thread(paused_collector()(self._answer), request)
        else:
            message = self._answer(request)
        for piece in _PIECE.finditer(message_text(message)):
            yield TextDelta(text=piece.group())
        yield message

    async def aclose(self) -> None:
        """Does nothing: no resource is open."""

    def _answer(self, request: ModelRequest) -> AssistantMessage:
        # Compiling the patterns is slow, and a real model does not need them.
        from nacre.runtime.models.offline.responder import respond

        now_ms = self._now_ms()
        day = datetime.fromtimestamp(now_ms / 1000, tz=UTC).date()
        answer = respond(request, clock_date=day, count_tokens=self._count_tokens)
        text = self._within(answer.text, request.max_output_tokens)
        return self._message(request, answer, text, now_ms)

    def _message(self, request: ModelRequest, answer: Answer, text: str, now_ms: int) -> AssistantMessage:
        calls = tuple(
            replace(call, id=f"call_{self._new_id()}_{place}") for place, call in enumerate(answer.calls)
        )
        stop_reason: StopReason = "toolUse" if calls else "length" if text != answer.text else "stop"
        written = "\n".join([*filter(None, [text]), *map(call_text, calls)])
        return AssistantMessage(
            content=(*((Text(text=text),) if text else ()), *calls),
            api=PROVIDER,
            provider=PROVIDER,
            model=MODEL,
            usage=Usage(
                input_tokens=self._request_tokens(request),
                output_tokens=self._count_tokens(written),
            ),
            stop_reason=stop_reason,
            timestamp_ms=now_ms,
        )

    def _request_tokens(self, request: ModelRequest) -> int:
        overhead = overhead_tokens(request.system, request.tools, self._count_tokens)
        # An odd step, because messages of people and answers take turns.
        counted = request.messages[:: len(request.messages) // MOST_COUNTED_MESSAGES | 1]
        tokens = sum(estimate_message_tokens(message, self._count_tokens) for message in counted)
        return overhead + tokens * len(request.messages) // max(1, len(counted))

    def _within(self, text: str, max_output_tokens: int | None) -> str:
        if max_output_tokens is None or self._count_tokens(text) <= max_output_tokens:
            return text
        chars = range(len(text))
        too_long = bisect_right(chars, max_output_tokens, key=lambda end: self._count_tokens(text[:end]))
        return text[: too_long - 1]
