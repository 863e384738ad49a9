"""What stands in front of every mount: names of hosts, where a page comes from, sizes, rates, tokens.

A page of another site can have a browser ask a server on this machine, under a name that it makes point here
(DNS rebinding). So a request is served only under a name that is known, and only for a page of the same name.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nacre.extensions.http.server.limits import MOST_WRONG_TOKENS, WRONG_TOKENS_A_SECOND, Rate
from nacre.extensions.http.server.tokens import Tokens, TokensUnusable
from nacre.runtime.extensions.service import CALLER, HttpMount, Token

MOST_BODY_BYTES = 32 * 1024 * 1024
MOST_BODY_BYTES_OF_STRANGERS = 4 * 1024 * 1024
MOST_BODY_BYTES_UNKNOWN = 64 * 1024
"""Of whoever has shown no token yet: a form with one is smaller."""
MOST_AT_ONCE = 100
"""Requests of one token that are answered at once; open streams count."""
REVOKED_SECONDS = 0.5
"""How often it is looked whether the token of a running request is still there."""
MOST_QUESTIONS, QUESTIONS_A_SECOND = 300, 50.0
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_SAFE_HEADERS = ((b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer"))

log = logging.getLogger(__name__)


class Guard:
    """The app behind the checks. `mounts` say who wants tokens.

    It is asked under its `own` addresses and the names `hosts`, which may be those of a proxy.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        tokens: Tokens,
        mounts: Sequence[HttpMount],
        hosts: Sequence[str],
        own: Sequence[str] = (),
        most_body_bytes: int = MOST_BODY_BYTES,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._tokens = tokens
        self._closed = tuple(mount.path for mount in mounts if mount.wants_token)
        self._logins = tuple(mount.login_of for mount in mounts if not mount.wants_token)
        self._own = {host.lower() for host in (*LOOPBACK, *own)}
        self._hosts = self._own | {host.lower() for host in hosts}
        self._most_body_bytes = most_body_bytes
        self._at_once: Counter[str] = Counter()
        self._seconds = seconds
        self._asked = Rate(most=MOST_QUESTIONS, per_second=QUESTIONS_A_SECOND)
        self._wrong = Rate(most=MOST_WRONG_TOKENS, per_second=WRONG_TOKENS_A_SECOND)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves a request or refuses it."""
        if scope["type"] != "http":
            return
        headers = {name.lower(): value for name, value in scope["headers"]}
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await _refuse(send, *refusal)
            return
        caller: Token | None = scope.get(CALLER)
        if caller is None:
            await self._serve(scope, receive, send)
            return
        self._at_once[caller.digest] += 1
        try:
            await self._serve(scope, receive, send)
        finally:
            self._at_once[caller.digest] -= 1
            if not self._at_once[caller.digest]:
                del self._at_once[caller.digest]

    def _refusal(self, scope: Scope, headers: dict[bytes, bytes]) -> tuple[int, str, float] | None:
        """Status, sentence and seconds to wait of a request that is not served."""
        asked = _host_and_port(b"//" + headers.get(b"host", b""))
        if asked[0] not in self._hosts:
            return 421, f"This server is not called {asked[0]!r}: see http.hosts in the settings.", 0
        origin = headers.get(b"origin")
        if origin is not None and not self._is_own_page(_host_and_port(origin), asked):
            return 403, "A page of another site may not ask this server.", 0
        refusal = self._without_token(scope, headers) or self._too_often(scope, headers)
        if refusal is not None:
            return refusal
        if not _is_number_up_to(headers.get(b"content-length", b"0"), self._most_bytes(scope, declared=True)):
            return 413, self._too_large(scope), 0
        return None

    def _is_own_page(self, origin: tuple[str, int | None], asked: tuple[str, int | None]) -> bool:
        """Whether a page is of this server: at one of its own addresses another port is another program.

        Of a proxy only the name is compared: it may ask under another name and port than it is asked.
        """
        return origin[0] in self._hosts and (origin[0] not in self._own or origin[1] == asked[1])

    def _without_token(self, scope: Scope, headers: dict[bytes, bytes]) -> tuple[int, str, float] | None:
        """Puts the caller into the scope of a request to a mount that wants one, or says why there is none.

        Wrong tokens are counted for each address. A good one is never refused for the wrong ones of others:
        a token is too long to be guessed, and it is cheap to look up.
        """
        path, address, now = scope["path"], _address_of(scope), self._seconds()
        if not any(path == mount or path.startswith(f"{mount}/") for mount in self._closed):
            return None
        kind, _, shown = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        try:
            holder = self._holder(shown.strip()) if kind.lower() == "bearer" else None
        except TokensUnusable as error:
            log.error("%s", error)
            return 503, "The tokens of this server cannot be read; its log says why.", 0
        if holder is not None:
            scope[CALLER] = holder
            return None
        if wait := self._wrong.wait_seconds(address, now):
            return 429, "Too many wrong tokens came from this address. Wait a moment.", wait
        if shown:
            self._wrong.take(address, now)
        return 401, "Send a token as `Authorization: Bearer …`; `nacre token add NAME` makes one.", 0

    def _too_often(self, scope: Scope, headers: dict[bytes, bytes]) -> tuple[int, str, float] | None:
        """The rate of a token, of a login, or of an address for those without one.

        Who logs in is not counted here: whatever others at this address do, a good token is let in.
        """
        caller: Token | None = scope.get(CALLER)
        if caller is None and scope["path"] == "/login" and scope["method"] == "POST":
            return None
        cookies = headers.get(b"cookie", b"").decode("latin-1")
        login = next(filter(None, (login_of(cookies) for login_of in self._logins)), "") if cookies else ""
        name = f"token {caller.digest}" if caller else f"login {login}" if login else _address_of(scope)
        now = self._seconds()
        if wait := self._asked.wait_seconds(name, now):
            whose = "with this token" if caller or login else "from this address"
            return 429, f"Too many requests came {whose}. Wait a moment.", wait
        if caller and self._at_once[caller.digest] >= MOST_AT_ONCE:
            return 429, f"This token has {MOST_AT_ONCE} requests open. Close some of its streams.", 1
        self._asked.take(name, now)
        return None

    def _holder(self, shown: str) -> Token | None:
        return self._tokens.holder_of(shown) if shown else None

    def _most_bytes(self, scope: Scope, *, declared: bool = False) -> int:
        """How large a body may be. One that is only `declared` at an open mount may be the owner's."""
        caller: Token | None = scope.get(CALLER)
        if caller is None:
            path = scope["path"]
            return self._most_body_bytes if declared and path != "/login" else MOST_BODY_BYTES_UNKNOWN
        return self._most_body_bytes if caller.is_owner else MOST_BODY_BYTES_OF_STRANGERS

    def _too_large(self, scope: Scope) -> str:
        return f"At most {self._most_bytes(scope)} bytes are taken at once of this caller."

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        taken_bytes, has_begun = 0, False

        async def limited() -> Message:
            nonlocal taken_bytes
            message = await receive()
            taken_bytes += len(message.get("body", b""))
            if taken_bytes > self._most_bytes(scope):
                raise HTTPException(413, self._too_large(scope))
            return message

        async def safe(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                there = {name.lower() for name, _ in message["headers"]}
                more = [(name, value) for name, value in _SAFE_HEADERS if name not in there]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        try:
            is_over = await self._until_revoked(scope, asyncio.ensure_future(self._app(scope, limited, safe)))
        except Exception:
            log.exception("a request to %s failed", scope["path"])
            if not has_begun:
                await _refuse(send, 500, "This request failed; the log of `nacre serve` says why.", 0)
            return
        if is_over:
            return
        log.info("a request to %s ended, because its token was revoked", scope["path"])
        if has_begun:
            with suppress(Exception):  # an answer whose length was told cannot end early
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        else:
            await _refuse(send, 401, "This token was revoked.", 0)

    async def _until_revoked(self, scope: Scope, serving: asyncio.Future[None]) -> bool:
        """Waits for an answer; false when it was broken off, because its caller's token is gone."""
        try:
            while not (await asyncio.wait((serving,), timeout=REVOKED_SECONDS))[0]:
                if self._is_revoked(scope.get(CALLER)):
                    return False
            await serving
            return True
        finally:
            if not serving.done():
                serving.cancel()
                await asyncio.wait((serving,))

    def _is_revoked(self, caller: Token | None) -> bool:
        try:
            return caller is not None and caller not in self._tokens.list()
        except TokensUnusable as error:
            log.error("%s", error)
            return False


async def _refuse(send: Send, status: int, sentence: str, wait_seconds: float) -> None:
    kinds = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
    kind = kinds.get(status, "server_error" if status >= 500 else "invalid_request_error")
    error = {"message": sentence, "type": kind, "param": None, "code": None}
    headers = [(b"content-type", b"application/json"), *_SAFE_HEADERS]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if wait_seconds:
        headers.append((b"retry-after", str(int(wait_seconds) + 1).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps({"error": error}).encode()})


def _address_of(scope: Scope) -> str:
    return str((scope.get("client") or ("",))[0])


def _host_and_port(address: bytes) -> tuple[str, int | None]:
    """The name in an address as it is compared, and its port; an empty name for what is none."""
    try:
        parts = urlsplit(address.decode("ascii"))
        return (parts.hostname or "").lower(), parts.port or {"https": 443}.get(parts.scheme, 80)
    except (UnicodeDecodeError, ValueError):
        return "", None


def _is_number_up_to(text: bytes, most: int) -> bool:
    return text.isdigit() and len(text) < 20 and int(text) <= most
