"""One open session with a server, over the protocol's library: its tools, and calls of them. Edge."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp import Client
from mcp.shared.exceptions import MCPError

from nacre.extensions.mcp.client.contents import result_images, result_text
from nacre.extensions.mcp.client.listed_tool import MOST_DESCRIPTION_CHARS, MOST_TOOLS, ListedTool, sendable
from nacre.extensions.mcp.client.transport import LastWords, streams
from nacre.runtime.settings.sections.mcp import McpServer
from nacre.runtime.tools.toolbox import ToolFailed, ToolOutput

log = logging.getLogger(__name__)

MOST_PAGES = 20
"""So many pages of a list of tools are asked for; a server may page for ever."""


class ServerLost(Exception):
    """The server is gone, or does not speak the protocol; the text says which."""


class ServerSession:
    """A server that answered its greeting."""

    def __init__(self, name: str, client: Client, words: LastWords) -> None:
        self._name = name
        self._client = client
        self._words = words

    async def tools(self) -> tuple[ListedTool, ...]:
        """What it offers.

        Raises:
            ServerLost: it does not say.
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
            raise ServerLost(f"it does not list its tools: {_said(error)}") from error
        return sendable(found)

    async def call(self, tool: str, arguments: dict[str, Any]) -> ToolOutput:
        """What a tool gives: text that says whose it is, and images.

        Raises:
            ToolFailed: the tool says that it failed, or the server refuses the call.
            ServerLost: nothing more is to be had of this session.
        """
        try:
            result = await self._client.call_tool(tool, arguments)
        except MCPError as error:
            if error.code in (types.CONNECTION_CLOSED, types.REQUEST_TIMEOUT):
                raise ServerLost(self._words.line or _said(error)) from error
            raise ToolFailed(f"The server {self._name!r} refused: {_said(error)}") from error
        except Exception as error:
            raise ServerLost(_said(error)) from error
        text = result_text(self._name, result)
        if result.is_error:
            raise ToolFailed(text)
        return ToolOutput(text=text, images=result_images(result))


@asynccontextmanager
async def server_session(
    name: str, server: McpServer, home: Path, ended: Callable[[str], None], changed: Callable[[], None]
) -> AsyncIterator[ServerSession]:
    """Starts a server, or greets one over HTTP, and ends it behind the block.

    `ended` is called with its last words when it says no more, `changed` when it has other tools.

    Raises:
        ServerLost: it does not start, or does not answer its greeting within `server.start_seconds`.
    """
    words = LastWords()

    async def heard(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            changed()

    client = Client(
        streams(server, home, words, lambda: ended(words.line)), message_handler=heard, cache=None
    )
    try:
        async with asyncio.timeout(server.start_seconds):
            await client.__aenter__()
    except TimeoutError as error:
        raise ServerLost(f"it did not answer within {server.start_seconds:.15g} seconds") from error
    except Exception as error:
        raise ServerLost(words.line or _said(error)) from error
    try:
        yield ServerSession(name, client, words)
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


def _said(error: BaseException) -> str:
    """What went wrong, of the first that is no group of errors."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return f"{type(error).__name__}: {str(error)[:300]}" if str(error) else type(error).__name__
