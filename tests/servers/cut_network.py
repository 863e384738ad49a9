"""A network between programs and a PostgreSQL server that a test may cut, or that swallows what is said."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Literal
from urllib.parse import parse_qs, urlsplit


class CutNetwork:
    """Use it as `with CutNetwork(url) as network`; programs connect to `network.url`.

    `state` is `open`, `cut` (connections end, new ones are refused) or `silent` (nothing arrives, and no
    connection ends).
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._socket = f"{parse_qs(parts.query)['host'][0]}/.s.PGSQL.5432"
        self._user, self._database = parts.username, parts.path
        self.state: Literal["open", "cut", "silent"] = "open"
        self.url = ""
        self._loop = asyncio.new_event_loop()
        self._ready, self._writers = threading.Event(), set[asyncio.StreamWriter]()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> CutNetwork:
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *_ended: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(60)

    def become(self, state: Literal["open", "cut", "silent"]) -> None:
        """Changes what the network does, for all connections."""
        self.state = state
        if state != "silent":  # what was swallowed is lost, so no connection goes on behind it
            self._loop.call_soon_threadsafe(lambda: [writer.close() for writer in list(self._writers)])

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        self.url = f"postgresql://{self._user}:@127.0.0.1:{port}{self._database}"
        self._ready.set()
        await self._stop.wait()
        server.close()
        for writer in list(self._writers):
            writer.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.state == "cut":
            writer.close()
            return
        there, back = await asyncio.open_unix_connection(self._socket)
        self._writers |= {writer, back}
        await asyncio.gather(self._forward(reader, back), self._forward(there, writer))
        self._writers -= {writer, back}

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                if self.state == "open":
                    writer.write(data)
                    await writer.drain()
        with suppress(OSError):
            writer.close()
