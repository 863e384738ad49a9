"""`/metrics` for Prometheus: counts and times by mount, without anybody's name."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nacre.runtime.extensions.service import HttpMount

OTHER = "other"
Figures = Callable[[], Awaitable[Mapping[str, float]]]
"""What else is told, by names with their units; asked for each time."""


async def nothing_else() -> Mapping[str, float]:
    """For a server that knows of nothing but its requests."""
    return {}


class Metrics:
    """What the server counts of its requests, and what `figures` tells, in a registry of its own."""

    def __init__(self, mounts: Sequence[str], figures: Figures = nothing_else) -> None:
        self._mounts = tuple(path for path in mounts if path)
        self._figures = figures
        self._found: Mapping[str, float] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self._requests = Counter(
            "nacre_http_requests",
            "Requests by mount and class of status.",
            ("door", "status"),
            registry=self._registry,
        )
        self._open = Gauge(
            "nacre_http_open_requests", "Requests that are answered now.", ("door",), registry=self._registry
        )
        self._seconds = Histogram(
            "nacre_http_request_seconds",
            "Seconds until an answer had been sent whole.",
            ("door",),
            registry=self._registry,
            buckets=(0.005, 0.02, 0.1, 0.5, 2, 10, 60),
        )

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """What `figures` told last, as the library asks for it."""
        for name, value in self._found.items():
            yield GaugeMetricFamily(f"nacre_{name}", name.replace("_", " ").capitalize() + ".", value=value)

    def counted(self, app: ASGIApp) -> ASGIApp:
        """The app, with its requests counted."""

        async def counting(scope: Scope, receive: Receive, send: Send) -> None:
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

            async def heard(message: Message) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = message["status"]
                await send(message)

            began = time.perf_counter()
            self._open.labels(mount).inc()
            try:
                await app(scope, receive, heard)
            finally:
                self._open.labels(mount).dec()
                self._requests.labels(mount, f"{status // 100}xx").inc()
                self._seconds.labels(mount).observe(time.perf_counter() - began)

        return counting

    def mount(self) -> HttpMount:
        """`/metrics`, for whoever has a token."""

        async def metrics(_request: Request) -> Response:
            self._found = await self._figures()
            return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_LATEST)

        return HttpMount(path="/metrics", routes=[Route("/", metrics, methods=["GET"])])
