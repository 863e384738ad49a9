"""The views of conversations: the chat, all sessions, one transcript, the next request, and the search."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial
from urllib.parse import quote

from sse_starlette.event import ServerSentEvent
from sse_starlette.sse import EventSourceResponse
from starlette.datastructures import UploadFile
from starlette.responses import RedirectResponse, Response

from nacre.extensions.http.page.access import HEADERS, Refused
from nacre.extensions.http.page.charts import HEIGHT, PARTS, WIDTH, context_picture
from nacre.extensions.http.page.transcript import LiveTurn, items_of
from nacre.extensions.http.page.visit import MOST_FILE_BYTES, Visit, conversations_by_day
from nacre.memory.contracts.errors import MemoryIndexError
from nacre.memory.contracts.records import HitExplanation
from nacre.runtime.agent.insight.timeline import timeline
from nacre.runtime.commands.conversation.word_search import sessions_with
from nacre.runtime.contracts.clock import random_id
from nacre.runtime.contracts.events import TurnFailed
from nacre.runtime.contracts.inbound import Attachment, Inbound
from nacre.runtime.providers.opening import budget_of, has_price
from nacre.sessions.contracts.errors import SessionNotFound
from nacre.sessions.index.record import model_override

SHOWN_ITEMS = 80
TRANSCRIPT_ITEMS = 400
MOST_SESSIONS = 300
MOST_WORDS = 12
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
    is_new = transcript is None
    return await visit.page(
        "chat.html",
        active=session.session_id if session else "",
        key=key,
        title="" if session is None or is_new else (await home.titles([session]))[session.session_id],
        session=session,
        items=items[-SHOWN_ITEMS:],
        has_more=len(items) > SHOWN_ITEMS,
        running=running,
        commands=home.agent.commands(_inbound(key)),
        model_name=(model_override(session.record) if session else "") or home.agent.model_name,
        models=home.agent.sessions.chosen.names,
        is_offline=home.agent.is_offline,
    )


async def to_chat(_visit: Visit) -> Response:
    return RedirectResponse("/chat", status_code=303, headers=HEADERS)


async def new_chat(visit: Visit) -> Response:
    """Opens a private conversation under a name that is not used yet; it begins with its first message."""
    return RedirectResponse(f"/chat?session={visit.home.new_name()}", status_code=303, headers=HEADERS)


async def resume(visit: Visit) -> Response:
    """Continues an ended session under its key, like the chat command."""
    found, _transcript = await visit.home.session(visit.request.path_params["session"])
    inbound = _inbound(found.key, f"/resume {found.session_id}")
    async with aclosing(visit.site.turns.runner.stream(visit.home.agent, inbound)) as events:
        async for event in events:
            if isinstance(event, TurnFailed):
                raise event.error
    return RedirectResponse(f"/chat?session={quote(found.key)}", status_code=303, headers=HEADERS)


async def say(visit: Visit) -> Response:
    files = [each for each in visit.form.getlist("files") if isinstance(each, UploadFile) and each.filename]
    if large := next((each.filename for each in files if (each.size or 0) > MOST_FILE_BYTES), None):
        raise Refused(f"{large} has more than {MOST_FILE_BYTES >> 20} MB. Nothing was sent.", 413)
    attachments = tuple([await _attachment(each) for each in files])
    inbound = _inbound(visit.field("session"), visit.field("text").strip(), attachments)
    if not inbound.text and not attachments:
        return Response(status_code=204, headers=HEADERS)
    return _begin(visit, inbound)


def _begin(visit: Visit, inbound: Inbound) -> Response:
    key, files = visit.home.agent.session_key(inbound), tuple(each.name for each in inbound.attachments)
    turn = LiveTurn(id=random_id(), key=key, message=inbound.text, files=files)
    visit.site.turns.begin(turn, visit.home.agent, inbound)
    return visit.part("live_turn", turn, visit.login.form_key)


async def stop(visit: Visit) -> Response:
    visit.site.turns.runner.stop(visit.home.agent, _inbound(visit.field("session")))
    return Response(status_code=204, headers=HEADERS)


async def approve(visit: Visit) -> Response:
    """Answers a tool call that waits for the owner, like the chat command."""
    verb = "approve" if visit.field("answer") == "approve" else "deny"
    return _begin(visit, _inbound(visit.field("session"), f"/{verb} {visit.field('approval')}"))


async def events(visit: Visit) -> Response:
    """The updates of a turn; the last event is `close`."""
    turn = visit.site.turns.get(visit.request.path_params["turn"])
    return EventSourceResponse(_updates(visit, turn), headers=HEADERS)


async def _updates(visit: Visit, turn: LiveTurn | None) -> AsyncIterator[ServerSentEvent]:
    pages = visit.site.pages
    sent: dict[str, str] = {}  # first the whole state: the page may show what the turn was when it began
    if turn is not None:
        async for current in visit.site.turns.changes(turn.id):
            parts = {
                "tools": pages.macro("tool_lines", list(current.tools.values())),
                "answer": pages.macro("answer", current),
                "notes": pages.macro("turn_notes", current, visit.login.form_key),
            }
            for name, html in parts.items():
                if sent.get(name) != html:
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


async def sessions(visit: Visit) -> Response:
    """All sessions by day."""
    listed = await visit.home.sessions()
    shown = listed[:MOST_SESSIONS]
    return await visit.page(
        "sessions.html",
        groups=await conversations_by_day(visit.home, shown),
        words=await visit.home.last_words(shown),
        more=len(listed) - len(shown),
        view="sessions",
    )


async def session(visit: Visit) -> Response:
    """One session: its chart and its whole transcript, or the part of it with the entry `entry`."""
    home = visit.home
    found, transcript = await home.session(visit.request.path_params["session"])
    branch = transcript.branch if transcript else ()
    items = items_of(branch, home.now().tzinfo)
    offset, wanted = visit.query_value("from", "0"), visit.query_value("entry")
    start = int(offset) if offset.isascii() and offset.isdigit() else 0
    place = next((at for at, item in enumerate(items) if wanted and item.entry_id == wanted), start)
    start = start if place == start else place // TRANSCRIPT_ITEMS * TRANSCRIPT_ITEMS
    budget = await budget_of(home.config, home.now)
    drawn = timeline(branch, budget, has_price=partial(has_price, home.config))
    return await visit.page(
        "session.html",
        active=found.session_id,
        title=(await home.titles([found]))[found.session_id],
        session=found,
        active_at=home.moment(found.active_at_ms),
        items=items[start : start + TRANSCRIPT_ITEMS],
        since=start,
        total=len(items),
        step=TRANSCRIPT_ITEMS,
        wanted=wanted,
        picture=context_picture(drawn),
        parts_of_bars=PARTS,
        width=WIDTH,
        height=HEIGHT,
    )


async def context(visit: Visit) -> Response:
    key = visit.query_value("session", "main")
    current = [each for each in await visit.home.sessions() if each.is_current]
    try:
        view = await (await visit.home.agent.sessions.get(key)).context()
    except SessionNotFound:
        view = None
    titles = await visit.home.titles(current[:MOST_SESSIONS])
    choices = [(each.key, titles[each.session_id]) for each in current[:MOST_SESSIONS]]
    return await visit.page("context.html", key=key, view=view, choices=choices)


async def search(visit: Visit) -> Response:
    """The notes and the conversations that have the words of a query."""
    query = visit.query_value("q").strip()
    words = query.split()[:MOST_WORDS]
    problem, report = "", None
    if query:
        try:
            report = await visit.home.search(query)
        except MemoryIndexError as error:  # the conversations can still be searched
            problem = str(error)
    found = await sessions_with(visit.home.store, words)
    titles = await visit.home.titles([each.session for each in found])
    return await visit.page(
        "search.html",
        query=query,
        words=words,
        problem=problem,
        report=report,
        hits=[(hit, reason(hit.explain)) for hit in report.hits] if report else [],
        conversations=[
            (each, titles[each.session.session_id], visit.home.moment(each.session.active_at_ms))
            for each in found
        ],
    )


def reason(why: HitExplanation | None) -> str:
    """Why a passage was found, in words."""
    if why is None:
        return ""
    reasons = (
        f"place {why.lexical_rank} by words" if why.lexical_rank else "",
        f"place {why.vector_rank} by meaning (cosine {why.cosine:.2f})"
        if why.vector_rank and why.cosine is not None
        else "",
        f"re-ranked at {why.relevance:.2f}" if why.relevance is not None else "",
        f"age counts ×{why.decay_factor:.2f}" if why.decay_factor != 1 else "",
    )
    return ", ".join(filter(None, reasons))
