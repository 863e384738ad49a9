"""What an extension adds to the HTTP server of `nacre serve`: routes, and whose token came with a request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from nacre.record import Record
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.settings.config import Config

CALLER = "nacre.caller"
"""The key of a request's ASGI scope with the `Token` that came with it, in a header or a login's cookie."""
_NOTHING_TO_CLOSE: Sequence[Callable[[], Awaitable[None]]] = ()


class Token(Record):
    """Which agent a token opens, and whether its holder is the owner. `created_at` is ISO 8601."""

    name: str
    agent_id: str
    is_owner: bool
    digest: str
    created_at: str


class HttpMount(Record):
    """Routes of starlette under `path`, which begins with a slash.

    `wants_token` refuses whoever shows no token of the tokens file as a bearer; a mount without it checks
    tokens itself, and its `login_of` names the login of a `Cookie` header, empty for nobody's. `closing` is
    called in order when the server ends.
    """

    path: str
    routes: Sequence[Any]
    wants_token: bool = True
    login_of: Callable[[str], str] = lambda _cookies: ""
    closing: Sequence[Callable[[], Awaitable[None]]] = _NOTHING_TO_CLOSE


MakeMount: TypeAlias = Callable[[Mapping[str, Config], Clock], HttpMount]
"""Makes a mount for the served agents, given their configs by id."""


def caller_of(scope: Mapping[str, Any]) -> Token:
    """The token of a request to a mount with `wants_token`; `scope` is its ASGI scope."""
    return cast("Token", scope[CALLER])
