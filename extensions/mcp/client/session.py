"""An open session with a server, over the MCP library: its tools, calls, and results."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp import Client
from mcp.shared.exceptions import MCPError

from nacre.extensions.mcp.client.tool_list import MOST_DESCRIPTION_CHARS, MOST_TOOLS, ListedTool, sendable
from nacre.extensions.mcp.client.transport import ErrorOutput, streams
from nacre.prompts import render
from nacre.runtime.settings.sections.mcp import McpServer
from nacre.runtime.tools.toolbox import ToolFailed, ToolOutput
from nacre.sessions.contracts.messages import MAX_KEPT_CHARS, Image

log = logging.getLogger(__name__)
MOST_PAGES = 20
"""The most pages of a list of tools to request; a server may page forever."""


def result_text(server: str, result: Any) -> str:
    """The blocks of a `CallToolResult` below a line that names the server.

    Blocks other than text are described by kind and size; see `result_images` for images. The text is cut at
    the size of a stored result, before its tokens are counted.
    """
    text = "\n\n".join(part for part in _parts(result) if part)
    text = text.encode("utf-8", "replace").decode("utf-8")
    if len(text) > MAX_KEPT_CHARS:
        text = f"{text[:MAX_KEPT_CHARS]}\n[{len(text) - MAX_KEPT_CHARS} more characters were dropped]"
    return render("tools/server_result", server=server, text=text or "(nothing)")


def result_images(result: Any) -> tuple[Image, ...]:
    """The images of a result, in base64, unchecked."""
    blocks = (block for block in result.content or [] if block.type == "image")
    return tuple(Image(data=block.data, mime_type=block.mime_type.lower()) for block in blocks)


def _parts(result: Any) -> Iterator[str]:
    blocks = result.content or []
    for block in blocks:
        yield _block(block)
    if not blocks and result.structured_content is not None:
        yield json.dumps(result.structured_content, ensure_ascii=False, indent=1)


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
        """The tools that the server offers.

        Raises:
            ServerLost: it does not list them.
        """
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
    return f"{type(error).__name__}: {str(error)[:300]}" if str(error) else type(error).__name__
