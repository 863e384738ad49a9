"""Earlier conversations: a list, a search, a transcript with its picture; and what the model sees now."""

from __future__ import annotations

from starlette.responses import Response

from nacre.extensions.http.page.picture import HEIGHT, PARTS, WIDTH, context_picture
from nacre.extensions.http.page.transcript_items import items_of
from nacre.extensions.http.page.visit import Visit
from nacre.runtime.agent.insight.model_facts import budget_of
from nacre.runtime.agent.insight.timeline import timeline
from nacre.runtime.agent.insight.usage import has_price
from nacre.sessions.contracts.errors import SessionNotFound

SHOWN_ITEMS = 400
MOST_SESSIONS = 200


async def sessions(visit: Visit) -> Response:
    """All sessions, or those in which some words were said."""
    query = visit.asked("q").strip()
    if query:
        found = await visit.home.sessions_with(query)
        rows = [(each.session, each.words) for each in found]
    else:
        listed = (await visit.home.sessions())[:MOST_SESSIONS]
        words = await visit.home.last_words(listed)
        rows = [(each, words.get(each.session_id, "")) for each in listed]
    shown = [(session, said, visit.home.moment(session.active_at_ms)) for session, said in rows]
    return visit.page("sessions.html", query=query, rows=shown)


async def session(visit: Visit) -> Response:
    """One session: its picture, and every word."""
    found, transcript = await visit.home.session(visit.request.path_params["session"])
    branch = transcript.branch if transcript else ()
    items = items_of(branch, visit.home.now().tzinfo)
    since = (
        int(visit.asked("from", "0"))
        if visit.asked("from", "0").isascii() and visit.asked("from", "0").isdigit()
        else 0
    )
    picture = context_picture(
        timeline(branch, await budget_of(visit.home.config, visit.home.now), has_price=has_price)
    )
    return visit.page(
        "session.html",
        session=found,
        active_at=visit.home.moment(found.active_at_ms),
        items=items[since : since + SHOWN_ITEMS],
        since=since,
        total=len(items),
        step=SHOWN_ITEMS,
        picture=picture,
        parts_of_bars=PARTS,
        width=WIDTH,
        height=HEIGHT,
    )


async def context(visit: Visit) -> Response:
    """The next request, part by part."""
    key = visit.asked("session", "main")
    keys = [each.key for each in await visit.home.sessions() if each.is_current]
    try:
        view = await (await visit.home.agent.sessions.get(key)).context()
    except SessionNotFound:
        view = None
    return visit.page("context.html", key=key, view=view, keys=keys)
