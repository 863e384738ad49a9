"""The mount of OpenAI's protocol: `/v1/chat/completions`, `/v1/responses`, `/v1/models`, `/v1/embeddings`.

The shapes of objects, errors and usage follow OpenAI's API reference. A chat completion is a turn of the
agent, or its model alone; a response is a turn that can be continued by its response ID, or in a named
conversation. Tools that the assistant ran are described in `reasoning_content`, which front ends collapse,
and are finished `mcp_call` items of a response: `tool_calls` and `function_call` would be requests to the
client.
"""

from __future__ import annotations

import base64
import binascii
import json
import logging
import re
import struct
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sse_starlette import EventSourceResponse
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from nacre.bridges.answering.turns import TurnRunner
from nacre.extensions.http.openai.conversations import (
    PLAIN,
    Conversation,
    Conversations,
    requested_model,
    session_name_of,
)
from nacre.extensions.http.openai.requests import (
    BadRequest,
    ChatRequest,
    EmbeddingsRequest,
    ResponsesRequest,
    answer_type,
    body_of,
    input_messages,
    parse_messages,
)
from nacre.memory.contracts.embedder import Embedder, EmbeddingFailed
from nacre.record import Record
from nacre.runtime.agent.agent import Agent
from nacre.runtime.contracts.clock import Clock, NewId, epoch_ms
from nacre.runtime.contracts.errors import (
    AgentError,
    AgentPaused,
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
from nacre.runtime.extensions.service import HttpMount, caller_of
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.contracts.messages import Usage

log = logging.getLogger(__name__)

RESTART_NOTICE = "\n\n(The answer was interrupted here and starts again.)\n\n"
_STATUS: tuple[tuple[type[AgentError], int, str], ...] = (
    (RateLimited, 429, "rate_limit_error"),
    (SpendingCapReached, 429, "insufficient_quota"),
    (AgentPaused, 503, "server_error"),
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
            return f"{why}\n{event.call}\nAnswer /approve {approval_id} or /deny {approval_id}.\n"
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
    return {
        "prompt_tokens": counted.prompt_tokens,
        "completion_tokens": counted.output_tokens,
        "total_tokens": counted.context_tokens,
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
    conversation = Conversation(
        rules=rules,
        messages=messages,
        session_name=name,
        is_raw_key=is_raw_key,
        answer=answer_type(body.response_format, "response_format"),
    )
    most_tokens = body.max_completion_tokens or body.max_tokens
    events, _ = await conversations.events(model, caller_of(request.scope), conversation, most_tokens)
    completion = Completion(
        id=f"chatcmpl-{conversations.new_id()}",
        created_seconds=epoch_ms(conversations.now()) // 1000,
        model=model.model_id,
    )
    if not body.stream:
        return await _whole(events, completion)
    wants_usage = body.stream_options is not None and body.stream_options.include_usage
    return EventSourceResponse(_chunks(events, completion, wants_usage=wants_usage), ping=PING_SECONDS)


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


_ID = re.compile(r"resp_(\d{1,9})_([A-Za-z0-9_-]+)")


def response_id(turns: int, name: str) -> str:
    """The ID of the response after `turns` turns of a session."""
    return f"resp_{turns}_{base64.urlsafe_b64encode(name.encode()).decode().rstrip('=')}"


def parse_response_id(text: str) -> tuple[int, str] | None:
    """The number of turns and the session name in a response ID; `None` if the ID is not valid."""
    found = _ID.fullmatch(text)
    if found is None:
        return None
    try:
        return int(found[1]), base64.urlsafe_b64decode(found[2] + "=" * (-len(found[2]) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


@dataclass
class ResponseObject:
    id: str
    created_seconds: int
    model: str
    previous: str | None = None
    conversation: str | None = None
    output: list[dict[str, Any]] = field(default_factory=list)

    def as_json(
        self, status: str, usage: Usage | None = None, error: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        tokens = usage_json(usage)
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created_seconds,
            "status": status,
            "error": error,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "model": self.model,
            "output": list(self.output),
            "parallel_tool_calls": True,
            "previous_response_id": self.previous,
            "conversation": {"id": self.conversation} if self.conversation else None,
            "tool_choice": "auto",
            "tools": [],
            "usage": {
                "input_tokens": tokens["prompt_tokens"],
                "input_tokens_details": tokens["prompt_tokens_details"],
                "output_tokens": tokens["completion_tokens"],
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": tokens["total_tokens"],
            }
            if usage is not None
            else None,
        }


def call_item(event: ToolEnded, arguments: str) -> dict[str, Any]:
    return {
        "id": f"mcp_{event.call_id}",
        "type": "mcp_call",
        "server_label": "nacre",
        "name": event.tool_name,
        "arguments": arguments,
        "output": None if event.is_error else event.summary,
        "error": event.summary if event.is_error else None,
        "status": "failed" if event.is_error else "completed",
    }


def message_item(text: str, number: int, status: str = "completed") -> dict[str, Any]:
    content = [text_part(text)] if status == "completed" else []
    item = {"id": f"msg_{number}", "type": "message", "role": "assistant"}
    return {**item, "status": status, "content": content}


def text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def message_start_events(number: int) -> Iterator[dict[str, Any]]:
    """The events before the first text of a message, which is item `number` of the output."""
    yield {
        "type": "response.output_item.added",
        "output_index": number,
        "item": message_item("", number, "in_progress"),
    }
    yield {"type": "response.content_part.added", **_position(number), "part": text_part("")}


def text_delta(text: str, number: int) -> dict[str, Any]:
    return {"type": "response.output_text.delta", **_position(number), "delta": text, "logprobs": []}


def _position(number: int) -> dict[str, Any]:
    return {"item_id": f"msg_{number}", "output_index": number, "content_index": 0}


def message_end_events(text: str, number: int) -> Sequence[dict[str, Any]]:
    position = _position(number)
    return (
        {"type": "response.output_text.done", **position, "text": text, "logprobs": []},
        {"type": "response.content_part.done", **position, "part": text_part(text)},
        {"type": "response.output_item.done", "output_index": number, "item": message_item(text, number)},
    )


async def create_response(conversations: Conversations, request: Request) -> Response:
    """Handles a request. Raises `BadRequest`."""
    body = await body_of(request, ResponsesRequest)
    model = requested_model(conversations.agents, request, body.model)
    conversation, named = _conversation(conversations, request, body)
    response = ResponseObject(
        id="",
        created_seconds=epoch_ms(conversations.now()) // 1000,
        model=model.model_id,
        previous=body.previous_response_id,
        conversation=named,
    )
    events, turns_before = await conversations.events(
        model, caller_of(request.scope), conversation, body.max_output_tokens
    )
    response.id = response_id(turns_before + 1, conversation.session_name)
    if model.is_plain:
        response.id = f"resp_{conversations.new_id()}"
    if body.stream:
        return EventSourceResponse(_numbered(_stream(events, response)), ping=PING_SECONDS)
    last: dict[str, Any] = {}
    async for item in _stream(events, response):
        last = item
    if last["type"] == "response.failed":
        return JSONResponse(
            error_json(last["response"]["error"]["message"], "server_error"), status_code=last["status"]
        )
    return JSONResponse(last["response"])


def _conversation(
    conversations: Conversations, request: Request, body: ResponsesRequest
) -> tuple[Conversation, str | None]:
    rules, messages = parse_messages(input_messages(body))
    answer = answer_type((body.text or {}).get("format"), "text.format")
    if body.previous_response_id is not None:
        position = parse_response_id(body.previous_response_id)
        if position is None:
            raise BadRequest(
                f"{body.previous_response_id!r} is not a response of this server.",
                "previous_response_id",
                status=404,
            )
        turns, name = position
        continued = Conversation(
            rules=rules, messages=messages, session_name=name, kept_turns=turns, answer=answer
        )
        return continued, None
    named = body.conversation if isinstance(body.conversation, str) else (body.conversation or {}).get("id")
    name, is_raw_key = session_name_of(request, str(named) if named else None)
    # An unnamed session gets a new name, so that its response can be continued.
    fresh = name or conversations.new_id()
    return (
        Conversation(
            rules=rules, messages=messages, session_name=fresh, is_raw_key=is_raw_key, answer=answer
        ),
        str(named) if named else None,
    )


async def _stream(
    events: AsyncGenerator[Event, None], response: ResponseObject
) -> AsyncIterator[dict[str, Any]]:
    """The events of the protocol; the last is `response.completed`, or `response.failed` with a `status`."""
    yield {"type": "response.created", "response": response.as_json("in_progress")}
    yield {"type": "response.in_progress", "response": response.as_json("in_progress")}
    arguments: dict[str, str] = {}
    text, is_open, usage = "", False, Usage()
    async with aclosing(events):
        async for event in events:
            number = len(response.output)
            if isinstance(event, TextStreamed | AnswerDiscarded):
                piece = event.text if isinstance(event, TextStreamed) else RESTART_NOTICE
                for item in () if is_open else message_start_events(number):
                    yield item
                is_open, text = True, text + piece
                yield text_delta(piece, number)
            elif isinstance(event, ToolStarted):
                arguments[event.call_id] = event_data(dict(event.arguments))
            elif isinstance(event, ToolEnded):
                for item in _finish_message(response, text) if is_open else ():
                    yield item
                text, is_open = "", False
                call = call_item(event, arguments.get(event.call_id, "{}"))
                for kind in ("added", "done"):
                    yield {
                        "type": f"response.output_item.{kind}",
                        "output_index": len(response.output),
                        "item": call,
                    }
                response.output.append(call)
            elif isinstance(event, TurnFailed):
                status, failure = failure_response(event.error)
                error = {"code": "server_error", "message": failure["error"]["message"]}
                yield {
                    "type": "response.failed",
                    "response": response.as_json("failed", error=error),
                    "status": status,
                }
                return
            elif (final := final_answer(event)) is not None:
                usage = final[1] or usage
                if final[0] and not is_open:  # the answer to a command is not streamed
                    for item in message_start_events(number):
                        yield item
                    is_open, text = True, final[0]
                    yield text_delta(text, number)
    for item in _finish_message(response, text) if is_open else ():
        yield item
    yield {"type": "response.completed", "response": response.as_json("completed", usage)}


def _finish_message(response: ResponseObject, text: str) -> list[dict[str, Any]]:
    number = len(response.output)
    response.output.append(message_item(text, number))
    return list(message_end_events(text, number))


async def _numbered(items: AsyncIterator[dict[str, Any]]) -> AsyncIterator[dict[str, str]]:
    number = 0
    async for item in items:
        fields = {name: value for name, value in item.items() if name != "status"}
        yield {"event": str(item["type"]), "data": event_data({**fields, "sequence_number": number})}
        number += 1


MOST_TEXTS = 2048
"""OpenAI's limit."""
Handler = Callable[[Request], Awaitable[Response]]


async def list_models(conversations: Conversations, request: Request) -> Response:
    """The model IDs of this token: its agent, and that agent's model alone."""
    agent_id = caller_of(request.scope).agent_id
    names = (agent_id, f"{agent_id}/{PLAIN}") if agent_id in conversations.agents else ()
    return JSONResponse({"object": "list", "data": [_model(name) for name in names]})


async def one_model(conversations: Conversations, request: Request) -> Response:
    """One model. Raises `BadRequest`."""
    name = str(request.path_params["model"])
    requested_model(conversations.agents, request, name)
    return JSONResponse(_model(name))


async def create_embeddings(embedders: Mapping[str, Embedder], request: Request) -> Response:
    """Vectors of the agent's embedder. Raises `BadRequest`."""
    body = await body_of(request, EmbeddingsRequest)
    agent_id = caller_of(request.scope).agent_id
    embedder = embedders.get(agent_id)
    if embedder is None:
        raise BadRequest("This agent has no embedder.", "model")
    texts = [body.input] if isinstance(body.input, str) else body.input
    if not 0 < len(texts) <= MOST_TEXTS or not all(texts):
        raise BadRequest(
            f"`input` must be a text or a list of 1 to {MOST_TEXTS} texts, none of them empty.", "input"
        )
    try:
        vectors = await embedder.embed_documents(texts)
    except EmbeddingFailed as error:
        return JSONResponse(error_json(str(error), "server_error"), status_code=502)
    if body.dimensions is not None and any(len(vector) != body.dimensions for vector in vectors):
        raise BadRequest(
            f"The model's vectors have {len(vectors[0])} dimensions; no other length is available.",
            "dimensions",
        )
    encoded = _packed if body.encoding_format == "base64" else lambda vector: list(map(float, vector))
    data = [
        {"object": "embedding", "index": index, "embedding": encoded(vector)}
        for index, vector in enumerate(vectors)
    ]
    # Tokens are not counted: nobody is billed by them here.
    usage = {"prompt_tokens": 0, "total_tokens": 0}
    return JSONResponse({"object": "list", "data": data, "model": embedder.facts.model, "usage": usage})


def _packed(vector: Any) -> str:
    """The numbers as OpenAI encodes them: 32-bit floats, little-endian, in base64."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "nacre"}


def openai_mount(
    agents: Mapping[str, Agent],
    embedders: Mapping[str, Embedder],
    runner: TurnRunner,
    *,
    now: Clock,
    new_id: NewId,
) -> HttpMount:
    """The mount for these agents, by ID, whose turns `runner` runs.

    `embedders` has an entry for each agent with an embedder.
    """
    conversations = Conversations(agents, runner, now=now, new_id=new_id)
    handlers: Sequence[tuple[str, str, Handler]] = (
        ("POST", "/chat/completions", partial(chat_completions, conversations)),
        ("POST", "/responses", partial(create_response, conversations)),
        ("GET", "/models", partial(list_models, conversations)),
        ("GET", "/models/{model:path}", partial(one_model, conversations)),
        ("POST", "/embeddings", partial(create_embeddings, embedders)),
        ("POST", "/{path:path}", _unknown),
    )
    routes = [Route(path, _with_protocol_errors(each), methods=[method]) for method, path, each in handlers]
    return HttpMount(path="/v1", routes=routes)


async def _unknown(request: Request) -> Response:
    raise BadRequest(f"There is no {request.url.path} here, but /v1/chat/completions is.", status=404)


def _with_protocol_errors(handler: Handler) -> Handler:
    async def handle(request: Request) -> Response:
        try:
            return await handler(request)
        except BadRequest as error:
            return JSONResponse(error_json(str(error), parameter=error.parameter), status_code=error.status)
        except AgentError as error:
            status, failure = failure_response(error)
            return JSONResponse(failure, status_code=status)
        except SessionError as error:
            log.error("a session cannot be used: %s", error)
            return JSONResponse(error_json(str(error), "server_error"), status_code=503)

    return handle
