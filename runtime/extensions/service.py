"""What extensions add to `nacre serve`: services, HTTP routes, and programs that run turns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias, cast

from nacre.record import Record
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.settings.config import Config


class ServiceFailed(Exception):
    """A service cannot start; the message is a sentence for the owner."""


class Serving(Record):
    """The program in which a service runs.

    `agents` are the open agents (`nacre.Agent`), the default one first, and `runner` runs their turns
    (`TurnRunner` of `nacre.bridges.answering.turns`). `http_mounts` are the routes that
    extensions add to an HTTP server. `figures` measures waiting work. `say` and `warn` print lines. Turns
    that are still running at the end may take `turn_seconds`.
    """

    config: Config
    environment: Mapping[str, str]
    agents: Sequence[Any]
    runner: Any
    http_mounts: Sequence[MakeMount]
    has_channels: bool
    figures: Callable[[], Awaitable[Mapping[str, float]]]
    say: Callable[..., None]
    warn: Callable[..., None]
    turn_seconds: float


class Service(Record):
    """`run` serves until the end of its block, and raises `ServiceFailed` if it cannot start.

    `problem` returns why the service cannot start with these settings, or an empty string; it opens nothing.
    """

    run: Callable[[Serving], AbstractAsyncContextManager[None]]
    problem: Callable[[Config], str]


CALLER = "nacre.caller"
"""The key of the request's `Token` (from a header or a login cookie) in its ASGI scope."""


class Token(Record):
    """Which agent a token gives access to, and whether its holder is the owner. `created_at` is ISO 8601.

    With `is_admin`, it gives access to the mounts `for_admin` only, and to no agent.
    """

    name: str
    agent_id: str
    is_owner: bool
    digest: str
    created_at: str
    is_admin: bool = False


class HttpMount(Record):
    """Starlette routes under `path`, which begins with a slash.

    With `wants_token`, requests need a bearer token of the tokens file: one of an agent or, with `for_admin`,
    one with `is_admin`. Otherwise, the mount checks tokens itself, and its `login_of` returns the login in a
    `Cookie` header, or an empty string. The functions in `closing` are called in order when the server stops.
    """

    path: str
    routes: Sequence[Any]
    wants_token: bool = True
    for_admin: bool = False
    login_of: Callable[[str], str] = lambda _cookies: ""
    closing: Sequence[Callable[[], Awaitable[None]]] = ()


MakeMount: TypeAlias = Callable[[Mapping[str, Config], Clock], HttpMount]
"""Creates a mount for the served agents, given their configs by id."""


def caller_of(scope: Mapping[str, Any]) -> Token:
    """The token of a request to a mount with `wants_token`; `scope` is its ASGI scope."""
    return cast("Token", scope[CALLER])


class TurnWorkers(Record):
    """How a serving program hands turns to others. Both calls raise `StorageFailed`.

    `hand_over` opens a `TurnRunner` (`nacre.bridges.answering.turns`) for a config, which is closed at the
    end of its block; with `runs_here` all turns run in this program, and others only stop them. `figures`
    measures the agent's turns as gauges: `waiting` and `running` turns, `waiting_seconds` of the longest
    waiting turn, `oldest_seconds` since the oldest request, live `workers`, their `places` for turns, held
    `leases`, `leases_run_out` whose holder stopped responding, and `agents_over_quota`.
    """

    hand_over: Callable[..., AbstractAsyncContextManager[Any]]
    figures: Callable[[Config], Awaitable[Mapping[str, float]]]
