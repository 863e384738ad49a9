"""Checks every request before its mount sees it: host names, origins, sizes, rates and tokens.

A web page of another site can make a browser send requests to a server on this machine, under a name that the
page's owner points here (DNS rebinding). So a request is served only under a known name, and only for a page
of that name.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nacre.extensions.http.server.tokens import Tokens, TokensUnusable
from nacre.runtime.extensions.service import CALLER, HttpMount, Token

MOST_KNOWN = 10_000
"""The number of names in memory; the least recently used one is forgotten first."""
MOST_WRONG_TOKENS, WRONG_TOKENS_A_SECOND = 10, 0.1
MOST_BODY_BYTES = 32 * 1024 * 1024
MOST_BODY_BYTES_OF_STRANGERS = 4 * 1024 * 1024
MOST_BODY_BYTES_UNKNOWN = 64 * 1024
"""The limit for callers without a token, and for the admin API. A form that submits a token is smaller."""
MOST_AT_ONCE = 100
"""The most concurrent requests of one token, including open streams."""
REVOKED_SECONDS = 0.5
"""How often the token of a running request is checked."""
MOST_REQUESTS, REQUESTS_A_SECOND = 300, 50.0
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_SAFE_HEADERS = ((b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer"))
log = logging.getLogger(__name__)


@dataclass
class _Bucket:
    tokens: float
    at_seconds: float


class Rate:
    """A token bucket for each name: it holds `most` and refills at `per_second`."""

    def __init__(self, *, most: int, per_second: float) -> None:
        self._most, self._per_second = most, per_second
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def wait_seconds(self, name: str, now_seconds: float) -> float:
        """How long `name` must wait before its next request; 0 if it need not. Takes nothing."""
        tokens = self._filled(name, now_seconds).tokens
        return 0.0 if tokens >= 1 else (1 - tokens) / self._per_second

    def take(self, name: str, now_seconds: float) -> None:
        self._filled(name, now_seconds).tokens -= 1

    def _filled(self, name: str, now_seconds: float) -> _Bucket:
        bucket = self._buckets.get(name)
        if bucket is None:
            if len(self._buckets) >= MOST_KNOWN:
                self._buckets.popitem(last=False)
            bucket = self._buckets[name] = _Bucket(self._most, now_seconds)
        self._buckets.move_to_end(name)
        elapsed = max(0.0, now_seconds - bucket.at_seconds)
        bucket.tokens = min(self._most, bucket.tokens + elapsed * self._per_second)
        bucket.at_seconds = now_seconds
        return bucket


class Guard:
    """An ASGI app that checks requests for the app behind it. `mounts` say which paths need a token.

    Requests must use one of its `own` addresses or one of the names in `hosts`, which may be those of a
    proxy.
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
        self._token_paths = {mount.path: mount.for_admin for mount in mounts if mount.wants_token}
        self._logins = tuple(mount.login_of for mount in mounts if not mount.wants_token)
        self._own = {host.lower() for host in (*LOOPBACK, *own)}
        self._hosts = self._own | {host.lower() for host in hosts}
        self._most_body_bytes = most_body_bytes
        self._at_once: Counter[str] = Counter()
        self._seconds = seconds
        self._request_rate = Rate(most=MOST_REQUESTS, per_second=REQUESTS_A_SECOND)
        self._wrong_token_rate = Rate(most=MOST_WRONG_TOKENS, per_second=WRONG_TOKENS_A_SECOND)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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
        """Status, sentence and seconds to wait, if the request is refused."""
        requested = _host_and_port(b"//" + headers.get(b"host", b""))
        if requested[0] not in self._hosts:
            problem = f"This server is not called {requested[0]!r}. To serve that name, add it to http.hosts."
            return 421, problem, 0
        origin = headers.get(b"origin")
        if origin is not None and not self._is_own_page(_host_and_port(origin), requested):
            return 403, "Pages of other sites may not send requests to this server.", 0
        refusal = self._token_refusal(scope, headers) or self._over_rate(scope, headers)
        if refusal is not None:
            return refusal
        length, most_bytes = headers.get(b"content-length", b"0"), self._most_bytes(scope, declared=True)
        if not (length.isdigit() and len(length) < 20 and int(length) <= most_bytes):
            return 413, self._too_large(scope), 0
        return None

    def _is_own_page(self, origin: tuple[str, int | None], requested: tuple[str, int | None]) -> bool:
        """Whether a page belongs to this server. At its own addresses, another port is another program.

        For a proxy only the name is compared, because it may forward requests under another name and port.
        """
        return origin[0] in self._hosts and (origin[0] not in self._own or origin[1] == requested[1])

    def _token_refusal(self, scope: Scope, headers: dict[bytes, bytes]) -> tuple[int, str, float] | None:
        """Stores the caller in the scope of a request to a mount that needs a token, or returns a refusal.

        Wrong tokens are counted per address. A good token is never refused because of others' wrong ones: a
        token is too long to be guessed, and looking it up is cheap.
        """
        path, address, now = scope["path"], _address_of(scope), self._seconds()
        found = [each for each in self._token_paths if path == each or path.startswith(f"{each}/")]
        if not found:
            return None
        is_admin = any(self._token_paths[each] for each in found)
        scheme, _, credential = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        bearer = credential.strip() if scheme.lower() == "bearer" else ""
        try:
            holder = self._tokens.holder_of(bearer, is_admin=is_admin) if bearer else None
        except TokensUnusable as error:
            log.error("%s", error)
            return 503, "The server cannot read its tokens; see its log.", 0
        if holder is not None:
            scope[CALLER] = holder
            return None
        if wait := self._wrong_token_rate.wait_seconds(address, now):
            return 429, "Too many wrong tokens came from this address. Wait a moment.", wait
        if credential:
            self._wrong_token_rate.take(address, now)
        how = "nacre admin access token add NAME" + (" --admin" if is_admin else "")
        problem = "This token gives no access here" if bearer else "Send a token as `Authorization: Bearer …`"
        return 401, f"{problem}; `{how}` makes one.", 0

    def _over_rate(self, scope: Scope, headers: dict[bytes, bytes]) -> tuple[int, str, float] | None:
        """The rate limit of a token, of a login, or of an address without either.

        Logging in is not counted, so that a good token is accepted whatever others at the address do.
        """
        caller: Token | None = scope.get(CALLER)
        if caller is None and scope["path"] == "/login" and scope["method"] == "POST":
            return None
        cookies = headers.get(b"cookie", b"").decode("latin-1")
        login = next(filter(None, (login_of(cookies) for login_of in self._logins)), "") if cookies else ""
        name = f"token {caller.digest}" if caller else f"login {login}" if login else _address_of(scope)
        now = self._seconds()
        if wait := self._request_rate.wait_seconds(name, now):
            whose = "with this token" if caller or login else "from this address"
            return 429, f"Too many requests came {whose}. Wait a moment.", wait
        if caller and self._at_once[caller.digest] >= MOST_AT_ONCE:
            return 429, f"This token has {MOST_AT_ONCE} open requests. Close some of its streams.", 1
        self._request_rate.take(name, now)
        return None

    def _most_bytes(self, scope: Scope, *, declared: bool = False) -> int:
        """The size limit of a body. A body `declared` to an open mount may be the owner's."""
        caller: Token | None = scope.get(CALLER)
        if caller is None:
            path = scope["path"]
            return self._most_body_bytes if declared and path != "/login" else MOST_BODY_BYTES_UNKNOWN
        if caller.is_admin:
            return MOST_BODY_BYTES_UNKNOWN
        return self._most_body_bytes if caller.is_owner else MOST_BODY_BYTES_OF_STRANGERS

    def _too_large(self, scope: Scope) -> str:
        return f"The request is too large: the limit for this caller is {self._most_bytes(scope)} bytes."

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        received_bytes, has_started = 0, False

        async def limited() -> Message:
            nonlocal received_bytes
            message = await receive()
            received_bytes += len(message.get("body", b""))
            if received_bytes > self._most_bytes(scope):
                raise HTTPException(413, self._too_large(scope))
            return message

        async def safe(message: Message) -> None:
            nonlocal has_started
            if message["type"] == "http.response.start":
                has_started = True
                present = {name.lower() for name, _ in message["headers"]}
                missing = [(name, value) for name, value in _SAFE_HEADERS if name not in present]
                message = {**message, "headers": [*message["headers"], *missing]}
            await send(message)

        try:
            is_complete = await self._until_revoked(
                scope, asyncio.ensure_future(self._app(scope, limited, safe))
            )
        except Exception:
            log.exception("a request to %s failed", scope["path"])
            if not has_started:
                await _refuse(send, 500, "The request failed; see the log of `nacre serve`.", 0)
            return
        if is_complete:
            return
        log.info("a request to %s ended, because its token was revoked", scope["path"])
        if has_started:
            with suppress(Exception):  # a response with a declared length cannot end early
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        else:
            await _refuse(send, 401, "This token was revoked.", 0)

    async def _until_revoked(self, scope: Scope, serving: asyncio.Future[None]) -> bool:
        """Waits for the response; false if it was ended because the caller's token was revoked."""
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
    """The lowercase name and the port of an address; the name is empty if the address is invalid."""
    try:
        parts = urlsplit(address.decode("ascii"))
        return (parts.hostname or "").lower(), parts.port or {"https": 443}.get(parts.scheme, 80)
    except (UnicodeDecodeError, ValueError):
        return "", None
