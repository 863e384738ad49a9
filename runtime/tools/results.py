"""How much of a tool's result enters a conversation. The rest is kept whole beside the transcript.

A result is cut before it is stored, so that no later request, and no other program that reads the
transcript, meets one that does not fit. Limits are OpenClaw's (at most 30 % of the window and 16,000
characters, at least 2,000 kept); the count in tokens and the sum over one step are ours, because 16,000
Chinese characters, or ten results at once, fill a small window by themselves.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from dataclasses import replace

from nacre.records.record import Record
from nacre.runtime.contracts.budget import ContextBudget
from nacre.runtime.contracts.ids import NewId
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.contracts.messages import (
    MAX_KEPT_CHARS,
    Image,
    Text,
    ToolResultMessage,
    WholeResults,
    message_text,
)

log = logging.getLogger(__name__)

RESULT_PREFIX = "result:"
"""How `read` is told that a path names a whole result of this session, and no file of the workspace."""

MAX_RESULT_CHARS = 16_000
WINDOW_SHARE = 0.3
STEP_SHARE = 0.5
CHARS_PER_TOKEN = 4
MIN_RESULT_CHARS = 2_000
LAST_RESORT_CHARS = 400
"""What is kept of each further result once a step has used up its share."""

MAX_PAGE_CHARS = 14_000
MAX_TAIL_CHARS = 4_000
TAIL_SHARE = 0.3

_IMPORTANT_TAIL = re.compile(
    r"\b(?:error|exception|failed|failure|fatal|traceback|panic|abort(?:ed)?|exit (?:code|status)|errno"
    r"|total|totals|summary|result|passed|done|finished|completed?)\b|[}\]]\s*\Z",
    re.IGNORECASE,
)


class ResultLimits(Record):
    """Most of one result, and of all results of one step: the answers to the calls of one message.

    `page_chars` is what `read` shows at once, so little that a page is not cut again.
    """

    result_chars: int
    result_tokens: int
    step_tokens: int
    page_chars: int


def result_limits(budget: ContextBudget) -> ResultLimits:
    """The limits in a window."""
    result_tokens = int(budget.window_tokens * WINDOW_SHARE)
    return ResultLimits(
        result_chars=min(MAX_RESULT_CHARS, result_tokens * CHARS_PER_TOKEN),
        result_tokens=result_tokens,
        step_tokens=int(budget.compact_at * STEP_SHARE),
        # a token is seldom less than a character, also in Chinese
        page_chars=max(MIN_RESULT_CHARS, min(MAX_PAGE_CHARS, result_tokens * 3 // 4)),
    )


class ToolResults:
    """Cuts the results of a session's tools to size, step by step."""

    def __init__(
        self,
        whole: WholeResults,
        limits: ResultLimits,
        *,
        count_tokens: Callable[[str], int],
        new_id: NewId,
    ) -> None:
        self._whole = whole
        self._limits = limits
        self._count_tokens = count_tokens
        self._new_id = new_id
        self._calls_left = 0
        self._tokens_left = limits.step_tokens

    def begin_step(self, calls: int) -> None:
        """The results of so many calls are next."""
        self._calls_left = calls
        self._tokens_left = self._limits.step_tokens

    async def fitted(self, message: ToolResultMessage) -> ToolResultMessage:
        """The message as it is to be stored; the same one when it fits. Images stay: they had a limit before.

        A whole result that cannot be kept costs no turn: its note says that the rest is gone.
        """
        self._calls_left = max(0, self._calls_left - 1)
        text = message_text(message)
        # each result still to come is left its least part
        reserved_tokens = self._calls_left * MIN_RESULT_CHARS // CHARS_PER_TOKEN
        room_tokens = min(self._limits.result_tokens, self._tokens_left - reserved_tokens)
        limit_chars, tokens = await asyncio.to_thread(
            fitting_chars, text, self._limits.result_chars, room_tokens, self._count_tokens
        )
        self._tokens_left -= tokens
        if limit_chars >= len(text):
            return message
        name, problem = await self._kept(text)
        log.info(
            "a result of %s was cut: %d of %d characters, %d tokens left in this step",
            message.tool_name,
            limit_chars,
            len(text),
            self._tokens_left,
        )
        path = f"{RESULT_PREFIX}{name}" if name else ""
        return replace(
            message,
            content=(
                Text(text=cut(text, limit_chars, path=path, problem=problem)),
                *(block for block in message.content if isinstance(block, Image)),
            ),
            details={**(message.details or {}), "wholeChars": len(text), "whole": path or None},
        )

    async def _kept(self, text: str) -> tuple[str, str]:
        name = self._new_id()
        try:
            await self._whole.keep(name, text)
        except (SessionError, ValueError) as error:
            log.warning("a whole tool result could not be kept: %s", error)
            return "", "The rest could not be kept on disk"
        return name, ""


def fitting_chars(
    text: str, limit_chars: int, room_tokens: int, count_tokens: Callable[[str], int]
) -> tuple[int, int]:
    """How many characters of a text may stay, and about how many tokens these take.

    At least `MIN_RESULT_CHARS` while there is room at all, and `LAST_RESORT_CHARS` when there is none.
    """
    least_chars = MIN_RESULT_CHARS if room_tokens > 0 else LAST_RESORT_CHARS
    if len(text) <= least_chars:
        return len(text), count_tokens(text)
    chars = min(len(text), limit_chars)
    tokens = count_tokens(text[:chars])
    while tokens > room_tokens and chars > least_chars:
        chars = max(least_chars, min(chars * 9 // 10, chars * max(room_tokens, 0) // tokens))
        tokens = count_tokens(text[:chars])
    return chars, tokens


def cut(text: str, limit_chars: int, *, path: str, problem: str = "") -> str:
    """The beginning of a text, its end where that tells how it went, and a note of what is between.

    `path` is where `read` finds the whole; without one `problem` says why there is none.
    """
    tail_chars = 0
    if _IMPORTANT_TAIL.search(text[-MIN_RESULT_CHARS:]) and limit_chars >= MIN_RESULT_CHARS:
        tail_chars = min(MAX_TAIL_CHARS, int(limit_chars * TAIL_SHARE))
    head = text[: limit_chars - tail_chars]
    line_end = head.rfind("\n", len(head) * 4 // 5)
    if line_end > 0:
        head = head[: line_end + 1]
    tail = text[len(text) - tail_chars :] if tail_chars else ""
    line_start = tail.find("\n", 0, len(tail) // 5)
    if line_start >= 0:
        tail = tail[line_start + 1 :]
    note = left_out_note(text, len(head), len(tail), path=path, problem=problem)
    return "\n\n".join(part for part in (head.rstrip("\n"), note, tail) if part)


def left_out_note(text: str, head_chars: int, tail_chars: int, *, path: str, problem: str = "") -> str:
    """How much of a text is left out between its beginning and its end, and how to read on; see `cut`."""
    left_out = f"{len(text) - head_chars - tail_chars} of {len(text)} characters left out here"
    return f"[... {left_out}. {_how_to_go_on(text[:head_chars], path, problem, len(text))} ...]"


def _how_to_go_on(head: str, path: str, problem: str, text_chars: int) -> str:
    if not path:
        return f"{problem}; ask for less at once to see more."
    line = head.count("\n") + 1
    char = len(head) - (head.rfind("\n") + 1)
    more = f", char={char + 1}" if char else ""
    kept = f" The first {MAX_KEPT_CHARS} characters are kept." if text_chars > MAX_KEPT_CHARS else ""
    return f'To go on: read with path="{path}", from={line}{more}.{kept}'
