"""The chat: the sessions of the terminal, streamed answers, files, and stopping."""

from __future__ import annotations

from collections.abc import AsyncIterator

from sse_starlette.event import ServerSentEvent
from sse_starlette.sse import EventSourceResponse
from starlette.datastructures import UploadFile
from starlette.responses import RedirectResponse, Response

from nacre.extensions.http.page.access import HEADERS
from nacre.extensions.http.page.transcript import LiveTurn, items_of
from nacre.extensions.http.page.visit import Visit
from nacre.runtime.contracts.ids import random_id
from nacre.runtime.contracts.inbound import Attachment, Inbound
from nacre.sessions.contracts.errors import SessionNotFound

SHOWN_ITEMS = 80
CHANNEL = "page"


async def chat(visit: Visit) -> Response:
    """The current session of a key and its running turns."""
    home = visit.home
    key = home.agent.session_key(_inbound(visit.query_value("session", "main")))
    try:
        session, transcript = await home.session(key)
    except SessionNotFound:
        session, transcript = None, None
    items = items_of(transcript.branch, home.now().tzinfo) if transcript else ()
    running = visit.site.turns.running(key)
    # A running turn is shown separately; leave out its message and partial answer.
    if running:
        last = max((at for at, item in enumerate(items) if item.kind == "person"), default=len(items))
        items = items[:last] if last < len(items) and items[last].text == running[0].message else items
    return visit.page(
        "chat.html",
        key=key,
        session=session,
        items=items[-SHOWN_ITEMS:],
        has_more=len(items) > SHOWN_ITEMS,
        running=running,
        keys=[each.key for each in await home.sessions() if each.is_current],
        commands=home.agent.commands(_inbound(key)),
        model_name=home.agent.model_name,
    )


async def say(visit: Visit) -> Response:
    files = [each for each in visit.form.getlist("files") if isinstance(each, UploadFile) and each.filename]
    attachments = tuple([await _attachment(each) for each in files])
    inbound = _inbound(visit.field("session"), visit.field("text").strip(), attachments)
    if not inbound.text and not attachments:
        return Response(status_code=204, headers=HEADERS)
    turn = LiveTurn(
        id=random_id(),
        key=visit.home.agent.session_key(inbound),
        message=inbound.text,
        files=tuple(each.name for each in attachments),
    )
    visit.site.turns.begin(turn, visit.home.agent, inbound)
    return visit.part("live_turn", turn, visit.login.form_key)


async def stop(visit: Visit) -> Response:
    visit.home.agent.stop(visit.field("session"))
    return Response(status_code=204, headers=HEADERS)


async def approve(visit: Visit) -> Response:
    """Answers a tool call that waits for the owner, like the chat command."""
    verb = "approve" if visit.field("answer") == "approve" else "deny"
    key = visit.field("session")
    inbound = _inbound(key, f"/{verb} {visit.field('approval')}")
    turn = LiveTurn(id=random_id(), key=visit.home.agent.session_key(inbound), message=inbound.text)
    visit.site.turns.begin(turn, visit.home.agent, inbound)
    return visit.part("live_turn", turn, visit.login.form_key)


async def events(visit: Visit) -> Response:
    """The updates of a turn; the last event is `close`."""
    turn = visit.site.turns.get(visit.request.path_params["turn"])
    return EventSourceResponse(_updates(visit, turn), headers=HEADERS)


async def to_chat(_visit: Visit) -> Response:
    return RedirectResponse("/chat", status_code=303, headers=HEADERS)


async def _updates(visit: Visit, turn: LiveTurn | None) -> AsyncIterator[ServerSentEvent]:
    pages, sent = visit.site.pages, {"tools": "", "answer": "", "notes": ""}
    if turn is not None:
        async for current in visit.site.turns.changes(turn.id):
            parts = {
                "tools": pages.macro("tool_lines", list(current.tools.values())),
                "answer": pages.macro("answer", current),
                "notes": pages.macro("turn_notes", current, visit.login.form_key),
            }
            for name, html in parts.items():
                if sent[name] != html:
                    sent[name] = html
                    yield ServerSentEvent(event=name, data=html)
    yield ServerSentEvent(event="close", data="ended")


async def _attachment(file: UploadFile) -> Attachment:
    kind = file.content_type or "application/octet-stream"
    return Attachment(name=file.filename or "file", mime_type=kind, data=await file.read())


def _inbound(session: str, text: str = "", attachments: tuple[Attachment, ...] = ()) -> Inbound:
    return Inbound(
        text=text,
        chat_kind="direct",
        channel=CHANNEL,
        is_owner=True,
        session_key=session,
        attachments=attachments,
    )
