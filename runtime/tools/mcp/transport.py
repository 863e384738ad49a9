"""The streams to a server, a program or an address, over the library's transports. Edge."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from nacre.memory.contracts.settings import at_home
from nacre.runtime.settings.sections.mcp import McpServer

MOST_ERROR_CHARS = 4_000
"""So much of what a program last wrote on standard error is kept, to tell why it ended."""


class LastWords(asyncio.Protocol):
    """The end of what a program writes on standard error; the rest is thrown away as it comes."""

    def __init__(self) -> None:
        self._bytes = b""

    def data_received(self, data: bytes) -> None:
        """Takes what was written."""
        self._bytes = (self._bytes + data)[-MOST_ERROR_CHARS:]

    @property
    def line(self) -> str:
        """The last line that says something."""
        lines = self._bytes.decode("utf-8", "replace").strip().splitlines()
        return lines[-1].strip()[:300] if lines else ""


@asynccontextmanager
async def streams(
    server: McpServer, home: Path, words: LastWords, ended: Callable[[], None]
) -> AsyncIterator[tuple[Any, Any]]:
    """The streams to read from and to write to; `ended` is called when the server says no more."""
    async with _opened(server, home, words) as (read, write):
        sender, receiver = anyio.create_memory_object_stream[Any](0)

        async def pass_on() -> None:
            async with sender:
                try:
                    async for message in read:
                        await sender.send(message)
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    pass  # the session is gone
            ended()

        async with anyio.create_task_group() as group:
            group.start_soon(pass_on)
            try:
                yield receiver, write
            finally:
                group.cancel_scope.cancel()
                receiver.close()


@asynccontextmanager
async def _opened(server: McpServer, home: Path, words: LastWords) -> AsyncIterator[tuple[Any, Any]]:
    if server.url:
        async with (
            create_mcp_http_client(headers=dict(server.headers)) as client,
            streamable_http_client(server.url, http_client=client) as (read, write),
        ):
            yield read, write
        return
    reading, writing = os.pipe()
    pipe, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: words, os.fdopen(reading, "rb"))
    try:
        with os.fdopen(writing, "w") as errors:
            asked = StdioServerParameters(
                command=at_home(server.command, home),
                args=list(server.args),
                env=dict(server.env),
                cwd=at_home(server.cwd, home) or None,
                encoding_error_handler="replace",
            )
            async with stdio_client(asked, errlog=errors) as (read, write):
                yield read, write
    finally:
        pipe.close()
