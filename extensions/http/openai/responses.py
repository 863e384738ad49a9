"""`/v1/responses`: a turn of the agent that can be gone on from by its id, or in a named conversation."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

from sse_starlette import EventSourceResponse
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from nacre.extensions.http.openai.answers import BEGINS_ANEW, ending_of, error_json, event_data, failure_of
from nacre.extensions.http.openai.asking import Conversation, Talks, asked_agent, session_of
from nacre.extensions.http.openai.completions import PING_SECONDS
from nacre.extensions.http.openai.plain import plain_events
from nacre.extensions.http.openai.response_objects import (
    ResponseObject,
    begun_message,
    call_item,
    ended_message,
    message_item,
    place_of,
    response_id,
    text_delta,
)
from nacre.extensions.http.openai.wire import (
    BadRequest,
    ResponsesRequest,
    body_of,
    conversation_of,
    messages_of,
)
from nacre.runtime.contracts.clock import epoch_ms
from nacre.runtime.contracts.events import (
    AnswerDiscarded,
    Event,
    TextStreamed,
    ToolEnded,
    ToolStarted,
    TurnFailed,
)
from nacre.runtime.extensions.service import caller_of
from nacre.sessions.contracts.messages import Usage


async def create_response(talks: Talks, request: Request) -> Response:
    """Answers one request of a client. Raises `BadRequest`."""
    asked = await body_of(request, ResponsesRequest)
    agent = asked_agent(talks.agents, request, asked.model)
    talk, named = _talk(talks, request, asked)
    response = ResponseObject(
        id="",
        created_seconds=epoch_ms(talks.now()) // 1000,
        model=agent.model_id,
        previous=asked.previous_response_id,
        conversation=named,
    )
    if agent.is_plain:
        response.id = f"resp_{talks.new_id()}"
        events = plain_events(agent.agent, talk, asked.max_output_tokens, at_ms=epoch_ms(talks.now()))
    else:
        begun = await talks.begin(agent.agent, caller_of(request.scope), talk)
        response.id = response_id(begun.turns_before + 1, talk.session_name)
        events = agent.agent.stream(begun.inbound)
    if asked.stream:
        return EventSourceResponse(_numbered(_stream(events, response)), ping=PING_SECONDS)
    last: dict[str, Any] = {}
    async for item in _stream(events, response):
        last = item
    if last["type"] == "response.failed":
        return JSONResponse(
            error_json(last["response"]["error"]["message"], "server_error"), status_code=last["status"]
        )
    return JSONResponse(last["response"])


def _talk(talks: Talks, request: Request, asked: ResponsesRequest) -> tuple[Conversation, str | None]:
    rules, said = conversation_of(messages_of(asked))
    if asked.previous_response_id is not None:
        place = place_of(asked.previous_response_id)
        if place is None:
            raise BadRequest(
                f"{asked.previous_response_id!r} is no response of this server.",
                "previous_response_id",
                status=404,
            )
        return Conversation(rules=rules, said=said, session_name=place[1], kept_turns=place[0]), None
    named = (
        asked.conversation if isinstance(asked.conversation, str) else (asked.conversation or {}).get("id")
    )
    name, is_raw_key = session_of(request, str(named) if named else None)
    # Without a name the session gets one of its own: its response may be gone on from.
    fresh = name or talks.new_id()
    return (
        Conversation(rules=rules, said=said, session_name=fresh, is_raw_key=is_raw_key),
        str(named) if named else None,
    )


async def _stream(
    events: AsyncGenerator[Event, None], response: ResponseObject
) -> AsyncIterator[dict[str, Any]]:
    """The protocol's events; the last is `response.completed`, or `response.failed` with a `status`."""
    yield {"type": "response.created", "response": response.as_json("in_progress")}
    yield {"type": "response.in_progress", "response": response.as_json("in_progress")}
    arguments: dict[str, str] = {}
    text, is_open, usage = "", False, Usage()
    async with aclosing(events):
        async for event in events:
            number = len(response.output)
            if isinstance(event, TextStreamed | AnswerDiscarded):
                piece = event.text if isinstance(event, TextStreamed) else BEGINS_ANEW
                for item in () if is_open else begun_message(number):
                    yield item
                is_open, text = True, text + piece
                yield text_delta(piece, number)
            elif isinstance(event, ToolStarted):
                arguments[event.call_id] = event_data(dict(event.arguments))
            elif isinstance(event, ToolEnded):
                for item in _closed(response, text) if is_open else ():
                    yield item
                text, is_open = "", False
                called = call_item(event, arguments.get(event.call_id, "{}"))
                for kind in ("added", "done"):
                    yield {
                        "type": f"response.output_item.{kind}",
                        "output_index": len(response.output),
                        "item": called,
                    }
                response.output.append(called)
            elif isinstance(event, TurnFailed):
                status, body = failure_of(event.error)
                error = {"code": "server_error", "message": body["error"]["message"]}
                yield {
                    "type": "response.failed",
                    "response": response.as_json("failed", error=error),
                    "status": status,
                }
                return
            elif (ended := ending_of(event)) is not None:
                usage = ended[1] or usage
                if ended[0] and not is_open:  # commands are answered at once
                    for item in begun_message(number):
                        yield item
                    is_open, text = True, ended[0]
                    yield text_delta(text, number)
    for item in _closed(response, text) if is_open else ():
        yield item
    yield {"type": "response.completed", "response": response.as_json("completed", usage)}


def _closed(response: ResponseObject, text: str) -> list[dict[str, Any]]:
    number = len(response.output)
    response.output.append(message_item(text, number))
    return list(ended_message(text, number))


async def _numbered(items: AsyncIterator[dict[str, Any]]) -> AsyncIterator[dict[str, str]]:
    number = 0
    async for item in items:
        told = {name: value for name, value in item.items() if name != "status"}
        yield {"event": str(item["type"]), "data": event_data({**told, "sequence_number": number})}
        number += 1
