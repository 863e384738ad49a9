"""The HTTP server in the process of `nacre serve`. Edge: uvicorn and the socket."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Self

import uvicorn
from starlette.applications import Starlette
from starlette.routing import BaseRoute, Mount, Route

from nacre.extensions.http.server.connections import ConnectionLimits, limited_to
from nacre.extensions.http.server.guard import LOOPBACK, MOST_BODY_BYTES, Guard
from nacre.extensions.http.server.health import health
from nacre.extensions.http.server.metrics import Figures, Metrics, nothing_else
from nacre.extensions.http.server.tokens import Tokens
from nacre.runtime.extensions.service import HttpMount

_USUAL_LIMITS = ConnectionLimits()


class ServerUnusable(Exception):
    """The server cannot listen there."""


class _Uvicorn(uvicorn.Server):
    """Leaves signals to the program that it runs in, and says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn does."""
        await super().startup(sockets)
        self.listening.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class HttpServer:
    """A running server; `close` ends it."""

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
        connections: ConnectionLimits = _USUAL_LIMITS,
        figures: Figures = nothing_else,
    ) -> Self:
        """Listens at `host` and `port`, 0 for any that is free. `hosts` are further names of the
        server, `figures` what `/metrics` tells beside requests. Who asks and by which scheme is read from
        the headers of `trusted_proxies` alone.

        Raises:
            ServerUnusable: the address is taken or not of this machine, or is open to others while nobody
                has a token.
            TokensUnusable: the tokens cannot be read.
        """
        if not is_loopback(host) and not await asyncio.to_thread(tokens.list):
            raise ServerUnusable(
                f"http.host is {host!r}, which others can reach, and there is no token. Make one with "
                "`nacre token add NAME`, or leave http.host at 127.0.0.1."
            )
        listening = _listening(host, port)
        metrics = Metrics([mount.path for mount in mounts], figures)
        mounts = (metrics.mount(), *mounts)
        mounted = [route for mount in mounts for route in _mounted(mount)]
        app = Starlette(routes=[Route("/health", health, methods=["GET"]), *mounted])
        own = () if host in ("0.0.0.0", "::") else (host,)
        guarded = Guard(
            app, tokens=tokens, mounts=mounts, own=own, hosts=hosts, most_body_bytes=most_body_bytes
        )
        server = _Uvicorn(
            uvicorn.Config(
                metrics.counted(guarded),
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                http=limited_to(connections),
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
        """Takes no more, lets what runs end for `turn_seconds`, and closes the mounts."""
        self._server.config.timeout_graceful_shutdown = max(1, round(turn_seconds))
        self._server.should_exit = True
        await self._running
        for mount in self._mounts:
            for close in mount.closing:
                await close()


def _listening(host: str, port: int) -> socket.socket:
    try:
        listening = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=512
        )
    except (OSError, OverflowError) as error:
        raise ServerUnusable(
            f"The server cannot listen at {host}:{port} ({error}). Is another `nacre serve` running? "
            "Choose another number for http.port."
        ) from error
    # asyncio sets it only on sockets that name their protocol. Without it each answer waits 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _mounted(mount: HttpMount) -> Iterator[BaseRoute]:
    """The routes of a mount; what is at `path/` is at `path` too, before another mount's `/` has it."""
    for route in mount.routes:
        if isinstance(route, Route) and route.path == "/" and mount.path != "/":
            methods = sorted(route.methods) if route.methods else None
            yield Route(mount.path, route.endpoint, methods=methods)
    yield Mount(mount.path, routes=mount.routes)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return host in LOOPBACK or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
