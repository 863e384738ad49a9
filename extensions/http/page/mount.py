"""The mount of the page: its routes, the login form and the static files."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from nacre.extensions.http.page import chat, memory, sessions
from nacre.extensions.http.page.access import (
    COOKIE,
    HEADERS,
    Holder,
    HolderOf,
    Logins,
    Refused,
    check_form,
    with_cookie,
)
from nacre.extensions.http.page.home import PageHome
from nacre.extensions.http.page.rendering import STATIC, Pages
from nacre.extensions.http.page.transcript import LiveTurns
from nacre.extensions.http.page.visit import HomeOf, Site, owner_view, refusal
from nacre.extensions.http.server.tokens import Tokens, TokensUnusable
from nacre.runtime.extensions.service import HttpMount

_KINDS = {".css": "text/css", ".js": "text/javascript", ".txt": "text/plain", ".svg": "image/svg+xml"}
_FILES = {path.name: path for path in STATIC.iterdir()}


def open_site(holder_of: HolderOf, home_of: HomeOf) -> Site:
    """What the views share for the lifetime of a server; call `site.turns.close()` at its end.

    `holder_of` returns the holder of a token, `home_of` the agent of an ID.
    """
    return Site(logins=Logins(holder_of), pages=Pages(), turns=LiveTurns(), home_of=home_of)


def page_mount(homes: Mapping[str, PageHome], tokens: Tokens) -> HttpMount:
    """The page for these agents, by ID. It checks tokens itself, because a browser sends none on its own."""

    def holder_of(token: str) -> Holder | None:
        try:
            return tokens.holder_of(token) if token else None
        except TokensUnusable as error:
            raise Refused(str(error), 503) from error

    async def home_of(agent_id: str) -> PageHome:
        if agent_id not in homes:
            raise Refused(f"The token is for the agent {agent_id!r}, which is not served.", 403)
        return homes[agent_id]

    site = open_site(holder_of, home_of)
    closing = (site.turns.close, *(home.close for home in homes.values()))
    return HttpMount(
        path="/", routes=page_routes(site), wants_token=False, login_of=site.logins.name_of, closing=closing
    )


def page_routes(site: Site) -> list[BaseRoute]:
    """The routes of the page. All except the login form are for the owner only."""
    views = [
        Route("/", owner_view(site, chat.to_chat), methods=["GET"]),
        Route("/chat", owner_view(site, chat.chat), methods=["GET"]),
        Route("/chat/say", owner_view(site, chat.say), methods=["POST"]),
        Route("/chat/stop", owner_view(site, chat.stop), methods=["POST"]),
        Route("/chat/approve", owner_view(site, chat.approve), methods=["POST"]),
        Route("/chat/turns/{turn}", owner_view(site, chat.events), methods=["GET"]),
        Route("/memory", owner_view(site, memory.memory), methods=["GET"]),
        Route("/memory/note", owner_view(site, memory.note), methods=["GET"]),
        Route("/memory/note", owner_view(site, memory.write), methods=["POST"]),
        Route("/memory/changes", owner_view(site, memory.changes), methods=["GET"]),
        Route("/memory/changes", owner_view(site, memory.undo), methods=["POST"]),
        Route("/memory/review", owner_view(site, memory.review), methods=["GET"]),
        Route("/memory/review", owner_view(site, memory.answer_review), methods=["POST"]),
        Route("/sessions", owner_view(site, sessions.sessions), methods=["GET"]),
        Route("/sessions/{session}", owner_view(site, sessions.session), methods=["GET"]),
        Route("/context", owner_view(site, sessions.context), methods=["GET"]),
    ]
    return [*views, *_login_routes(site), Route("/static/{name}", _static, methods=["GET"])]


def _login_routes(site: Site) -> list[BaseRoute]:
    async def show_login(request: Request) -> Response:
        return site.pages.response(
            "login.html", problem="", to=_local_path(request.query_params.get("to", ""))
        )

    async def log_in(request: Request) -> Response:
        async with request.form(max_files=0, max_fields=5) as form:
            token, to = (str(form.get(name, "")) for name in ("token", "to"))
        try:
            cookie = site.logins.enter(token.strip(), request.client.host if request.client else "")
        except Refused as error:
            return site.pages.response(
                "login.html", status=error.status, problem=str(error), to=_local_path(to)
            )
        response = RedirectResponse(_local_path(to), status_code=303, headers=HEADERS)
        return with_cookie(response, cookie, is_https=request.url.scheme == "https")

    async def log_out(request: Request) -> Response:
        async with request.form(max_files=0, max_fields=5) as form:
            try:
                check_form(site.logins.holder(request)[1], form.get("form_key"))
            except Refused as error:
                return refusal(site.pages, request, error)
        site.logins.leave(request)
        response = RedirectResponse("/login", status_code=303, headers=HEADERS)
        response.delete_cookie(COOKIE, path="/")
        return response

    return [
        Route("/login", show_login, methods=["GET"]),
        Route("/login", log_in, methods=["POST"]),
        Route("/logout", log_out, methods=["POST"]),
    ]


async def _static(request: Request) -> Response:
    path = _FILES.get(request.path_params["name"])
    if path is None:
        return Response(status_code=404, headers=HEADERS)
    kind = _KINDS.get(path.suffix, "application/octet-stream")
    return FileResponse(path, media_type=kind, headers={**HEADERS, "cache-control": "no-cache"})


def _local_path(to: str) -> str:
    """The path to open after the login, which always stays on this site."""
    return to if to.startswith("/") and not to.startswith(("//", "/\\")) and to.isprintable() else "/chat"
