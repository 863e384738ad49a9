"""`/v1/chat/completions`: a turn of the agent, or its model alone, streamed or whole.

The shapes of objects, errors and usage follow OpenAI's API reference. The tools that the assistant ran are
described in `reasoning_content`, which front ends collapse: `tool_calls` would be a request to the client.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

from sse_starlette import EventSourceResponse
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from nacre.extensions.http.openai.conversations import (
    Conversation,
    Conversations,
    RequestedModel,
    plain_events,
    requested_model,
    session_name_of,
)
from nacre.extensions.http.openai.requests import ChatRequest, body_of, parse_messages
from nacre.record import Record
from nacre.runtime.contracts.clock import epoch_ms
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
    TurnFailed,
    Warned,
)
from nacre.runtime.extensions.service import caller_of
from nacre.sessions.contracts.messages import Usage

RESTART_NOTICE = "\n\n(The answer was interrupted here and starts again.)\n\n"
_STATUS: tuple[tuple[type[AgentError], int, str], ...] = (
    (RateLimited, 429, "rate_limit_error"),
    (SpendingCapReached, 429, "insufficient_quota"),
    (PrivacyError, 403, "permission_error"),
    (MessageRefused, 400, "invalid_request_error"),
    (ContextOverflow, 400, "invalid_request_error"),
    (ModelAuthError, 502, "server_error"),
    (TurnCancelled, 499, "server_error"),
)
PING_SECONDS = 15


class Completion(Record):
    id: str
    created_seconds: int
    model: str

    def chunk(self, delta: dict[str, Any], *, finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**self._head("chat.completion.chunk"), "choices": [choice]}

    def usage_chunk(self, usage: Usage | None) -> dict[str, Any]:
        """The last chunk, if the client asked for usage."""
        return {**self._head("chat.completion.chunk"), "choices": [], "usage": usage_json(usage)}

    def whole(self, text: str, activity: str, usage: Usage | None) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        if activity:
            message["reasoning_content"] = activity
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        return {**self._head("chat.completion"), "choices": [choice], "usage": usage_json(usage)}

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created_seconds, "model": self.model}


def delta_of(event: Event) -> dict[str, Any] | None:
    """The delta of a chunk for an event; `None` if the client does not get it."""
    match event:
        case TextStreamed(text=text):
            return {"content": text}
        case AnswerDiscarded():
            return {"content": RESTART_NOTICE}
        case ToolEnded() | ApprovalAsked() | CompactionEnded() | Warned():
            activity = activity_line(event)
            return {"reasoning_content": activity} if activity else None
        case _:
            return None


def activity_line(event: Event) -> str:
    """A line about what happened besides the answer; may be empty."""
    match event:
        case ToolStarted() | ToolEnded(tool_name=""):
            return ""
        case ToolEnded(tool_name=name, is_error=is_error, summary=summary):
            return f"{name}{' failed' if is_error else ''}: {summary}\n"
        case ApprovalAsked(approval_id=approval_id, why=why):
            return f"{why} Answer /approve {approval_id} or /deny {approval_id}.\n"
        case CompactionEnded(has_failed=False, problem=""):
            return "Earlier parts of this conversation were summarized.\n"
        case Warned(message=message):
            return f"{message}\n"
        case _:
            return ""


def final_answer(event: Event) -> tuple[str, Usage | None] | None:
    """The final text and its usage, if the event ends a turn successfully."""
    match event:
        case ReplyReady(reply=reply):
            return reply.text, reply.usage
        case Silence(usage=usage):
            return "", usage
        case _:
            return None


def usage_json(usage: Usage | None) -> dict[str, Any]:
    """Token counts; as in OpenAI's API, prompt tokens include cached ones."""
    counted = usage or Usage()
    prompt_tokens = counted.input_tokens + counted.cache_read_tokens + counted.cache_write_tokens
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": counted.output_tokens,
        "total_tokens": prompt_tokens + counted.output_tokens,
        "prompt_tokens_details": {"cached_tokens": counted.cache_read_tokens},
    }


def failure_response(error: AgentError) -> tuple[int, dict[str, Any]]:
    """The HTTP status and the body for a failed turn."""
    status, kind = next(
        ((code, kind) for cls, code, kind in _STATUS if isinstance(error, cls)), (502, "server_error")
    )
    return status, error_json(str(error), kind)


def error_json(
    message_text: str, kind: str = "invalid_request_error", parameter: str | None = None
) -> dict[str, Any]:
    return {"error": {"message": message_text, "type": kind, "param": parameter, "code": None}}


def event_data(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


async def chat_completions(conversations: Conversations, request: Request) -> Response:
    """Handles a request. Raises `BadRequest`."""
    body = await body_of(request, ChatRequest)
    model = requested_model(conversations.agents, request, body.model)
    rules, messages = parse_messages(body.messages)
    name, is_raw_key = session_name_of(request, body.user)
    conversation = Conversation(rules=rules, messages=messages, session_name=name, is_raw_key=is_raw_key)
    most_tokens = body.max_completion_tokens or body.max_tokens
    events = await _events(conversations, model, request, conversation, most_tokens)
    completion = Completion(
        id=f"chatcmpl-{conversations.new_id()}",
        created_seconds=epoch_ms(conversations.now()) // 1000,
        model=model.model_id,
    )
    if not body.stream:
        return await _whole(events, completion)
    wants_usage = body.stream_options is not None and body.stream_options.include_usage
    return EventSourceResponse(_chunks(events, completion, wants_usage=wants_usage), ping=PING_SECONDS)


async def _events(
    conversations: Conversations,
    model: RequestedModel,
    request: Request,
    conversation: Conversation,
    most_tokens: int | None,
) -> AsyncGenerator[Event, None]:
    if model.is_plain:
        return plain_events(model.agent, conversation, most_tokens, at_ms=epoch_ms(conversations.now()))
    prepared = await conversations.prepare(model.agent, caller_of(request.scope), conversation)
    return model.agent.stream(prepared.inbound)


async def _whole(events: AsyncGenerator[Event, None], completion: Completion) -> Response:
    activity: list[str] = []
    async with aclosing(events):
        async for event in events:
            activity.append(activity_line(event))
            if isinstance(event, TurnFailed):
                status, body = failure_response(event.error)
                return JSONResponse(body, status_code=status)
            if (final := final_answer(event)) is not None:
                return JSONResponse(completion.whole(final[0], "".join(activity), final[1]))
    return JSONResponse(error_json("The turn ended without an answer.", "server_error"), status_code=502)


async def _chunks(
    events: AsyncGenerator[Event, None], completion: Completion, *, wants_usage: bool
) -> AsyncIterator[dict[str, str]]:
    yield _chunk(completion.chunk({"role": "assistant", "content": ""}))
    streamed, usage = "", Usage()
    async with aclosing(events):
        async for event in events:
            if isinstance(event, TextStreamed | AnswerDiscarded):
                streamed += event.text if isinstance(event, TextStreamed) else RESTART_NOTICE
            if isinstance(event, TurnFailed):
                yield _chunk(failure_response(event.error)[1])
                return
            if (delta := delta_of(event)) is not None:
                yield _chunk(completion.chunk(delta))
            if (final := final_answer(event)) is not None:
                text, usage = final[0], final[1] or usage
                if text and not streamed:  # the answer to a command is not streamed
                    yield _chunk(completion.chunk({"content": text}))
    yield _chunk(completion.chunk({}, finish="stop"))
    if wants_usage:
        yield _chunk(completion.usage_chunk(usage))
    yield {"data": "[DONE]"}


def _chunk(value: object) -> dict[str, str]:
    return {"data": event_data(value)}
