"""The chat: the same sessions as in the terminal, answers as they come, files, a stop."""

from __future__ import annotations

from collections.abc import AsyncIterator

from sse_starlette.event import ServerSentEvent
from sse_starlette.sse import EventSourceResponse
from starlette.datastructures import UploadFile
from starlette.responses import RedirectResponse, Response

from nacre.extensions.http.page.access import HEADERS
from nacre.extensions.http.page.live_turn import LiveTurn
from nacre.extensions.http.page.transcript_items import items_of
from nacre.extensions.http.page.visit import Visit
from nacre.runtime.contracts.ids import random_id
from nacre.runtime.contracts.inbound import Attachment, Inbound
from nacre.sessions.contracts.errors import SessionNotFound

SHOWN_ITEMS = 80
CHANNEL = "page"


async def chat(visit: Visit) -> Response:
    """The present session of a key, with what is being answered in it."""
    home = visit.home
    key = home.agent.session_key(_inbound(visit.asked("session", "main")))
    try:
        session, transcript = await home.session(key)
    except SessionNotFound:
        session, transcript = None, None
    items = items_of(transcript.branch, home.now().tzinfo) if transcript else ()
    running = visit.site.turns.running(key)
    # What is being answered is shown by its own part, which the transcript has in part already.
    if running:
        last = max((at for at, item in enumerate(items) if item.kind == "person"), default=len(items))
        items = items[:last] if last < len(items) and items[last].text == running[0].said else items
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
    """Takes what was said, and shows the turn that answers it."""
    files = [each for each in visit.form.getlist("files") if isinstance(each, UploadFile) and each.filename]
    attachments = tuple([await _attachment(each) for each in files])
    inbound = _inbound(visit.field("session"), visit.field("text").strip(), attachments)
    if not inbound.text and not attachments:
        return Response(status_code=204, headers=HEADERS)
    turn = LiveTurn(
        id=random_id(),
        key=visit.home.agent.session_key(inbound),
        said=inbound.text,
        files=tuple(each.name for each in attachments),
    )
    visit.site.turns.begin(turn, visit.home.agent, inbound)
    return visit.part("live_turn", turn, visit.login.form_key)


async def stop(visit: Visit) -> Response:
    """Stops what runs in a session."""
    visit.home.agent.stop(visit.field("session"))
    return Response(status_code=204, headers=HEADERS)


async def approve(visit: Visit) -> Response:
    """Answers a tool call that waits for the owner, as if it were said in the chat."""
    verb = "approve" if visit.field("answer") == "approve" else "deny"
    key = visit.field("session")
    inbound = _inbound(key, f"/{verb} {visit.field('approval')}")
    turn = LiveTurn(id=random_id(), key=visit.home.agent.session_key(inbound), said=inbound.text)
    visit.site.turns.begin(turn, visit.home.agent, inbound)
    return visit.part("live_turn", turn, visit.login.form_key)


async def events(visit: Visit) -> Response:
    """A turn as it goes on; it ends with `close`."""
    turn = visit.site.turns.of(visit.request.path_params["turn"])
    return EventSourceResponse(_pictures(visit, turn), headers=HEADERS)


async def to_chat(_visit: Visit) -> Response:
    """The first page is the chat."""
    return RedirectResponse("/chat", status_code=303, headers=HEADERS)


async def _pictures(visit: Visit, turn: LiveTurn | None) -> AsyncIterator[ServerSentEvent]:
    pages, told = visit.site.pages, {"tools": "", "answer": "", "notes": ""}
    if turn is not None:
        async for now in visit.site.turns.changes(turn.id):
            drawn = {
                "tools": pages.macro("tool_lines", list(now.tools.values())),
                "answer": pages.macro("answer", now),
                "notes": pages.macro("turn_notes", now, visit.login.form_key),
            }
            for name, html in drawn.items():
                if told[name] != html:
                    told[name] = html
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
