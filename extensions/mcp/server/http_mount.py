"""`/mcp` of `nacre serve`: the memory for other programs, over streamable HTTP.

The token selects the agent. It must be an owner's token: search results are private, and an appended note
goes to the owner's log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from nacre.extensions.mcp.server.server import memory_server, shared_memory
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.extensions.service import HttpMount, caller_of
from nacre.runtime.settings.config import Config

PATH = "/mcp"

log = logging.getLogger(__name__)


class _Memory:
    """One agent's memory, opened at the first request. The task that opened it also closes it."""

    def __init__(self, config: Config, now: Clock, version: str) -> None:
        self._config, self._now, self._version = config, now, version
        self._task: asyncio.Task[None] | None = None
        self._opened: asyncio.Future[StreamableHTTPSessionManager] | None = None
        self._closing = asyncio.Event()

    async def manager(self) -> StreamableHTTPSessionManager:
        """The handler of requests. Raises `ConfigError` if the memory cannot be opened."""
        if self._opened is None:
            self._opened = asyncio.get_running_loop().create_future()
            self._task = asyncio.create_task(self._keep_open(self._opened))
        return await asyncio.shield(self._opened)

    async def close(self) -> None:
        self._closing.set()
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _keep_open(self, opened: asyncio.Future[StreamableHTTPSessionManager]) -> None:
        try:
            async with shared_memory(self._config, self._now) as memory:
                if memory.problem:
                    log.warning("notes are not searched over MCP: %s", memory.problem)
                server = memory_server(memory, version=self._version)
                # Stateless: nothing of one request is kept for the holder of another token.
                manager = StreamableHTTPSessionManager(server, json_response=True, stateless=True)
                async with manager.run():
                    opened.set_result(manager)
                    await self._closing.wait()
        except Exception as error:
            if opened.done():
                log.exception("the memory over MCP failed")
                return
            log.warning("the memory cannot be opened for MCP: %s", error)
            self._opened = None  # the next request tries again
            opened.set_exception(error if isinstance(error, ConfigError) else ConfigError(str(error)))


class _Endpoint:
    """The ASGI app at `/mcp`."""

    def __init__(self, memories: Mapping[str, _Memory]) -> None:
        self._memories = memories

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = caller_of(scope)
        memory = self._memories.get(caller.agent_id)
        if not caller.is_owner:
            problem = f"The token {caller.name!r} is not an owner's token, and the memory is private."
            await _error_response(403, problem)(scope, receive, send)
        elif memory is None:
            problem = f"The token is for the agent {caller.agent_id!r}, which is not served."
            await _error_response(403, problem)(scope, receive, send)
        else:
            try:
                manager = await memory.manager()
            except ConfigError as error:
                await _error_response(503, str(error))(scope, receive, send)
                return
            await manager.handle_request(scope, receive, send)


def memory_mount(configs: Mapping[str, Config], *, now: Clock, version: str) -> HttpMount:
    """The mount for the memories of these agents, by ID; each is opened at its first request."""
    memories = {agent_id: _Memory(config, now, version) for agent_id, config in configs.items()}
    closing = [memory.close for memory in memories.values()]
    return HttpMount(path=PATH, routes=[Route("/", _Endpoint(memories))], closing=closing)


def _error_response(status: int, sentence: str) -> JSONResponse:
    error = {"code": -32600, "message": sentence}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, status_code=status)
