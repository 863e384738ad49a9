"""Who may see the page: a token once, then a cookie of this process. Each change shows where it came from."""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable
from typing import Protocol

from starlette.requests import Request, cookie_parser
from starlette.responses import Response

from nacre.extensions.http.server.limits import MOST_WRONG_TOKENS, WRONG_TOKENS_A_SECOND, Rate
from nacre.record import Record

COOKIE = "nacre_page"
MOST_LOGINS = 100
LOGIN_SECONDS = 30 * 24 * 3600
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# With `no-referrer`, browsers call the origin of our own forms `null`.
HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


class Holder(Protocol):
    """Whom a token belongs to."""

    @property
    def agent_id(self) -> str:
        """The agent that it opens."""
        ...

    @property
    def is_owner(self) -> bool:
        """Whether its holder is the owner."""
        ...


HolderOf = Callable[[str], Holder | None]
"""Whom a token belongs to; `None` for one that is unknown, or not valid any more."""


class Login(Record):
    """A browser that showed a token. `form_key` is in each form of its pages."""

    token: str
    form_key: str
    until: float


class Refused(Exception):
    """Nobody who may see this. `status` is 401 for a browser that has not shown a token, else 403."""

    def __init__(self, sentence: str, status: int) -> None:
        super().__init__(sentence)
        self.status = status


class Logins:
    """The browsers that showed an owner's token to this process."""

    def __init__(self, holder_of: HolderOf, seconds: Callable[[], float] = time.monotonic) -> None:
        self._holder_of = holder_of
        self._seconds = seconds
        self._open: dict[str, Login] = {}
        self._wrong = Rate(most=MOST_WRONG_TOKENS, per_second=WRONG_TOKENS_A_SECOND)

    def enter(self, token: str, address: str) -> str:
        """The cookie for an owner's token. Raises `Refused`.

        Wrong tokens are counted for each address, and a good one is never refused for them.
        """
        try:
            self._owner(token)
        except Refused as refused:
            now = self._seconds()
            if self._wrong.wait_seconds(address, now):
                raise Refused(
                    "Too many wrong tokens came from this address. Wait a moment.", 429
                ) from refused
            self._wrong.take(address, now)
            raise
        if len(self._open) >= MOST_LOGINS:
            del self._open[next(iter(self._open))]
        cookie = secrets.token_urlsafe(32)
        self._open[cookie] = Login(
            token=token, form_key=secrets.token_urlsafe(32), until=self._seconds() + LOGIN_SECONDS
        )
        return cookie

    def name_of(self, cookies: str) -> str:
        """What the login is counted under whose cookie a request has; empty for nobody's."""
        login = self._open.get(cookie_parser(cookies).get(COOKIE, ""))
        return "" if login is None or login.until < self._seconds() else login.form_key

    def leave(self, request: Request) -> None:
        """Forgets a browser."""
        self._open.pop(request.cookies.get(COOKIE, ""), None)

    def holder(self, request: Request) -> tuple[Holder, Login]:
        """Who asks. Raises `Refused`; a token that was taken away closes the page, too."""
        cookie = request.cookies.get(COOKIE, "")
        login = self._open.get(cookie)
        if login is None or login.until < self._seconds():
            self._open.pop(cookie, None)
            raise Refused("Show the token first.", 401)
        return self._owner(login.token), login

    def _owner(self, token: str) -> Holder:
        holder = self._holder_of(token)
        if holder is None:
            raise Refused("This token is not known. `nacre token list` names those that are.", 401)
        if not holder.is_owner:
            raise Refused("This token is not the owner's, and the page shows private memory.", 403)
        return holder


def check_form(login: Login, shown: object) -> None:
    """Whether a change comes from one of our own pages. Raises `Refused`."""
    if not (isinstance(shown, str) and hmac.compare_digest(shown.encode(), login.form_key.encode())):
        raise Refused(
            "This form was not made by this page, or is from before the last login. Load it anew.", 403
        )


def with_cookie(response: Response, cookie: str, *, is_https: bool) -> Response:
    """Gives a browser its cookie, which no script and no other site can use."""
    response.set_cookie(
        COOKIE,
        cookie,
        max_age=LOGIN_SECONDS,
        path="/",
        secure=is_https,
        httponly=True,
        samesite="strict",
    )
    return response
