"""What stands in front of every door: names of hosts, where a page comes from, sizes, rates, tokens.

A page of another site can have a browser ask a server on this machine, under a name that it makes point here
(DNS rebinding). So a request is served only under a name that is known, and only for a page of the same name.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nacre.doors.http.door import Door
from nacre.doors.http.limits import Rate
from nacre.doors.http.tokens import Token, Tokens, TokensUnusable

MOST_BODY_BYTES = 32 * 1024 * 1024
MOST_QUESTIONS, QUESTIONS_A_SECOND = 300, 50.0
MOST_WRONG_TOKENS, WRONG_TOKENS_A_SECOND = 10, 0.1
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_TOO_LARGE = f"At most {MOST_BODY_BYTES} bytes are taken at once."
_SAFE_HEADERS = ((b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer"))

log = logging.getLogger(__name__)


class Guard:
    """The app behind the checks. It is asked under the names `hosts`; `doors` say who wants tokens."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        tokens: Tokens,
        doors: Sequence[Door],
        hosts: Sequence[str],
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._tokens = tokens
        self._closed = tuple(door.path for door in doors if door.wants_token)
        self._hosts = {host.lower() for host in (*LOOPBACK, *hosts)}
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
        await self._serve(scope, receive, send)

    def _refusal(self, scope: Scope, headers: dict[bytes, bytes]) -> tuple[int, str, float] | None:
        """Status, sentence and seconds to wait of a request that is not served."""
        host = _host_of(b"//" + headers.get(b"host", b""))
        if host not in self._hosts:
            return 421, f"This server is not called {host!r}: see http.hosts in the settings.", 0
        origin = headers.get(b"origin")
        if origin is not None and _host_of(origin) not in self._hosts:
            return 403, "A page of another site may not ask this server.", 0
        if not _is_number_up_to(headers.get(b"content-length", b"0"), MOST_BODY_BYTES):
            return 413, _TOO_LARGE, 0
        address, now = (scope.get("client") or ("",))[0], self._seconds()
        wait = self._asked.wait_seconds(address, now)
        if wait:
            return 429, "Too many requests came from this address. Wait a moment.", wait
        self._asked.take(address, now)
        return self._without_token(scope, headers, address, now)

    def _without_token(
        self, scope: Scope, headers: dict[bytes, bytes], address: str, now: float
    ) -> tuple[int, str, float] | None:
        path = scope["path"]
        if not any(path == door or path.startswith(f"{door}/") for door in self._closed):
            return None
        if wait := self._wrong.wait_seconds(address, now):
            return 429, "Too many wrong tokens came from this address. Wait a moment.", wait
        kind, _, shown = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        try:
            holder = self._holder(shown.strip()) if kind.lower() == "bearer" else None
        except TokensUnusable as error:
            log.error("%s", error)
            return 503, "The tokens of this server cannot be read; its log says why.", 0
        if holder is None:
            if shown:
                self._wrong.take(address, now)
            return 401, "Send a token as `Authorization: Bearer …`; `nacre token add NAME` makes one.", 0
        scope["nacre.caller"] = holder
        return None

    def _holder(self, shown: str) -> Token | None:
        return self._tokens.holder_of(shown) if shown else None

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        taken_bytes, has_begun = 0, False

        async def limited() -> Message:
            nonlocal taken_bytes
            message = await receive()
            taken_bytes += len(message.get("body", b""))
            if taken_bytes > MOST_BODY_BYTES:
                raise HTTPException(413, _TOO_LARGE)
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
            await self._app(scope, limited, safe)
        except Exception:
            log.exception("a request to %s failed", scope["path"])
            if not has_begun:
                await _refuse(send, 500, "This request failed; the log of `nacre serve` says why.", 0)


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


def _host_of(address: bytes) -> str:
    """The name in an address, without its port, as it is compared; empty for what is none."""
    try:
        return (urlsplit(address.decode("ascii")).hostname or "").lower()
    except (UnicodeDecodeError, ValueError):
        return ""


def _is_number_up_to(text: bytes, most: int) -> bool:
    return text.isdigit() and len(text) < 20 and int(text) <= most
