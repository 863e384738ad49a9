"""`/v1/chat/completions`: a turn of the agent, or its model alone, streamed or whole."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from sse_starlette import EventSourceResponse
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from nacre.extensions.http.openai.answers import (
    BEGINS_ANEW,
    Completion,
    delta_of,
    ending_of,
    error_json,
    event_data,
    failure_of,
    told_of,
)
from nacre.extensions.http.openai.asking import Asked, Conversation, Talks, asked_agent, session_of
from nacre.extensions.http.openai.plain import plain_events
from nacre.extensions.http.openai.wire import ChatRequest, body_of, conversation_of
from nacre.runtime.contracts.clock import epoch_ms
from nacre.runtime.contracts.events import AnswerDiscarded, Event, TextStreamed, TurnFailed
from nacre.runtime.extensions.service import caller_of
from nacre.sessions.contracts.messages import Usage

PING_SECONDS = 15


async def chat_completions(talks: Talks, request: Request) -> Response:
    """Answers one request of a client. Raises `BadRequest`."""
    asked = await body_of(request, ChatRequest)
    agent = asked_agent(talks.agents, request, asked.model)
    rules, said = conversation_of(asked.messages)
    name, is_raw_key = session_of(request, asked.user)
    talk = Conversation(rules=rules, said=said, session_name=name, is_raw_key=is_raw_key)
    most_tokens = asked.max_completion_tokens or asked.max_tokens
    events = await _events(talks, agent, request, talk, most_tokens)
    completion = Completion(
        id=f"chatcmpl-{talks.new_id()}", created_seconds=epoch_ms(talks.now()) // 1000, model=agent.model_id
    )
    if not asked.stream:
        return await _whole(events, completion)
    wants_usage = asked.stream_options is not None and asked.stream_options.include_usage
    return EventSourceResponse(_chunks(events, completion, wants_usage=wants_usage), ping=PING_SECONDS)


async def _events(
    talks: Talks, asked: Asked, request: Request, talk: Conversation, most_tokens: int | None
) -> AsyncGenerator[Event, None]:
    if asked.is_plain:
        return plain_events(asked.agent, talk, most_tokens, at_ms=epoch_ms(talks.now()))
    begun = await talks.begin(asked.agent, caller_of(request.scope), talk)
    return asked.agent.stream(begun.inbound)


async def _whole(events: AsyncGenerator[Event, None], completion: Completion) -> Response:
    told: list[str] = []
    async with aclosing(events):
        async for event in events:
            told.append(told_of(event))
            if isinstance(event, TurnFailed):
                status, body = failure_of(event.error)
                return JSONResponse(body, status_code=status)
            if (ended := ending_of(event)) is not None:
                return JSONResponse(completion.whole(ended[0], "".join(told), ended[1]))
    return JSONResponse(error_json("The turn ended without an answer.", "server_error"), status_code=502)


async def _chunks(
    events: AsyncGenerator[Event, None], completion: Completion, *, wants_usage: bool
) -> AsyncIterator[dict[str, str]]:
    yield _chunk(completion.chunk({"role": "assistant", "content": ""}))
    streamed, usage = "", Usage()
    async with aclosing(events):
        async for event in events:
            if isinstance(event, TextStreamed | AnswerDiscarded):
                streamed += event.text if isinstance(event, TextStreamed) else BEGINS_ANEW
            if isinstance(event, TurnFailed):
                yield _chunk(failure_of(event.error)[1])
                return
            if (delta := delta_of(event)) is not None:
                yield _chunk(completion.chunk(delta))
            if (ended := ending_of(event)) is not None:
                text, usage = ended[0], ended[1] or usage
                if text and not streamed:  # commands are answered at once
                    yield _chunk(completion.chunk({"content": text}))
    yield _chunk(completion.chunk({}, finish="stop"))
    if wants_usage:
        yield _chunk(completion.usage_chunk(usage))
    yield {"data": "[DONE]"}


def _chunk(value: object) -> dict[str, str]:
    return {"data": event_data(value)}
