"""The mount of the page: its routes, the login form, the view of usage and the static files."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta

from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from nacre.bridges.answering.turns import TurnRunner
from nacre.extensions.http.page import conversations, memory
from nacre.extensions.http.page.access import (
    COOKIE,
    HEADERS,
    Logins,
    Refused,
    check_form,
    with_cookie,
)
from nacre.extensions.http.page.charts import COST_HEIGHT, WIDTH, cost_picture
from nacre.extensions.http.page.home import PageHome
from nacre.extensions.http.page.rendering import STATIC, Pages
from nacre.extensions.http.page.transcript import LiveTurns
from nacre.extensions.http.page.visit import Site, Visit, owner_view, refusal
from nacre.extensions.http.server.tokens import Tokens, TokensUnusable
from nacre.runtime.agent.insight.usage import calls_of, grouped, total_of, unpriced_models
from nacre.runtime.extensions.service import HttpMount, Token
from nacre.runtime.settings.spending import spent_today_usd

USAGE_DAYS = 30
MOST_ROWS = 12
_KINDS = {".css": "text/css", ".js": "text/javascript", ".txt": "text/plain", ".svg": "image/svg+xml"}
_FILES = {path.name: path for path in STATIC.iterdir()}


def page_mount(homes: Mapping[str, PageHome], tokens: Tokens, runner: TurnRunner) -> HttpMount:
    """The page for these agents, by ID. It checks tokens itself, because a browser sends none on its own."""

    def holder_of(token: str) -> Token | None:
        try:
            return tokens.holder_of(token) if token else None
        except TokensUnusable as error:
            raise Refused(str(error), 503) from error

    async def home_of(agent_id: str) -> PageHome:
        if agent_id not in homes:
            raise Refused(f"The token is for the agent {agent_id!r}, which is not served.", 403)
        return homes[agent_id]

    site = Site(logins=Logins(holder_of), pages=Pages(), turns=LiveTurns(runner), home_of=home_of)
    closing = (site.turns.close, *(home.close for home in homes.values()))
    return HttpMount(
        path="/", routes=page_routes(site), wants_token=False, login_of=site.logins.name_of, closing=closing
    )


def page_routes(site: Site) -> list[BaseRoute]:
    """The routes of the page. All except the login form are for the owner only."""
    views = {
        "/": conversations.to_chat,
        "/chat": conversations.chat,
        "/chat/new": conversations.new_chat,
        "/chat/turns/{turn}": conversations.events,
        "/search": conversations.search,
        "/sessions": conversations.sessions,
        "/sessions/{session}": conversations.session,
        "/context": conversations.context,
        "/memory": memory.memory,
        "/memory/overview": memory.overview,
        "/memory/note": memory.note,
        "/memory/changes": memory.changes,
        "/memory/review": memory.review,
        "/usage": usage,
    }
    changes = {
        "/chat/say": conversations.say,
        "/chat/stop": conversations.stop,
        "/chat/approve": conversations.approve,
        "/sessions/{session}/resume": conversations.resume,
        "/memory/note": memory.write,
        "/memory/note/undo": memory.undo_line,
        "/memory/changes": memory.undo,
        "/memory/review": memory.answer_review,
    }
    routes = [
        *(Route(path, owner_view(site, view), methods=["GET"]) for path, view in views.items()),
        *(Route(path, owner_view(site, view), methods=["POST"]) for path, view in changes.items()),
    ]
    return [*routes, *_login_routes(site), Route("/static/{name}", _static, methods=["GET"])]


async def usage(visit: Visit) -> Response:
    """Tokens and cost by day, model, purpose and conversation."""
    home = visit.home
    calls = await calls_of(home.config, home.now)
    today = home.now().date()
    since = (today - timedelta(days=USAGE_DAYS - 1)).isoformat()
    days = grouped(calls, "day")
    recent = [call for call in calls if call.at.date().isoformat() >= since]
    current = [each for each in await home.sessions() if each.is_current]
    named = await home.titles(current)
    return await visit.page(
        "usage.html",
        picture=cost_picture(days, today, count=USAGE_DAYS),
        width=WIDTH,
        height=COST_HEIGHT,
        days=[(date.fromisoformat(row.name), row) for row in reversed(days)][:USAGE_DAYS],
        tables=[(name, grouped(recent, name)[:MOST_ROWS]) for name in ("model", "purpose", "session")],
        titles={each.key: named[each.session_id] for each in current},
        today_row=next((row for row in days if row.name == today.isoformat()), None),
        total=total_of(recent),
        unpriced=unpriced_models(recent),
        cap_usd=home.config.settings.usage.daily_cap_usd,
        spent_usd=await spent_today_usd(home.config, home.now),
        view="usage",
    )


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
    return to if to.startswith("/") and not to.startswith(("//", "/\\")) and to.isprintable() else "/chat"
