"""The streams to a server, a program or an address, over the library's transports. Edge."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from nacre.memory.contracts.settings import at_home
from nacre.runtime.settings.sections.mcp import McpServer

MOST_ERROR_CHARS = 4_000
"""So much of what a program last wrote on standard error is kept, to tell why it ended."""

MOST_LINE_BYTES = 16 * 1024 * 1024
"""A program that sends a longer line is ended. Images come in base64 within one line."""
END_SECONDS = 2.0
"""So long a program may take to end once its input ended, and again once it was asked to."""
_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError)


class LineTooLong(Exception):
    """A program sent more bytes without the end of a line than are kept."""


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
                        await sender.send(_without_output_schemas(message))
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


def _without_output_schemas(message: Any) -> Any:
    """A message whose list of tools says nothing of results.

    The library validates a result against the schema on the event loop, with the regular expressions and
    references of the server. Nacre hands results to a model as text and needs no such check.
    """
    result = getattr(getattr(message, "message", None), "result", None)
    listed = result.get("tools") if isinstance(result, dict) else None
    for tool in listed if isinstance(listed, list) else ():
        if isinstance(tool, dict):
            tool.pop("outputSchema", None)
    return message


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
            process = await anyio.open_process(
                [at_home(server.command, home), *server.args],
                stderr=errors,
                env={**get_default_environment(), **server.env},
                cwd=at_home(server.cwd, home) or None,
                start_new_session=True,
            )
        async with _lines_of(process, words) as (read, write):
            yield read, write
    finally:
        pipe.close()


@asynccontextmanager
async def _lines_of(process: Process, words: LastWords) -> AsyncIterator[tuple[Any, Any]]:
    """A program's messages, one a line, and the program's end behind the block.

    The library's own transport keeps a line of any length in memory and cuts it anew for each piece.
    """
    incoming, read = anyio.create_memory_object_stream[Any](0)
    write, outgoing = anyio.create_memory_object_stream[Any](0)

    async def reading() -> None:
        assert process.stdout is not None
        with suppress(*_GONE):
            async with incoming:
                try:
                    async for line in _lines(process.stdout):
                        await incoming.send(_parsed(line))
                except LineTooLong as error:
                    words.data_received(f"\n{error}\n".encode())
        with suppress(*_GONE):
            async for _piece in process.stdout:
                pass  # a program that still writes could not end

    async def writing() -> None:
        assert process.stdin is not None
        try:
            async with outgoing:
                async for sent in outgoing:
                    message = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await process.stdin.send(f"{message}\n".encode("utf-8", "replace"))
        except _GONE:
            await incoming.aclose()  # whoever waits for an answer would wait for ever

    async with anyio.create_task_group() as group:
        group.start_soon(reading)
        group.start_soon(writing)
        try:
            yield read, write
        finally:
            with anyio.CancelScope(shield=True):
                read.close()
                write.close()
                await _end(process)
            group.cancel_scope.cancel()


async def _lines(pieces: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """The lines in pieces of bytes. Raises `LineTooLong`."""
    begun = bytearray()
    async for piece in pieces:
        *ended, rest = piece.split(b"\n")
        for end in ended:
            yield bytes(begun) + end
            begun.clear()
        begun += rest
        if len(begun) > MOST_LINE_BYTES:
            raise LineTooLong(f"it sent a line of more than {MOST_LINE_BYTES} bytes")


def _parsed(line: bytes) -> SessionMessage | Exception:
    try:
        text = line.decode("utf-8", "replace")
        return SessionMessage(jsonrpc_message_adapter.validate_json(text, by_name=False))
    except ValueError as error:
        return error


async def _end(process: Process) -> None:
    """Ends a program: its input ends first, then it and what it started are asked, then killed."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(*_GONE):
        await process.stdin.aclose()
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
        with anyio.move_on_after(END_SECONDS):
            # `process.wait` also waits for children that hold its output.
            while process.returncode is None:  # noqa: ASYNC110 - asyncio tells of an exit nowhere else
                await anyio.sleep(0.01)
        if process.returncode is not None:
            break
    with suppress(*_GONE):
        await process.stdout.aclose()
