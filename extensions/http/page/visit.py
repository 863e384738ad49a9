"""One request of a browser that may see the page, and what every view does the same way."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias
from urllib.parse import quote

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from nacre.extensions.http.page.access import HEADERS, Login, Logins, Refused, check_form
from nacre.extensions.http.page.home import PageHome
from nacre.extensions.http.page.live_turn import LiveTurns
from nacre.extensions.http.page.note_history import HistoryUnusable
from nacre.extensions.http.page.rendering import Pages
from nacre.memory.contracts.errors import MemoryIndexError, ReadRefused
from nacre.memory.contracts.workspace import FileBusy, PathOutsideRoot
from nacre.records.record import Record
from nacre.runtime.contracts.errors import AgentError
from nacre.runtime.extensions.service import CALLER
from nacre.sessions.contracts.errors import SessionError

log = logging.getLogger(__name__)

MOST_FILES = 10
MOST_FILE_BYTES = 20 << 20
TOLD = (
    *(AgentError, SessionError, MemoryIndexError, ReadRefused, FileBusy, PathOutsideRoot, HistoryUnusable),
    OSError,
)
"""What goes wrong with a sentence for the owner."""

HomeOf = Callable[[str], Awaitable[PageHome]]


class Site(Record):
    """What all views share. `home_of` opens the agent of an id, or gives it again."""

    logins: Logins
    pages: Pages
    turns: LiveTurns
    home_of: HomeOf


class Visit(Record):
    """One request of the owner. `form` is empty unless something is to be changed."""

    site: Site
    request: Request
    home: PageHome
    login: Login
    form: FormData

    def asked(self, name: str, usual: str = "") -> str:
        """A word of the address."""
        return str(self.request.query_params.get(name, usual))

    def field(self, name: str) -> str:
        """A word of the form."""
        value = self.form.get(name)
        return value if isinstance(value, str) else ""

    def page(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """A page of the site."""
        return self.site.pages.response(
            template, status=status, form_key=self.login.form_key, agent_id=self.home.agent.id, **values
        )

    def part(self, name: str, *values: Any) -> Response:
        """A piece that is put into the page that is open."""
        return HTMLResponse(self.site.pages.macro(name, *values), headers=HEADERS)


View: TypeAlias = Callable[[Visit], Awaitable[Response]]


def seen(site: Site, view: View) -> Callable[[Request], Awaitable[Response]]:
    """A view for the owner alone; whatever is told with a sentence becomes a page with it."""

    async def handler(request: Request) -> Response:
        try:
            holder, login = site.logins.holder(request)
            request.scope[CALLER] = holder  # the server may end this request when the token is revoked
            if request.method == "GET":
                return await _answered(site, view, request, await site.home_of(holder.agent_id), login)
            async with request.form(
                max_files=MOST_FILES, max_fields=50, max_part_size=MOST_FILE_BYTES
            ) as form:
                check_form(login, form.get("form_key"))
                home = await site.home_of(holder.agent_id)
                return await _answered(site, view, request, home, login, form)
        except Refused as error:
            return refusal(site.pages, request, error)

    return handler


def refusal(pages: Pages, request: Request, error: Refused) -> Response:
    """Where a browser is sent that has not shown a token; else the reason why it sees nothing."""
    if error.status == 401:
        target = f"/login?to={quote(request.url.path)}"
        if request.headers.get("hx-request"):
            return Response(status_code=401, headers={**HEADERS, "hx-redirect": target})
        return RedirectResponse(target, status_code=303, headers=HEADERS)
    return pages.response("message.html", status=error.status, title="Not for you", sentence=str(error))


async def _answered(
    site: Site, view: View, request: Request, home: PageHome, login: Login, form: FormData | None = None
) -> Response:
    visit = Visit(site=site, request=request, home=home, login=login, form=form or FormData())
    try:
        return await view(visit)
    except TOLD as error:
        log.info("the page could not show %s: %s", request.url.path, type(error).__name__)
        return site.pages.response(
            "message.html", status=409, title="That could not be done", sentence=str(error)
        )
