"""An open session with a server, over the MCP library: its tools, calls, and results."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types as types
from anyio.abc import Process
from mcp import Client
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from nacre.extensions.mcp.client.tool_list import MOST_DESCRIPTION_CHARS, MOST_TOOLS, ListedTool, sendable
from nacre.memory.contracts.settings import at_home
from nacre.prompts import render
from nacre.runtime.settings.sections.mcp import McpServer
from nacre.runtime.tools.toolbox import ToolFailed, ToolOutput
from nacre.sessions.contracts.messages import MAX_KEPT_CHARS, Image

log = logging.getLogger(__name__)

MOST_ERROR_CHARS = 4_000
"""How much of a program's recent standard error is kept, to explain why it ended."""

MOST_LINE_BYTES = 16 * 1024 * 1024
"""A program that sends a longer line is ended. A longer HTTP response or event is an error. Images arrive in
base64 within one line.
"""
END_SECONDS = 2.0
"""How long a program may take to exit after its input ended, and again after SIGTERM."""
_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError)


class LineTooLong(Exception):
    """A program sent too many bytes without a line feed."""


class ErrorOutput(asyncio.Protocol):
    """The end of what a program writes to standard error."""

    def __init__(self) -> None:
        self._bytes = b""

    def data_received(self, data: bytes) -> None:
        self._bytes = (self._bytes + data)[-MOST_ERROR_CHARS:]

    @property
    def last_line(self) -> str:
        """The last line that is not blank."""
        lines = self._bytes.decode("utf-8", "replace").strip().splitlines()
        return lines[-1].strip()[:300] if lines else ""


@asynccontextmanager
async def streams(
    server: McpServer, home: Path, error_output: ErrorOutput, ended: Callable[[], None]
) -> AsyncIterator[tuple[Any, Any]]:
    """Yields the streams to read from and to write to. Calls `ended` when the server stops sending."""
    async with _connect(server, home, error_output) as (read, write):
        sender, receiver = anyio.create_memory_object_stream[Any](0)

        async def pass_on() -> None:
            async with sender:
                try:
                    async for message in read:
                        await sender.send(_without_output_schemas(message))
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    pass  # the session has ended
            ended()

        async with anyio.create_task_group() as group:
            group.start_soon(pass_on)
            try:
                yield receiver, write
            finally:
                group.cancel_scope.cancel()
                receiver.close()


def _without_output_schemas(message: Any) -> Any:
    """Removes output schemas from a list of tools.

    The library would validate results against them on the event loop, with the server's regular expressions
    and references. Nacre passes results to a model as text and needs no such check.
    """
    result = getattr(getattr(message, "message", None), "result", None)
    listed = result.get("tools") if isinstance(result, dict) else None
    for tool in listed if isinstance(listed, list) else ():
        if isinstance(tool, dict):
            tool.pop("outputSchema", None)
    return message


@asynccontextmanager
async def _connect(
    server: McpServer, home: Path, error_output: ErrorOutput
) -> AsyncIterator[tuple[Any, Any]]:
    if server.url:
        # The size of compressed data is known only after decompression.
        headers = {**server.headers, "Accept-Encoding": "identity"}
        async with create_mcp_http_client(headers=headers) as client:
            client.event_hooks = {"response": [_limit_response]}
            async with streamable_http_client(
                server.url, http_client=client, max_sse_event_size=MOST_LINE_BYTES
            ) as (read, write):
                yield read, write
        return
    reading, writing = os.pipe()
    pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: error_output, os.fdopen(reading, "rb")
    )
    try:
        with os.fdopen(writing, "w") as errors:
            process = await anyio.open_process(
                [at_home(server.command, home), *server.args],
                stderr=errors,
                env={**get_default_environment(), **server.env},
                cwd=_working_folder(server, home),
                start_new_session=True,
            )
        async with _program_streams(process, error_output) as (read, write):
            yield read, write
    finally:
        pipe.close()


def _working_folder(server: McpServer, home: Path) -> str | Path:
    return at_home(server.cwd, home) or (home if home.is_dir() else "/")


class _BoundedStream(httpx2.AsyncByteStream):
    """The bytes of one response, with an error if there are too many."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        received_bytes = 0
        async for piece in self._stream:
            received_bytes += len(piece)
            if received_bytes > MOST_LINE_BYTES:
                raise httpx2.StreamError(f"the response has more than {MOST_LINE_BYTES} bytes")
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _limit_response(response: httpx2.Response) -> None:
    """Limits a response. If it is compressed in spite of the request header, it is not decompressed."""
    response.headers.pop("Content-Encoding", None)
    is_stream = response.headers.get("Content-Type", "").lower().startswith("text/event-stream")
    if not is_stream and isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = _BoundedStream(response.stream)


@asynccontextmanager
async def _program_streams(process: Process, error_output: ErrorOutput) -> AsyncIterator[tuple[Any, Any]]:
    """Yields a program's messages, one a line, and ends the program after the block.

    The library's own transport keeps lines of any length in memory and splits the buffer again for each
    piece.
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
                    error_output.data_received(f"\n{error}\n".encode())
        with suppress(*_GONE):
            async for _piece in process.stdout:
                pass  # drain the pipe: a program that is blocked on writing cannot exit

    async def writing() -> None:
        assert process.stdin is not None
        try:
            async with outgoing:
                async for sent in outgoing:
                    message = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await process.stdin.send(f"{message}\n".encode("utf-8", "replace"))
        except _GONE:
            await incoming.aclose()  # otherwise callers would wait for an answer forever

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
    """Splits pieces of bytes into lines. Raises `LineTooLong`."""
    buffer = bytearray()
    async for piece in pieces:
        *ended, rest = piece.split(b"\n")
        for end in ended:
            yield bytes(buffer) + end
            buffer.clear()
        buffer += rest
        if len(buffer) > MOST_LINE_BYTES:
            raise LineTooLong(f"it sent a line of more than {MOST_LINE_BYTES} bytes")


def _parsed(line: bytes) -> SessionMessage | Exception:
    try:
        text = line.decode("utf-8", "replace")
        return SessionMessage(jsonrpc_message_adapter.validate_json(text, by_name=False))
    except ValueError as error:
        return error


async def _end(process: Process) -> None:
    """Ends a program: closes its input, then sends SIGTERM and SIGKILL to its process group."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(*_GONE):
        await process.stdin.aclose()
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
        with anyio.move_on_after(END_SECONDS):
            # `process.wait` also waits for child processes that hold its output.
            while process.returncode is None:  # noqa: ASYNC110 - asyncio has no event for the exit
                await anyio.sleep(0.01)
        if process.returncode is not None:
            break
    with suppress(*_GONE):
        await process.stdout.aclose()


MOST_PAGES = 20
"""The most pages of a list of tools to request; a server may page forever."""


def result_text(server: str, result: Any) -> str:
    """The blocks of a `CallToolResult` below a line that names the server.

    Blocks other than text are described by kind and size; see `result_images` for images. The text is cut at
    the size of a stored result, before its tokens are counted.
    """
    parts = [_block(block) for block in result.content or []]
    if not parts and result.structured_content is not None:
        parts = [json.dumps(result.structured_content, ensure_ascii=False, indent=1)]
    text = "\n\n".join(part for part in parts if part)
    text = text.encode("utf-8", "replace").decode("utf-8")
    if len(text) > MAX_KEPT_CHARS:
        text = f"{text[:MAX_KEPT_CHARS]}\n[{len(text) - MAX_KEPT_CHARS} more characters were dropped]"
    return render("tools/server_result", server=server, text=text or "(nothing)")


def result_images(result: Any) -> tuple[Image, ...]:
    """The images of a result, in base64, unchecked."""
    blocks = (block for block in result.content or [] if block.type == "image")
    return tuple(Image(data=block.data, mime_type=block.mime_type.lower()) for block in blocks)


def _block(block: Any) -> str:
    match block.type:
        case "text":
            return str(block.text)
        case "image":
            return f"[image, {_kind_and_size(block)}]"
        case "audio":
            return f"[audio, {_kind_and_size(block)}: not supported]"
        case "resource_link":
            return f"[a link to {block.uri}]"
        case "resource":
            resource = block.resource
            text = getattr(resource, "text", None)
            return f"[{resource.uri}]\n{text}" if text is not None else f"[{resource.uri}: no text]"
        case _:
            return f"[{block.type}: not supported]"


def _kind_and_size(block: Any) -> str:
    return f"{block.mime_type}, about {len(block.data) * 3 // 4} bytes"


class ServerLost(Exception):
    """The server is gone or does not speak the protocol; the message says which."""


class ServerSession:
    """A server that completed the handshake."""

    def __init__(self, name: str, client: Client, error_output: ErrorOutput) -> None:
        self._name = name
        self._client = client
        self._error_output = error_output

    async def tools(self) -> tuple[ListedTool, ...]:
        """The tools that the server offers. Raises `ServerLost` if it does not list them."""
        found: list[ListedTool] = []
        cursor: str | None = None
        try:
            for _page in range(MOST_PAGES):
                listed = await self._client.list_tools(cursor=cursor, cache_mode="bypass")
                found += map(_listed, listed.tools)
                cursor = listed.next_cursor
                if not cursor or len(found) >= MOST_TOOLS:
                    break
        except Exception as error:
            raise ServerLost(f"it does not list its tools: {_message_of(error)}") from error
        return sendable(found)

    async def call(self, tool: str, arguments: dict[str, Any]) -> ToolOutput:
        """Calls a tool and returns its text and images.

        Raises:
            ToolFailed: the tool reports an error, or the server refuses the call.
            ServerLost: the session has ended.
        """
        try:
            result = await self._client.call_tool(tool, arguments)
        except MCPError as error:
            if error.code in (types.CONNECTION_CLOSED, types.REQUEST_TIMEOUT):
                raise ServerLost(self._error_output.last_line or _message_of(error)) from error
            raise ToolFailed(f"The server {self._name!r} refused: {_message_of(error)}") from error
        except Exception as error:
            raise ServerLost(_message_of(error)) from error
        text = result_text(self._name, result)
        if result.is_error:
            raise ToolFailed(text)
        return ToolOutput(text=text, images=result_images(result))


@asynccontextmanager
async def server_session(
    name: str, server: McpServer, home: Path, ended: Callable[[str], None], changed: Callable[[], None]
) -> AsyncIterator[ServerSession]:
    """Starts a server, or connects to one over HTTP, for the duration of the block.

    Calls `ended` with the last line of its standard error when the server stops, and `changed` when its tools
    change.

    Raises:
        ServerLost: it does not start, or does not complete the handshake within `server.start_seconds`.
    """
    error_output = ErrorOutput()

    async def on_message(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            changed()

    client = Client(
        streams(server, home, error_output, lambda: ended(error_output.last_line)),
        message_handler=on_message,
        cache=None,
    )
    try:
        async with asyncio.timeout(server.start_seconds):
            await client.__aenter__()
    except TimeoutError as error:
        raise ServerLost(f"it did not answer within {server.start_seconds:.15g} seconds") from error
    except Exception as error:
        raise ServerLost(error_output.last_line or _message_of(error)) from error
    try:
        yield ServerSession(name, client, error_output)
    finally:
        await client.__aexit__(None, None, None)


def _listed(tool: types.Tool) -> ListedTool:
    hints = tool.annotations
    description = " ".join((tool.description or tool.title or tool.name).split())
    return ListedTool(
        name=tool.name,
        description=description[:MOST_DESCRIPTION_CHARS],
        schema=tool.input_schema,
        is_read_only=hints is not None and hints.read_only_hint is True,
    )


def _message_of(error: BaseException) -> str:
    """The message of the first exception that is not a group."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    if isinstance(error, FileNotFoundError) and error.filename:
        return f"there is no program or folder {str(error.filename)!r} on this machine"
    return f"{type(error).__name__}: {str(error)[:300]}" if str(error) else type(error).__name__
