"""An authorized request to the page, and what all views share."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, TypeAlias
from urllib.parse import quote

from starlette.datastructures import URL, FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from nacre.extensions.http.page.access import HEADERS, Login, Logins, Refused, check_form
from nacre.extensions.http.page.home import PageHome
from nacre.extensions.http.page.rendering import Pages, day_name
from nacre.extensions.http.page.transcript import LiveTurns
from nacre.memory.contracts.errors import MemoryIndexError, ReadRefused
from nacre.memory.contracts.workspace import FileBusy, PathOutsideRoot
from nacre.memory.workspace.history.undo import HistoryUnusable
from nacre.record import Record
from nacre.runtime.contracts.errors import AgentError
from nacre.runtime.extensions.service import CALLER
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.upkeep.stored_session import StoredSession

log = logging.getLogger(__name__)

SIDEBAR_SESSIONS = 40
SIDEBAR_COOKIE = "nacre_sidebar"
"""Set by the page's script: `folded` for a strip of icons on a desk."""
MOST_FILES = 10
MOST_FILE_BYTES = 20 << 20
REPORTED_ERRORS = (
    *(AgentError, SessionError, MemoryIndexError, ReadRefused, FileBusy, PathOutsideRoot, HistoryUnusable),
    OSError,
)
"""Exceptions whose message is a sentence for the owner."""

HomeOf = Callable[[str], Awaitable[PageHome]]


class Site(Record):
    """The parts that all views share. `home_of` returns the agent of an ID."""

    logins: Logins
    pages: Pages
    turns: LiveTurns
    home_of: HomeOf


class Visit(Record):
    """A request of the owner. `form` is empty unless the request changes something."""

    site: Site
    request: Request
    home: PageHome
    login: Login
    form: FormData

    def query_value(self, name: str, default: str = "") -> str:
        return str(self.request.query_params.get(name, default))

    def field(self, name: str) -> str:
        value = self.form.get(name)
        return value if isinstance(value, str) else ""

    async def page(self, template: str, *, status: int = 200, active: str = "", **values: Any) -> Response:
        """A page with the sidebar, in which the session with the ID `active` is marked."""
        return self.site.pages.response(
            template,
            status=status,
            form_key=self.login.form_key,
            agent_id=self.home.agent.id,
            sidebar=await self._sidebar(),
            active=active,
            is_folded=self.request.cookies.get(SIDEBAR_COOKIE) == "folded",
            **values,
        )

    async def _sidebar(self) -> list[tuple[str, list[ConversationLink]]]:
        try:
            listed = [each for each in await self.home.sessions() if each.transcript][:SIDEBAR_SESSIONS]
        except SessionError:  # the page with all sessions reports it
            return []
        return await conversations_by_day(self.home, listed)

    def part(self, name: str, *values: Any) -> Response:
        return HTMLResponse(self.site.pages.macro(name, *values), headers=HEADERS)


class ConversationLink(Record):
    """A conversation in a list. `channel` is empty if it is one of the terminal or of the page."""

    session_id: str
    title: str
    href: str
    at: datetime
    channel: str
    is_current: bool


async def conversations_by_day(
    home: PageHome, sessions: Sequence[StoredSession]
) -> list[tuple[str, list[ConversationLink]]]:
    """Conversations in the order given, grouped by the day on which they were last active."""
    titles = await home.titles(sessions)
    links = [
        ConversationLink(
            session_id=each.session_id,
            title=titles[each.session_id],
            href=f"/chat?session={quote(each.key)}"
            if each.is_current
            else f"/sessions/{quote(each.session_id)}",
            at=home.moment(each.active_at_ms),
            channel=(each.record.channel or each.record.last_channel or "") if each.record.last_to else "",
            is_current=each.is_current,
        )
        for each in sessions
    ]
    today = home.now().date()
    return [(name, list(run)) for name, run in groupby(links, lambda link: day_name(link.at, today))]


View: TypeAlias = Callable[[Visit], Awaitable[Response]]


def owner_view(site: Site, view: View) -> Callable[[Request], Awaitable[Response]]:
    """Makes a handler for the owner only; exceptions with a sentence become a page."""

    async def handler(request: Request) -> Response:
        try:
            holder, login = site.logins.holder(request)
            request.scope[CALLER] = holder  # lets the server end this request when the token is revoked
            if request.method == "GET":
                return await _run_view(site, view, request, await site.home_of(holder.agent_id), login)
            async with request.form(
                max_files=MOST_FILES, max_fields=50, max_part_size=MOST_FILE_BYTES
            ) as form:
                check_form(login, form.get("form_key"))
                home = await site.home_of(holder.agent_id)
                return await _run_view(site, view, request, home, login, form)
        except Refused as error:
            return refusal(site.pages, request, error)

    return handler


def refusal(pages: Pages, request: Request, error: Refused) -> Response:
    """Redirects a browser without a login to it; otherwise shows why access is refused."""
    if error.status == 401:
        # After the login, the page opens again from which a form was sent.
        shown = request.url if request.method == "GET" else URL(request.headers.get("referer", "/chat"))
        target = f"/login?to={quote(f'{shown.path}?{shown.query}' if shown.query else shown.path)}"
        if request.headers.get("hx-request"):
            return Response(status_code=401, headers={**HEADERS, "hx-redirect": target})
        return RedirectResponse(target, status_code=303, headers=HEADERS)
    return pages.response("message.html", status=error.status, title="Not for you", sentence=str(error))


async def _run_view(
    site: Site, view: View, request: Request, home: PageHome, login: Login, form: FormData | None = None
) -> Response:
    visit = Visit(site=site, request=request, home=home, login=login, form=form or FormData())
    try:
        return await view(visit)
    except REPORTED_ERRORS as error:
        log.info("the page could not show %s: %s", request.url.path, type(error).__name__)
        return site.pages.response(
            "message.html", status=409, title="That could not be done", sentence=str(error)
        )
