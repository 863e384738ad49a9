"""A wire to a server that a test can cut, where starting the server anew would take too long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tests.servers.listening import stop_accepting


class Relay:
    """Takes connections at `port` and carries their bytes to a server."""

    def __init__(self, target_port: int) -> None:
        self.port = 0
        self._target_port = target_port
        self._writers: set[asyncio.StreamWriter] = set()
        self._refuses = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        if self._refuses:
            self._refuses = False
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection("127.0.0.1", self._target_port)
        self._writers |= {writer, back}
        await asyncio.gather(_carry(reader, back), _carry(there, writer))
        self._writers -= {writer, back}

    def cut(self, *, and_next: bool = False) -> None:
        """Ends every connection. `and_next`: the next one too, where a library asks once more by itself."""
        self._refuses = and_next
        for writer in self._writers:
            writer.transport.abort()


@asynccontextmanager
async def relayed(target_port: int) -> AsyncIterator[Relay]:
    """A wire to a server."""
    relay = Relay(target_port)
    listening = await asyncio.start_server(relay.serve, "127.0.0.1", 0)
    relay.port = listening.sockets[0].getsockname()[1]
    try:
        yield relay
    finally:
        await stop_accepting(listening.sockets)
        listening.close()
        relay.cut()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(2**16):
            writer.write(data)
            await writer.drain()
    writer.close()
