"""The page: the addresses of its views, as a mount of the HTTP server."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from nacre.extensions.http.page import chat, memory, review, sessions
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
from nacre.extensions.http.page.live_turn import LiveTurns
from nacre.extensions.http.page.rendering import STATIC, Pages
from nacre.extensions.http.page.visit import HomeOf, Site, refusal, seen
from nacre.extensions.http.server.tokens import Tokens, TokensUnusable
from nacre.runtime.extensions.service import HttpMount

_KINDS = {".css": "text/css", ".js": "text/javascript", ".txt": "text/plain", ".svg": "image/svg+xml"}
_FILES = {path.name: path for path in STATIC.iterdir()}


def open_site(holder_of: HolderOf, home_of: HomeOf) -> Site:
    """What the views share, for a server's whole life; `await site.turns.close()` at its end.

    `holder_of` says whose a token is, `home_of` opens the agent of an id, or gives it again.
    """
    return Site(logins=Logins(holder_of), pages=Pages(), turns=LiveTurns(), home_of=home_of)


def page_mount(homes: Mapping[str, PageHome], tokens: Tokens) -> HttpMount:
    """The page of these agents by their ids. It looks after tokens itself: a browser sends none by itself."""

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
    """The routes of the page, each for the owner alone but the form that asks for the token."""
    views = [
        Route("/", seen(site, chat.to_chat), methods=["GET"]),
        Route("/chat", seen(site, chat.chat), methods=["GET"]),
        Route("/chat/say", seen(site, chat.say), methods=["POST"]),
        Route("/chat/stop", seen(site, chat.stop), methods=["POST"]),
        Route("/chat/approve", seen(site, chat.approve), methods=["POST"]),
        Route("/chat/turns/{turn}", seen(site, chat.events), methods=["GET"]),
        Route("/memory", seen(site, memory.memory), methods=["GET"]),
        Route("/memory/note", seen(site, memory.note), methods=["GET"]),
        Route("/memory/note", seen(site, memory.write), methods=["POST"]),
        Route("/memory/changes", seen(site, memory.changes), methods=["GET"]),
        Route("/memory/changes", seen(site, memory.undo), methods=["POST"]),
        Route("/memory/review", seen(site, review.review), methods=["GET"]),
        Route("/memory/review", seen(site, review.answer), methods=["POST"]),
        Route("/sessions", seen(site, sessions.sessions), methods=["GET"]),
        Route("/sessions/{session}", seen(site, sessions.session), methods=["GET"]),
        Route("/context", seen(site, sessions.context), methods=["GET"]),
    ]
    return [*views, *_mounts(site), Route("/static/{name}", _static, methods=["GET"])]


def _mounts(site: Site) -> list[BaseRoute]:
    async def ask(request: Request) -> Response:
        return site.pages.response("login.html", problem="", to=_inside(request.query_params.get("to", "")))

    async def enter(request: Request) -> Response:
        async with request.form(max_files=0, max_fields=5) as form:
            token, to = (str(form.get(name, "")) for name in ("token", "to"))
        try:
            cookie = site.logins.enter(token.strip(), request.client.host if request.client else "")
        except Refused as error:
            return site.pages.response("login.html", status=error.status, problem=str(error), to=_inside(to))
        response = RedirectResponse(_inside(to), status_code=303, headers=HEADERS)
        return with_cookie(response, cookie, is_https=request.url.scheme == "https")

    async def leave(request: Request) -> Response:
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
        Route("/login", ask, methods=["GET"]),
        Route("/login", enter, methods=["POST"]),
        Route("/logout", leave, methods=["POST"]),
    ]


async def _static(request: Request) -> Response:
    path = _FILES.get(request.path_params["name"])
    if path is None:
        return Response(status_code=404, headers=HEADERS)
    kind = _KINDS.get(path.suffix, "application/octet-stream")
    return FileResponse(path, media_type=kind, headers={**HEADERS, "cache-control": "no-cache"})


def _inside(to: str) -> str:
    """Where to go after the login: a path of this site and never another one."""
    return to if to.startswith("/") and not to.startswith(("//", "/\\")) and to.isprintable() else "/chat"
