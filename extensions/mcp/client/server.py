"""One server: started when a call needs it, and restarted with back-off after it was lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nacre.extensions.mcp.client.tool_list import ApprovedTools, StoredToolList, ToolList
from nacre.installation import install_command
from nacre.runtime.settings.sections.mcp import McpServer
from nacre.runtime.tools.toolbox import ToolFailed, ToolOutput
from nacre.sessions.contracts.errors import SessionError

if TYPE_CHECKING:
    from nacre.extensions.mcp.client.session import ServerSession

log = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS = 0.5
MOST_PAUSE_SECONDS = 300.0
"""The upper limit of the pause before a restart, which doubles with each failure in a row."""
MOST_WAIT_SECONDS = 2.0
"""A call waits at most this long for the end of a pause; otherwise it fails immediately."""
MOST_UNANSWERED = 2
"""After this many abandoned calls in a row, a server is considered to hang and is ended."""


class Server:
    """One server of the settings. `listed` is its last known list of tools, or `None`.

    A task holds the session, because the task that opens the library's objects must also close them.
    """

    def __init__(
        self, name: str, settings: McpServer, *, home: Path, folder: Path, now_ms: Callable[[], int]
    ) -> None:
        self.name = name
        self.settings = settings
        self._home = home
        self._now_ms = now_ms
        self._stored_list = StoredToolList(folder, name, settings)
        self.listed: ToolList | None = self._stored_list.read()
        self._approved = ApprovedTools(folder, name, settings)
        self._first_digests: Mapping[str, str] = _digests(self.listed)
        self.problem = ""
        self._holding: asyncio.Task[None] | None = None
        self._opening: asyncio.Future[ServerSession | None] | None = None
        self._wake = asyncio.Event()
        self._wants_end = self._has_other_tools = False
        self._failures = self._unanswered = 0
        self._retry_at = 0.0

    @property
    def is_running(self) -> bool:
        return self._opening is not None and self._opening.done() and self._opening.result() is not None

    def begin(self) -> asyncio.Future[ServerSession | None]:
        """Starts the server if necessary. The result is its session, or `None` if it could not be started."""
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_future()
            before, self._wake = self._holding, asyncio.Event()
            self._wants_end = self._has_other_tools = False
            self._holding = asyncio.create_task(
                self._hold_session(before, self._opening), name=f"mcp {self.name}"
            )
        return self._opening

    def approved(self) -> Mapping[str, str]:
        """The digests of the approved tools, by name; those of the first list until one is stored."""
        known = self._approved.digests()
        return self._first_digests if known is None else known

    async def call(self, tool: str, arguments: dict[str, Any]) -> ToolOutput:
        """Calls one of its tools.

        Raises:
            ToolFailed: the tool failed, or the server is unavailable; the message is for the model.
        """
        session = await self._session()
        from nacre.extensions.mcp.client.session import ServerLost

        try:
            output = await session.call(tool, arguments)
        except ToolFailed:
            self._reset_failures()
            raise
        except ServerLost as error:
            self._lose(str(error))
            raise ToolFailed(
                f"The server {self.name!r} was lost during the call ({error}). What it has already "
                "done stays done. It is restarted at the next call."
            ) from error
        except asyncio.CancelledError:
            self._unanswered += 1
            if self._unanswered >= MOST_UNANSWERED:
                self._lose(f"it did not answer {self._unanswered} calls in a row")
            raise
        self._reset_failures()
        return output

    def status(self) -> str:
        tools = f"{len(self.listed.tools)} tools" if self.listed else "tools unknown"
        if self.is_running:
            return f"running, {tools}"
        if self.problem:
            return f"unavailable: {self.problem}"
        return f"{'starting' if self._opening is not None else 'not started yet'}, {tools}"

    async def close(self) -> None:
        self._wants_end = True
        self._wake.set()
        if self._holding is not None:
            if not self.is_running:
                self._holding.cancel()  # its handshake may take long
            await asyncio.wait([self._holding])

    async def _session(self) -> ServerSession:
        loop = asyncio.get_running_loop()
        if self._opening is None:
            seconds = self._retry_at - loop.time()
            if seconds > MOST_WAIT_SECONDS:
                raise ToolFailed(
                    f"The server {self.name!r} is unavailable: {self.problem}. "
                    f"It is retried in {seconds:.0f} seconds; do without it until then."
                )
            await asyncio.sleep(max(0.0, seconds))
        session = await asyncio.shield(self.begin())
        if session is None:
            raise ToolFailed(f"The server {self.name!r} could not be started: {self.problem}.")
        return session

    def _reset_failures(self) -> None:
        self._failures = self._unanswered = 0

    def _lose(self, problem: str) -> None:
        """Gives up the session. The next call opens another one after a pause."""
        if self._opening is None:
            return
        log.warning("the MCP server %s is lost: %s", self.name, problem)
        opening, self._opening = self._opening, None
        if not opening.done():
            opening.set_result(None)
        self.problem = problem
        self._unanswered = 0
        pause = min(MOST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(self._failures, 20))
        self._failures += 1
        self._retry_at = asyncio.get_running_loop().time() + pause
        self._wants_end = True
        self._wake.set()

    async def _hold_session(
        self, before: asyncio.Task[None] | None, opening: asyncio.Future[ServerSession | None]
    ) -> None:
        if before is not None:
            await asyncio.wait([before])
        try:
            await self._run_session(opening)
        except asyncio.CancelledError:
            raise
        except ImportError as error:
            log.warning("MCP servers need a library: %s", error)
            command = install_command("mcp")
            problem = f"the library mcp cannot be imported ({error}); install it with `{command}`"
        except Exception as error:
            log.info("the MCP server %s", self.name, exc_info=True)
            problem = str(error) or type(error).__name__
        else:
            return
        if self._opening is opening:
            self._lose(problem)

    async def _run_session(self, opening: asyncio.Future[ServerSession | None]) -> None:
        # on a thread: the library takes half a second to import
        library = await asyncio.to_thread(import_module, "nacre.extensions.mcp.client.session")
        wake = self._wake

        def ended(error_line: str) -> None:
            if self._opening is opening and opening.done() and not self._wants_end:
                self._lose(error_line or "it ended")

        def changed() -> None:
            self._has_other_tools = True
            wake.set()

        async with library.server_session(self.name, self.settings, self._home, ended, changed) as session:
            await self._list_tools(session)
            if not opening.done():
                self.problem = ""
                opening.set_result(session)
            while self._opening is opening and not self._wants_end:
                await wake.wait()
                wake.clear()
                if self._has_other_tools and not self._wants_end:
                    self._has_other_tools = False
                    await self._list_tools(session)

    async def _list_tools(self, session: ServerSession) -> None:
        async with asyncio.timeout(self.settings.start_seconds):
            tools = await session.tools()
        listed = ToolList(at_ms=self._now_ms(), tools=tools)
        await self._approve_first(self.listed or listed)
        if self.listed is None or self.listed.tools != tools:
            log.info("the MCP server %s has %d tools", self.name, len(tools))
        self.listed = listed
        await asyncio.to_thread(self._stored_list.write, listed)

    async def _approve_first(self, listed: ToolList) -> None:
        """Approves the first list of a server that was just added to the settings."""
        self._first_digests = self._first_digests or _digests(listed)
        if self._approved.digests() is not None:
            return
        try:
            await asyncio.to_thread(self._approved.approve, listed.tools, is_first=True)
        except (SessionError, OSError) as error:
            log.warning("the approved tools of the MCP server %s cannot be kept: %s", self.name, error)


def _digests(listed: ToolList | None) -> Mapping[str, str]:
    return {tool.name: tool.digest for tool in listed.tools} if listed else {}
