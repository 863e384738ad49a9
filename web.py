"""A web chat for your own Starlette or FastAPI app: `app.mount("/chat", chat_router(runtime, user=…))`.

It needs the extra `serve`. A private message goes to the user's own assistant, a message in a group to the
default agent of the runtime, which is told who speaks.

- `POST /messages` runs a turn. The body is JSON: a `text`, and the name of a `session` or of a `group`;
  without a name it is the main session. The answer is a stream of server-sent events.
- `GET /messages` returns the messages of a `session` or a `group` as JSON.
- `POST /stop` stops what runs in a `session` or a `group`.

The events are `text` (`{"text"}`), `discarded`, `tool` (`{"id", "name", "state", "text"}`), and one of
`reply` (`{"text", "session"}`), `silence` and `error` (`{"message"}`) at the end. A group sees no tools,
because they may show private data of the owner. Leaving the stream stops the turn. A body that is not JSON is
refused, so that no page of another site can post one.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from inspect import isawaitable
from typing import Any

from sse_starlette.event import ServerSentEvent
from sse_starlette.sse import EventSourceResponse
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, Router

from nacre.record import Record
from nacre.runtime.agent.agent import Agent
from nacre.runtime.agent.runtime import Runtime
from nacre.runtime.contracts.errors import AgentError, TurnBroken
from nacre.runtime.contracts.events import (
    AnswerDiscarded,
    Event,
    ReplyReady,
    Silence,
    TextStreamed,
    ToolEnded,
    ToolProgressed,
    ToolStarted,
    TurnFailed,
)
from nacre.runtime.contracts.inbound import Inbound
from nacre.sessions.contracts.errors import SessionError, SessionKeyInvalid, SessionNotFound
from nacre.sessions.contracts.keys import owners_key

CHANNEL = "web"
MOST_BODY_BYTES = 1 << 20
MOST_MESSAGES = 500
"""How many messages `GET /messages` returns at most."""


class WebUser(Record):
    """Who sends a request: an id that never changes, and a name for others to read."""

    id: str
    name: str = ""


FindUser = Callable[[Request], "WebUser | str | Awaitable[WebUser | str | None] | None"]


def chat_router(
    runtime: Runtime, *, user: FindUser, groups: Callable[[str, str], bool] = lambda _user, _group: False
) -> Router:
    """An ASGI app with the requests above.

    `user` says who sends a request, from a cookie or a header that your app has checked; `None` is answered
    with 401. `groups` says whether the user with an id may read and write a group; nobody may by default.
    """
    chat = _Chat(runtime, user, groups)
    return Router(
        [
            Route("/messages", chat.send, methods=["POST"]),
            Route("/messages", chat.history, methods=["GET"]),
            Route("/stop", chat.stop, methods=["POST"]),
        ]
    )


class _Chat:
    def __init__(self, runtime: Runtime, user: FindUser, groups: Callable[[str, str], bool]) -> None:
        self._runtime = runtime
        self._user = user
        self._groups = groups

    async def send(self, request: Request) -> Response:
        user, body = await self._who(request), await _body(request)
        inbound = self._inbound(user, body, text=_text(body, "text"))
        if not inbound.text.strip():
            raise HTTPException(422, "The message has no text.")
        return EventSourceResponse(self._events(user, inbound), headers={"Cache-Control": "no-store"})

    async def history(self, request: Request) -> Response:
        user = await self._who(request)
        inbound = self._inbound(user, dict(request.query_params))
        async with self._agent(user, inbound) as agent:
            try:
                session = await agent.sessions.get(agent.session_key(inbound))
                messages = await session.history(limit=MOST_MESSAGES)
            except SessionNotFound:
                messages = ()
            except (AgentError, SessionError) as error:
                raise HTTPException(422, str(error)) from error
        shown = [
            {"speaker": each.speaker, "text": each.text, "at": each.said_at.isoformat()} for each in messages
        ]
        return JSONResponse(shown, headers={"Cache-Control": "no-store"})

    async def stop(self, request: Request) -> Response:
        user = await self._who(request)
        inbound = self._inbound(user, await _body(request))
        async with self._agent(user, inbound) as agent:
            return JSONResponse({"stopped": agent.stop(inbound)})

    async def _events(self, user: WebUser, inbound: Inbound) -> AsyncGenerator[ServerSentEvent, None]:
        try:
            async with self._agent(user, inbound) as agent, aclosing(agent.stream(inbound)) as events:
                async for event in events:
                    shown = _event_data(event)
                    if shown and not (shown[0] == "tool" and inbound.chat_kind == "group"):
                        yield ServerSentEvent(json.dumps(shown[1], ensure_ascii=False), event=shown[0])
        except AgentError as error:
            yield ServerSentEvent(json.dumps({"message": str(error)}, ensure_ascii=False), event="error")

    @asynccontextmanager
    async def _agent(self, user: WebUser, inbound: Inbound) -> AsyncIterator[Agent]:
        if inbound.chat_kind == "group":
            yield await self._runtime.agent()
        else:
            async with self._runtime.user(user.id) as agent:
                yield agent

    async def _who(self, request: Request) -> WebUser:
        found = self._user(request)
        who = await found if isawaitable(found) else found
        if not who or (isinstance(who, WebUser) and not who.id.strip()):
            raise HTTPException(401, "Nobody is signed in.")
        return WebUser(id=who) if isinstance(who, str) else who

    def _inbound(self, user: WebUser, body: dict[str, Any], *, text: str = "") -> Inbound:
        group, session = _text(body, "group"), _text(body, "session").strip()
        if not group:
            if ":" in session:
                raise HTTPException(422, "A session has a plain name, without a colon.")
            try:
                owners_key(session or "main", agent_id=user.id)
            except SessionKeyInvalid as error:
                raise HTTPException(422, str(error)) from error
            return Inbound(
                text=text,
                chat_kind="direct",
                channel=CHANNEL,
                sender_id=user.id,
                sender_name=user.name,
                is_owner=True,
                session_key=session,
            )
        if not self._groups(user.id, group):
            raise HTTPException(403, "You are not in this group.")
        return Inbound(
            text=text,
            chat_kind="group",
            channel=CHANNEL,
            chat_id=group,
            sender_id=user.id,
            sender_name=user.name or user.id,
            is_mentioned=True,
        )


def _event_data(event: Event) -> tuple[str, dict[str, Any]] | None:
    match event:
        case TextStreamed(text=text):
            return "text", {"text": text}
        case AnswerDiscarded():
            return "discarded", {}
        case ToolStarted():
            return "tool", _tool(event.call_id, event.tool_name, "started", "")
        case ToolProgressed():
            return "tool", _tool(event.call_id, event.tool_name, "running", event.text)
        case ToolEnded():
            state = "failed" if event.is_error else "done"
            return "tool", _tool(event.call_id, event.tool_name, state, "")
        case ReplyReady(reply=reply):
            return "reply", {"text": reply.text, "session": reply.session_key}
        case Silence():
            return "silence", {}
        case TurnFailed(error=error):
            # an unexpected error may name files of the server
            text = "The turn broke off." if isinstance(error, TurnBroken) else str(error)
            return "error", {"message": text}
        case _:
            return None  # for the owner of the server


def _tool(call_id: str, name: str, state: str, text: str) -> dict[str, Any]:
    return {"id": call_id, "name": name, "state": state, "text": text}


async def _body(request: Request) -> dict[str, Any]:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "Send JSON, with the content type application/json.")
    read = bytearray()
    async for piece in request.stream():
        read += piece
        if len(read) > MOST_BODY_BYTES:
            raise HTTPException(413, f"A message has at most {MOST_BODY_BYTES} bytes.")
    try:
        body = json.loads(bytes(read))
    except (ValueError, RecursionError) as error:
        raise HTTPException(422, "The body is not JSON.") from error
    if not isinstance(body, dict):
        raise HTTPException(422, "The body is not a JSON object.")
    return body


def _text(body: dict[str, Any], name: str) -> str:
    value = body.get(name, "")
    if not isinstance(value, str):
        raise HTTPException(422, f"{name} is not text.")
    return value
