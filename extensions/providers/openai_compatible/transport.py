"""Carries httpx's requests over asyncio and h11.

httpx's own transport looks at every connection for each request, asks the system about each idle one, and
stops and starts reading for each piece. With 200 answers at once that was a third of what a turn computes.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from typing import Any, TypeAlias, cast

import h11
import httpx

MAX_UNREAD_BYTES = 256 * 1024
"""Beyond this nothing more is read until somebody takes what has arrived."""

_Origin: TypeAlias = tuple[str, str, int]


class Transport(httpx.AsyncBaseTransport):
    """As many connections as there are requests at once; each is kept for `keep_seconds` after a response."""

    def __init__(self, tls: ssl.SSLContext | None, *, keep_seconds: float) -> None:
        self._tls = tls
        self._keep_seconds = keep_seconds
        self._idle: dict[_Origin, list[_Connection]] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        port = url.port or (443 if url.scheme == "https" else 80)
        origin = (url.scheme, url.raw_host.decode("ascii"), port)
        idle = self._idle.setdefault(origin, [])
        while idle:
            if (connection := idle.pop()).take():
                break
        else:
            connection = await self._connect(origin, request)
        try:
            head = await connection.ask(request)
        except BaseException:
            connection.transport.abort()
            raise
        body = _Body(connection, idle, self._keep_seconds)
        return httpx.Response(head.status_code, headers=head.headers.raw_items(), stream=body)

    async def aclose(self) -> None:
        for idle in self._idle.values():
            while idle:
                connection = idle.pop()
                connection.take()
                connection.transport.close()

    async def _connect(self, origin: _Origin, request: httpx.Request) -> _Connection:
        scheme, host, port = origin
        tls = (self._tls or True) if scheme == "https" else None
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(request.extensions["timeout"]["connect"]):
                _, made = await loop.create_connection(
                    _Connection, host, port, ssl=tls, happy_eyeballs_delay=0.25
                )
        except TimeoutError as error:
            raise httpx.ConnectTimeout(str(error)) from error
        except OSError as error:
            raise httpx.ConnectError(str(error)) from error
        return made


class _Connection(asyncio.Protocol):
    """Serves one request after the other."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._http = h11.Connection(h11.CLIENT)
        self._reader: asyncio.Future[None] | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._unread_bytes = 0
        self._error: Exception | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._unread_bytes += len(data)
        if self._unread_bytes > MAX_UNREAD_BYTES:
            self.transport.pause_reading()
        self._http.receive_data(data)
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._error = exc
        if exc is None:
            self._http.receive_data(b"")
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    async def ask(self, request: httpx.Request) -> h11.Response:
        """Sends a request, and returns the head of the response."""
        head = h11.Request(method=request.method, target=request.url.raw_path, headers=request.headers.raw)
        events = (head, h11.Data(data=await request.aread()), h11.EndOfMessage())
        try:
            self.transport.write(b"".join(self._http.send(event) or b"" for event in events))
        except h11.LocalProtocolError as error:
            raise httpx.LocalProtocolError(str(error)) from error
        while True:
            event = self._event()
            if isinstance(event, h11.Response):
                return event
            if event is h11.NEED_DATA:
                await self._arrival()

    async def body(self) -> AsyncIterator[bytes]:
        """The body of the response: all that has arrived, whenever something has."""
        pieces: list[bytes] = []
        event: Any = None
        while not isinstance(event, h11.EndOfMessage):
            try:
                event = self._event()
            except httpx.HTTPError:
                if pieces:
                    yield b"".join(pieces)
                raise
            if isinstance(event, h11.Data):
                pieces.append(event.data)
            elif pieces:
                yield b"".join(pieces)
                pieces.clear()
            elif event is h11.NEED_DATA:
                await self._arrival()

    def _event(self) -> Any:
        try:
            event = self._http.next_event()
        except h11.RemoteProtocolError as error:
            raise httpx.RemoteProtocolError(str(error)) from error
        if event is h11.NEED_DATA:
            if self._error is not None:
                raise httpx.ReadError(str(self._error)) from self._error
            self._unread_bytes = 0
            self.transport.resume_reading()
        return event

    async def _arrival(self) -> None:
        self._reader = asyncio.get_running_loop().create_future()
        await self._reader

    def keep(self, idle: list[_Connection], seconds: float) -> None:
        """Adds it to `idle` for so long if its response is complete, and closes it otherwise."""
        self._unread_bytes = len(self._http.trailing_data[0])
        try:
            self._http.start_next_cycle()
        except h11.LocalProtocolError:
            self.transport.abort()
            return
        idle.append(self)
        self._expiry = asyncio.get_running_loop().call_later(seconds, self._expire, idle)

    def _expire(self, idle: list[_Connection]) -> None:
        idle.remove(self)
        self.transport.close()

    def take(self) -> bool:
        """Whether it can serve a request: the server has not closed it, and not spoken unasked."""
        if self._expiry is not None:
            self._expiry.cancel()
        is_fresh = not self._unread_bytes and not self.transport.is_closing()
        if not is_fresh:
            self.transport.abort()
        return is_fresh


class _Body(httpx.AsyncByteStream):
    def __init__(self, connection: _Connection, idle: list[_Connection], keep_seconds: float) -> None:
        self._connection, self._idle, self._keep_seconds = connection, idle, keep_seconds

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._connection.body()

    async def aclose(self) -> None:
        self._connection.keep(self._idle, self._keep_seconds)
