"""`/admin` of `nacre serve`: manages hosted agents and their people, for programs with an admin token."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, cast

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from nacre.bridges.access.people import Role
from nacre.cli.permissions.access import person_json, person_name
from nacre.extensions.postgres import hosting
from nacre.extensions.postgres.server.connections import DatabaseError
from nacre.extensions.postgres.server.database import shared_database
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.extensions.service import HttpMount, caller_of
from nacre.runtime.ledger.records import LedgerUnusable
from nacre.runtime.settings.config import Config
from nacre.sessions.contracts.keys import normalize_agent_id

Handler: TypeAlias = Callable[[Request], Awaitable[tuple[int, object]]]
NOBODY = "This code is unknown: it was used, or it expired after an hour."
NOT_AGENTS = "There is no agent {id!r}. GET /admin/agents lists them; POST creates one."

log = logging.getLogger(__name__)


class AdminApi:
    """The handlers. Each returns a status code and a value for JSON."""

    def __init__(self, config: Config) -> None:
        self._database = shared_database(config.folders.storage.url)
        self._listed = frozenset(agent.id for agent in config.agents)
        self._people = hosting.people_in(config, self._database)

    async def list(self, _request: Request) -> tuple[int, object]:
        return 200, {"agents": [*map(hosting.agent_json, await hosting.hosted_agents(self._database))]}

    async def create(self, request: Request) -> tuple[int, object]:
        body = await _body(request, user=str)
        try:
            made = await hosting.create(self._database, body.get("user", ""))
        except ConfigError as error:
            raise HTTPException(400, str(error)) from error
        if made is None:
            raise HTTPException(409, f"The user {body['user']!r} has an assistant already.")
        _audit(request, "created the agent", made.id)
        return 201, hosting.agent_json(made)

    async def show(self, request: Request) -> tuple[int, object]:
        return 200, hosting.agent_json(await self._found(request))

    async def change(self, request: Request) -> tuple[int, object]:
        body = await _body(request, isPaused=bool, dailyTokens=int, dailyUsd=float, maxBytes=int)
        agent, names = await self._found(request), ("dailyTokens", "dailyUsd", "maxBytes")
        limits = tokens, usd, max_bytes = [body.get(name) for name in names]
        if any(each is not None and not 0 <= each < 2**62 for each in limits):
            raise HTTPException(400, "A limit is a positive number, or 0 for none.")
        if limits != [None] * 3:
            await hosting.limit(self._database, agent.id, tokens=tokens, usd=usd, max_bytes=max_bytes)
            _audit(request, f"set the limits {dict(zip(names, limits, strict=True))} of", agent.id)
        if "isPaused" in body:
            await hosting.pause(self._database, agent.id, is_paused=body["isPaused"])
            _audit(request, "paused" if body["isPaused"] else "resumed", agent.id)
        return await self.show(request)

    async def remove(self, request: Request) -> tuple[int, object]:
        agent = await self._found(request)
        removed = await hosting.remove(self._database, agent.id)
        if removed is None:
            raise HTTPException(409, f"{agent.id} is not paused, or a program uses it. Pause it first.")
        _audit(request, f"removed {removed} rows of", agent.id)
        return 200, {"agent": agent.id, "removedRows": removed}

    async def people(self, request: Request) -> tuple[int, object]:
        agent = await self._found(request)
        known = [each for each in await self._people.approved() if each.own_agent == agent.id]
        asking = await self._people.pending()
        return 200, {"known": [*map(person_json, known)], "asking": [*map(person_json, asking)]}

    async def admit(self, request: Request) -> tuple[int, object]:
        body, agent = await _body(request, code=str, role=str), await self._found(request)
        role = body.get("role", "guest")
        if role not in ("guest", "owner"):
            raise HTTPException(400, f"role is {role!r}; it must be 'guest' or 'owner'.")
        code = body.get("code", "")
        person = await self._people.approve(code, cast("Role", role), own_agent=agent.id)
        if person is None:
            raise HTTPException(404, NOBODY)
        _audit(request, f"let in {person_name(person)!r} as {role} to", agent.id)
        return 201, person_json(person)

    async def _found(self, request: Request) -> hosting.HostedAgent:
        agent_id = request.path_params["agent"]
        if agent_id != normalize_agent_id(agent_id):
            raise HTTPException(400, f"{agent_id!r} is not an agent ID.")
        if (found := await hosting.find(self._database, agent_id, self._listed)) is None:
            raise HTTPException(404, NOT_AGENTS.format(id=agent_id))
        return found


def admin_mount(config: Config) -> HttpMount:
    """The admin API over the database and the ledger of these settings."""
    api = AdminApi(config)
    one = "/agents/{agent}"
    handlers: tuple[tuple[str, str, Handler], ...] = (
        ("/agents", "GET", api.list),
        ("/agents", "POST", api.create),
        (one, "GET", api.show),
        (one, "PATCH", api.change),
        (one, "DELETE", api.remove),
        (f"{one}/people", "GET", api.people),
        (f"{one}/people", "POST", api.admit),
    )
    routes = [Route(path, _answered(handler), methods=[method]) for path, method, handler in handlers]
    return HttpMount(path="/admin", routes=routes, for_admin=True)


def _answered(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            status, shown = await handler(request)
        except HTTPException as error:
            status, shown = error.status_code, {"error": {"message": error.detail}}
        except (DatabaseError, LedgerUnusable) as error:
            log.warning("the admin API failed: %s", error)
            status, shown = 503, {"error": {"message": str(error)}}
        return JSONResponse(shown, status)

    return answer


async def _body(request: Request, **kinds: type) -> dict[str, Any]:
    """The JSON object of a request. Raises `HTTPException` for other keys and types than `kinds`."""
    try:
        found = await request.json()
        if isinstance(found, dict):
            whole = [name for name in found if kinds.get(name) is float and type(found[name]) is int]
            found |= {name: float(found[name]) for name in whole}
    except (ValueError, OverflowError, RecursionError) as error:
        raise HTTPException(400, f"The body is not valid JSON: {error}.") from error
    if not isinstance(found, dict) or any(type(found[name]) is not kinds.get(name) for name in found):
        allowed = ", ".join(f"{name} ({kind.__name__})" for name, kind in kinds.items())
        raise HTTPException(400, f"The body must be a JSON object with no keys other than {allowed}.")
    return found


def _audit(request: Request, what: str, agent_id: str) -> None:
    log.info("admin token %r %s %s", caller_of(request.scope).name, what, agent_id)
