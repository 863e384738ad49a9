"""The HTTP server of `nacre serve`: its connections, `/health`, `/metrics`, and the mounts of extensions.

uvicorn limits the number of connections by refusing new ones, so a client that opens enough silent
connections locks out everyone else. This server closes the connection with the lowest priority instead.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self, cast

import uvicorn
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from nacre.bridges.channels.connection import is_loopback
from nacre.extensions.http.server.guard import MOST_BODY_BYTES, Guard
from nacre.extensions.http.server.tokens import Tokens
from nacre.record import Record
from nacre.runtime.extensions.service import CALLER, HttpMount

log = logging.getLogger(__name__)
OTHER = "other"
Figures = Callable[[], Awaitable[Mapping[str, float]]]
"""Returns further metrics, by names that include their units and may end with labels, as in
`bridge_connected{channel="irc"}`. Called for each request of `/metrics`."""
_LABEL = re.compile(r'(\w+)="([^"]*)"')


class ConnectionLimits(Record):
    """Limits on connections.

    Above `most`, the oldest idle connection is closed, then the oldest one whose caller is unknown, and
    otherwise the new one. Each connection has `head_seconds` to send the head of its first request.
    """

    most: int = 500
    head_seconds: float = 10.0


class Connection(H11Protocol):
    """A uvicorn connection that is closed if it stays silent, or if another connection needs its place."""

    limits = ConnectionLimits()
    _silence_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        if len(self.connections) >= self.limits.most:
            connections = cast("Iterable[Connection]", sorted(self.connections, key=_age))
            candidates = [each for each in connections if not each.has_known_caller]
            oldest = next(iter(candidates), None)
            evicted = next((each for each in candidates if each.is_idle), oldest)
            if evicted is None:
                log.warning("a connection was refused: %d are busy", len(self.connections))
                super().connection_made(transport)
                transport.abort()
                return
            evicted.transport.abort()
            self.connections.discard(evicted)
        super().connection_made(transport)
        self._silence_timer = self.loop.call_later(self.limits.head_seconds, self._close_silent)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._silence_timer is not None:
            self._silence_timer.cancel()
        super().connection_lost(exc)

    @property
    def is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    @property
    def has_known_caller(self) -> bool:
        return not self.is_idle and CALLER in self.scope

    def _close_silent(self) -> None:
        if self.cycle is None and not self.transport.is_closing():
            self.transport.abort()


def _age(connection: Any) -> float:
    silent: asyncio.TimerHandle | None = connection._silence_timer
    return silent.when() if silent is not None else 0.0


async def no_figures() -> Mapping[str, float]:
    return {}


class Metrics:
    """Metrics of the requests and those of `figures`, in their own registry, without names of callers."""

    def __init__(self, mounts: Sequence[str], figures: Figures = no_figures) -> None:
        self._mounts = tuple(path for path in mounts if path)
        self._figures = figures
        self._figures_now: Mapping[str, float] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self._requests = Counter(
            "nacre_http_requests",
            "Requests by mount and status class.",
            ("door", "status"),
            registry=self._registry,
        )
        self._open = Gauge(
            "nacre_http_open_requests", "Requests in progress.", ("door",), registry=self._registry
        )
        self._seconds = Histogram(
            "nacre_http_request_seconds",
            "Seconds until the complete response was sent.",
            ("door",),
            registry=self._registry,
            buckets=(0.005, 0.02, 0.1, 0.5, 2, 10, 60),
        )

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yields the latest metrics of `figures`; the library calls it."""
        families: dict[str, GaugeMetricFamily] = {}
        for labeled, value in self._figures_now.items():
            name, _, inside = labeled.partition("{")
            labels = dict(_LABEL.findall(inside))
            told = name.replace("_", " ").capitalize() + "."
            family = families.setdefault(name, GaugeMetricFamily(f"nacre_{name}", told, labels=[*labels]))
            family.add_metric([*labels.values()], value)
        yield from families.values()

    def count_requests(self, app: ASGIApp) -> ASGIApp:
        """Wraps an app so that its requests are counted."""

        async def count(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                return
            mount = next(
                (
                    path
                    for path in self._mounts
                    if scope["path"] == path or scope["path"].startswith(f"{path}/")
                ),
                OTHER,
            )
            status = 500

            async def send_and_record(message: Message) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = message["status"]
                await send(message)

            started = time.perf_counter()
            self._open.labels(mount).inc()
            try:
                await app(scope, receive, send_and_record)
            finally:
                self._open.labels(mount).dec()
                self._requests.labels(mount, f"{status // 100}xx").inc()
                self._seconds.labels(mount).observe(time.perf_counter() - started)

        return count

    def mount(self) -> HttpMount:
        async def metrics(_request: Request) -> Response:
            self._figures_now = await self._figures()
            return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_LATEST)

        return HttpMount(path="/metrics", routes=[Route("/", metrics, methods=["GET"])])


_DEFAULT_LIMITS = ConnectionLimits()


class ServerUnusable(Exception):
    """The server cannot listen at its address."""


class _Uvicorn(uvicorn.Server):
    """Leaves signals to the surrounding program, and reports when it is listening."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class HttpServer:
    def __init__(
        self, server: uvicorn.Server, running: asyncio.Task[None], mounts: Sequence[HttpMount]
    ) -> None:
        self._server, self._running, self._mounts = server, running, mounts
        host, port = server.servers[0].sockets[0].getsockname()[:2]
        self.url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    @classmethod
    async def start(
        cls,
        mounts: Sequence[HttpMount],
        *,
        tokens: Tokens,
        host: str,
        port: int,
        hosts: Sequence[str] = (),
        trusted_proxies: Sequence[str] = (),
        most_body_bytes: int = MOST_BODY_BYTES,
        connections: ConnectionLimits = _DEFAULT_LIMITS,
        figures: Figures = no_figures,
    ) -> Self:
        """Listens at `host` and `port`; port 0 takes any free one.

        `hosts` are further names of the server. The client's address and scheme are read from headers only if
        `trusted_proxies` contains the sender.

        Raises:
            ServerUnusable: the address is taken or not local, or is reachable by others while there is no
                token.
            TokensUnusable: the tokens cannot be read.
        """
        if not is_loopback(host) and not await asyncio.to_thread(tokens.list):
            raise ServerUnusable(
                f"http.host is {host!r}, which other machines can reach, but there is no token. Create one "
                "with `nacre admin access token add NAME`, or set http.host to 127.0.0.1."
            )
        listening = _listen(host, port)
        metrics = Metrics([mount.path for mount in mounts], figures)
        mounts = (metrics.mount(), *mounts)
        mounted = [route for mount in mounts for route in _routes(mount)]
        app = Starlette(routes=[Route("/health", _health, methods=["GET"]), *mounted])
        own = () if host in ("0.0.0.0", "::") else (host,)
        guarded = Guard(
            app, tokens=tokens, mounts=mounts, own=own, hosts=hosts, most_body_bytes=most_body_bytes
        )
        server = _Uvicorn(
            uvicorn.Config(
                metrics.count_requests(guarded),
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                http=type("LimitedConnection", (Connection,), {"limits": connections}),
                ws="none",
                proxy_headers=bool(trusted_proxies),
                forwarded_allow_ips=list(trusted_proxies),
                timeout_graceful_shutdown=1,
            )
        )
        running = asyncio.create_task(server.serve(sockets=[listening]))
        running.add_done_callback(lambda _ended: server.listening.set())
        await server.listening.wait()
        if running.done():
            raise ServerUnusable(f"The server could not be started at {host}:{port}: {running.exception()}.")
        return cls(server, running, mounts)

    async def close(self, *, turn_seconds: float = 0.0) -> None:
        """Stops accepting requests, waits up to `turn_seconds` for running ones, and closes the mounts."""
        self._server.config.timeout_graceful_shutdown = max(1, round(turn_seconds))
        self._server.should_exit = True
        await self._running
        for mount in self._mounts:
            for close in mount.closing:
                await close()


def _listen(host: str, port: int) -> socket.socket:
    try:
        listening = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=512
        )
    except (OSError, OverflowError) as error:
        raise ServerUnusable(
            f"The server cannot listen at {host}:{port} ({error}). Is another `nacre serve` running? "
            "Choose another http.port."
        ) from error
    # asyncio sets this only on sockets that name their protocol. Without it each response takes 40 ms longer.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _routes(mount: HttpMount) -> Iterator[BaseRoute]:
    """The routes of a mount. Its `/` also answers at the path without a slash, before another mount's `/`
    does.
    """
    for route in mount.routes:
        if isinstance(route, Route) and route.path == "/" and mount.path != "/":
            methods = sorted(route.methods) if route.methods else None
            yield Route(mount.path, route.endpoint, methods=methods)
    yield Mount(mount.path, routes=mount.routes)


async def _health(_request: Request) -> Response:
    return JSONResponse({"status": "ok"})
