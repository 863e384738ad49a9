"""What is answered to clients of OpenAI's protocol: objects of chat completions, errors, usage. Pure.

Source of the shapes: OpenAI's API reference. A tool that the assistant ran is told in `reasoning_content`,
which front ends fold away: in `tool_calls` it would be a request to the client.
"""

from __future__ import annotations

import json
from typing import Any

from nacre.record import Record
from nacre.runtime.contracts.errors import (
    AgentError,
    ContextOverflow,
    MessageRefused,
    ModelAuthError,
    PrivacyError,
    RateLimited,
    SpendingCapReached,
    TurnCancelled,
)
from nacre.runtime.contracts.events import (
    AnswerDiscarded,
    ApprovalAsked,
    CompactionEnded,
    Event,
    ReplyReady,
    Silence,
    TextStreamed,
    ToolEnded,
    ToolStarted,
    Warned,
)
from nacre.sessions.contracts.messages import Usage

BEGINS_ANEW = "\n\n(The answer broke off here and begins anew.)\n\n"

_STATUS: tuple[tuple[type[AgentError], int, str], ...] = (
    (RateLimited, 429, "rate_limit_error"),
    (SpendingCapReached, 429, "insufficient_quota"),
    (PrivacyError, 403, "permission_error"),
    (MessageRefused, 400, "invalid_request_error"),
    (ContextOverflow, 400, "invalid_request_error"),
    (ModelAuthError, 502, "server_error"),
    (TurnCancelled, 499, "server_error"),
)


class Completion(Record):
    """One chat completion as it is told: its id, when it began in seconds since 1970, and its model."""

    id: str
    created_seconds: int
    model: str

    def chunk(self, delta: dict[str, Any], *, finish: str | None = None) -> dict[str, Any]:
        """A chunk of a stream."""
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**self._head("chat.completion.chunk"), "choices": [choice]}

    def usage_chunk(self, usage: Usage | None) -> dict[str, Any]:
        """The last chunk, where the client asked for usage."""
        return {**self._head("chat.completion.chunk"), "choices": [], "usage": usage_json(usage)}

    def whole(self, text: str, told: str, usage: Usage | None, *, finish: str = "stop") -> dict[str, Any]:
        """The answer that is not streamed."""
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        if told:
            message["reasoning_content"] = told
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
        return {**self._head("chat.completion"), "choices": [choice], "usage": usage_json(usage)}

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created_seconds, "model": self.model}


def delta_of(event: Event) -> dict[str, Any] | None:
    """What a chunk says of an event; `None` for what a client is not told."""
    match event:
        case TextStreamed(text=text):
            return {"content": text}
        case AnswerDiscarded():
            return {"content": BEGINS_ANEW}
        case ToolEnded() | ApprovalAsked() | CompactionEnded() | Warned():
            told = told_of(event)
            return {"reasoning_content": told} if told else None
        case _:
            return None


def told_of(event: Event) -> str:
    """A line about what happened beside the answer; empty where there is none."""
    match event:
        case ToolStarted() | ToolEnded(tool_name=""):
            return ""
        case ToolEnded(tool_name=name, is_error=is_error, summary=summary):
            return f"{name}{' failed' if is_error else ''}: {summary}\n"
        case ApprovalAsked(approval_id=approval_id, why=why):
            return f"{why} Answer /approve {approval_id} or /deny {approval_id}.\n"
        case CompactionEnded(has_failed=False, problem=""):
            return "Earlier parts of this conversation were summarised.\n"
        case Warned(message=message):
            return f"{message}\n"
        case _:
            return ""


def ending_of(event: Event) -> tuple[str, Usage | None] | None:
    """The whole answer and its usage, of the event that ends a turn well."""
    match event:
        case ReplyReady(reply=reply):
            return reply.text, reply.usage
        case Silence(usage=usage):
            return "", usage
        case _:
            return None


def usage_json(usage: Usage | None) -> dict[str, Any]:
    """What was counted, with the cached tokens in the prompt's as OpenAI counts them."""
    counted = usage or Usage()
    prompt_tokens = counted.input_tokens + counted.cache_read_tokens + counted.cache_write_tokens
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": counted.output_tokens,
        "total_tokens": prompt_tokens + counted.output_tokens,
        "prompt_tokens_details": {"cached_tokens": counted.cache_read_tokens},
    }


def failure_of(error: AgentError) -> tuple[int, dict[str, Any]]:
    """HTTP status and body for a turn that failed."""
    status, kind = next(
        ((code, kind) for cls, code, kind in _STATUS if isinstance(error, cls)), (502, "server_error")
    )
    return status, error_json(str(error), kind)


def error_json(
    sentence: str, kind: str = "invalid_request_error", parameter: str | None = None
) -> dict[str, Any]:
    """An error in the protocol's shape."""
    return {"error": {"message": sentence, "type": kind, "param": parameter, "code": None}}


def event_data(value: object) -> str:
    """A value as the data of a server-sent event."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
