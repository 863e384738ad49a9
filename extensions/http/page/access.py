"""Access to the page: a token once, then a cookie of this process. Forms need a key against forgeries."""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable

from starlette.requests import Request, cookie_parser
from starlette.responses import Response

from nacre.extensions.http.server.guard import MOST_WRONG_TOKENS, WRONG_TOKENS_A_SECOND, Rate
from nacre.record import Record
from nacre.runtime.extensions.service import Token

COOKIE = "nacre_page"
MOST_LOGINS = 100
LOGIN_SECONDS = 30 * 24 * 3600
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# With `no-referrer`, browsers send `null` as the origin of our own forms.
HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


class Login(Record):
    """A browser that presented a token. `form_key` is in each form of its pages."""

    token: str
    form_key: str
    expires_at: float


class Refused(Exception):
    """Access is refused. `status` is 401 if the browser has not presented a token."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Logins:
    """The browsers that presented an owner's token to this process.

    `holder_of` returns the token with a text, `None` if it is unknown or no longer valid.
    """

    def __init__(
        self, holder_of: Callable[[str], Token | None], seconds: Callable[[], float] = time.monotonic
    ) -> None:
        self._holder_of = holder_of
        self._seconds = seconds
        self._open: dict[str, Login] = {}
        self._wrong_token_rate = Rate(most=MOST_WRONG_TOKENS, per_second=WRONG_TOKENS_A_SECOND)

    def enter(self, token: str, address: str) -> str:
        """The cookie for an owner's token. Raises `Refused`.

        Wrong tokens are counted per address; a good token is never refused because of them.
        """
        try:
            self._owner(token)
        except Refused as refused:
            now = self._seconds()
            if self._wrong_token_rate.wait_seconds(address, now):
                raise Refused(
                    "Too many wrong tokens came from this address. Wait a moment.", 429
                ) from refused
            self._wrong_token_rate.take(address, now)
            raise
        if len(self._open) >= MOST_LOGINS:
            del self._open[next(iter(self._open))]
        cookie = secrets.token_urlsafe(32)
        self._open[cookie] = Login(
            token=token, form_key=secrets.token_urlsafe(32), expires_at=self._seconds() + LOGIN_SECONDS
        )
        return cookie

    def name_of(self, cookies: str) -> str:
        """An identifier of the login whose cookie a request has; empty if there is none."""
        login = self._open.get(cookie_parser(cookies).get(COOKIE, ""))
        return "" if login is None or login.expires_at < self._seconds() else login.form_key

    def leave(self, request: Request) -> None:
        self._open.pop(request.cookies.get(COOKIE, ""), None)

    def holder(self, request: Request) -> tuple[Token, Login]:
        """The holder and the login of a request. Raises `Refused`; revoking a token ends its logins too."""
        cookie = request.cookies.get(COOKIE, "")
        login = self._open.get(cookie)
        if login is None or login.expires_at < self._seconds():
            self._open.pop(cookie, None)
            raise Refused("Present the token first.", 401)
        return self._owner(login.token), login

    def _owner(self, token: str) -> Token:
        holder = self._holder_of(token)
        if holder is None:
            raise Refused("This token is unknown. `nacre admin access token list` shows the known ones.", 401)
        if not holder.is_owner:
            raise Refused("This token is not an owner's token, and the page shows private memory.", 403)
        return holder


def check_form(login: Login, form_key: object) -> None:
    """Checks that a form comes from one of our own pages. Raises `Refused`."""
    if not (isinstance(form_key, str) and hmac.compare_digest(form_key.encode(), login.form_key.encode())):
        raise Refused(
            "This form is not from this page, or is older than the last login. Reload the page.", 403
        )


def with_cookie(response: Response, cookie: str, *, is_https: bool) -> Response:
    """Sets the login cookie, which scripts and other sites cannot use."""
    response.set_cookie(
        COOKIE, cookie, max_age=LOGIN_SECONDS, path="/", secure=is_https, httponly=True, samesite="strict"
    )
    return response
