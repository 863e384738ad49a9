"""What a door brings to the server, and what the server says of who asks. Pure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import cast

from starlette.requests import Request
from starlette.routing import BaseRoute

from nacre.doors.http.tokens import Token
from nacre.records.record import Record

CALLER = "nacre.caller"
"""Where a request's scope has the `Token` that came with it, by a header or by the cookie of a login."""
_NOTHING_TO_CLOSE: Sequence[Callable[[], Awaitable[None]]] = ()


class Door(Record):
    """Routes under `path`, which begins with a slash.

    `wants_token` refuses whoever shows no token of the tokens file as a bearer; a door without it looks
    after that itself, and `login_of` names the login that a `Cookie` header has, or nobody's. `closing` is
    called in order when the server ends.
    """

    path: str
    routes: Sequence[BaseRoute]
    wants_token: bool = True
    login_of: Callable[[str], str] = lambda _cookies: ""
    closing: Sequence[Callable[[], Awaitable[None]]] = _NOTHING_TO_CLOSE


def caller_of(request: Request) -> Token:
    """Whose token came with a request to a door that wants one."""
    return cast("Token", request.scope[CALLER])
