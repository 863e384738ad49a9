"""A loopback HTTP server for tests: on 127.0.0.1, in a thread of its own, with aiohttp.

It outlives a child process that is killed. It can hang up on everybody (`cut`), and be gone for a while and
back on its port (`stop`, `start`). What it knows stays in the object.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web

from tests.servers.listening import stop_accepting


@dataclass
class Failure:
    """How a request fails. `status` 0 hangs up; `is_done` first carries it out."""

    status: int = 0
    body: dict[str, Any] = field(default_factory=dict)
    is_done: bool = False


class LoopbackHttp:
    """Inherit it and add routes in `routes`. Use it as `with Mine() as server`."""

    def __init__(self) -> None:
        self.port = 0
        self.changed = threading.Condition()
        self._ready = threading.Event()
        self._connections: set[asyncio.Transport] = set()

    def routes(self, app: web.Application) -> None:
        """Adds what the server answers."""
        raise NotImplementedError

    def hang_up(self) -> None:
        """What else ends with the server, in its loop: requests that it holds."""

    @property
    def url(self) -> str:
        """The address."""
        return f"http://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Ends all connections."""
        self.soon(self._abort)

    def soon(self, call: Callable[[], object]) -> None:
        """Does something in the server's loop."""
        self.loop.call_soon_threadsafe(call)

    def wait_for(self, done: Callable[[Self], object], seconds: float = 60) -> None:
        """Waits until `done(self)`, looked at after each request."""
        with self.changed:
            assert self.changed.wait_for(lambda: done(self), seconds), f"it never came to that: {vars(self)}"

    async def until(self, done: Callable[[Self], object], seconds: float = 60) -> None:
        """The same for async tests."""
        await asyncio.to_thread(self.wait_for, done, seconds)

    def tell(self) -> None:
        """Lets those look who wait."""
        with self.changed:
            self.changed.notify_all()

    def start(self) -> None:
        """Listens, on the port of before."""
        self.loop = asyncio.new_event_loop()
        self._ready.clear()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(60)

    def stop(self) -> None:
        """Hangs up and is gone."""
        self.soon(self._stop.set)
        self._thread.join(60)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_ended: object) -> None:
        self.stop()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        app = web.Application(client_max_size=2**26, middlewares=[self._seen])
        self.routes(app)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        listening = socket.create_server(("127.0.0.1", self.port))
        await web.SockSite(runner, listening).start()
        self.port = listening.getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        await stop_accepting([listening])
        self.hang_up()
        self._abort()
        await runner.cleanup()
        await asyncio.sleep(0.05)  # what was aborted is closed by calls that the loop still has to make

    def _abort(self) -> None:
        for transport in self._connections:
            transport.abort()
        self._connections.clear()

    @web.middleware
    async def _seen(self, request: web.Request, handler: Any) -> web.StreamResponse:
        assert request.transport is not None
        self._connections.add(request.transport)
        try:
            answer: web.StreamResponse = await handler(request)
        finally:
            self.tell()
        return answer
