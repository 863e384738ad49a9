"""One server: started when a call needs it, started again with back-off when it was lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nacre.extensions.mcp.client.kept_list import ApprovedTools, KeptList
from nacre.extensions.mcp.client.listed_tool import ToolList
from nacre.runtime.settings.sections.mcp import McpServer
from nacre.runtime.tools.toolbox import ToolFailed, ToolOutput
from nacre.sessions.contracts.errors import SessionError

if TYPE_CHECKING:
    from nacre.extensions.mcp.client.session import ServerSession

log = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS = 0.5
MOST_PAUSE_SECONDS = 300.0
"""The pause before a server is started again doubles with each failure in a row, up to this."""
MOST_WAIT_SECONDS = 2.0
"""A call waits so long for the end of a pause; else it fails at once with a sentence."""
MOST_UNANSWERED = 2
"""After so many calls in a row that were given up, a server is taken to hang and is ended."""


class Server:
    """One server of the settings. `listed` are its tools as last heard, `None` where nobody knows them.

    A task of its own holds the session, since what the library opens has to be closed by the same task.
    """

    def __init__(
        self, name: str, settings: McpServer, *, home: Path, folder: Path, now_ms: Callable[[], int]
    ) -> None:
        self.name = name
        self.settings = settings
        self._home = home
        self._now_ms = now_ms
        self._kept = KeptList(folder, name, settings)
        self.listed: ToolList | None = self._kept.read()
        self._approved = ApprovedTools(folder, name, settings)
        self._first: Mapping[str, str] = _digests(self.listed)
        self.problem = ""
        self._holding: asyncio.Task[None] | None = None
        self._opening: asyncio.Future[ServerSession | None] | None = None
        self._wake = asyncio.Event()
        self._wants_end = self._has_other_tools = False
        self._failures = self._unanswered = 0
        self._retry_at = 0.0

    @property
    def is_running(self) -> bool:
        """Whether it answered its greeting and was not lost since."""
        return self._opening is not None and self._opening.done() and self._opening.result() is not None

    def begin(self) -> asyncio.Future[ServerSession | None]:
        """Starts it if it does not run; what comes is its session, or nothing where it could not be had."""
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_future()
            before, self._wake = self._holding, asyncio.Event()
            self._wants_end = self._has_other_tools = False
            self._holding = asyncio.create_task(self._hold(before, self._opening), name=f"mcp {self.name}")
        return self._opening

    def approved(self) -> Mapping[str, str]:
        """The digests of the tools that may be offered, by name; the first list's until one is kept."""
        known = self._approved.digests()
        return self._first if known is None else known

    async def call(self, tool: str, arguments: dict[str, Any]) -> ToolOutput:
        """What a tool of it gives.

        Raises:
            ToolFailed: the tool failed, or the server is not there; the text is for the model.
        """
        session = await self._session()
        from nacre.extensions.mcp.client.session import ServerLost

        try:
            output = await session.call(tool, arguments)
        except ToolFailed:
            self._answered()
            raise
        except ServerLost as error:
            self._lose(str(error))
            raise ToolFailed(
                f"The server {self.name!r} was lost during the call ({error}). What it had done by then "
                "stays done. It is started again when it is next called."
            ) from error
        except asyncio.CancelledError:
            self._unanswered += 1
            if self._unanswered >= MOST_UNANSWERED:
                self._lose(f"it did not answer {self._unanswered} calls in a row")
            raise
        self._answered()
        return output

    def status(self) -> str:
        """How it is, in a few words."""
        tools = f"{len(self.listed.tools)} tools" if self.listed else "tools not known yet"
        if self.is_running:
            return f"running, {tools}"
        if self.problem:
            return f"not there: {self.problem}"
        return f"{'starting' if self._opening is not None else 'not started yet'}, {tools}"

    async def close(self) -> None:
        """Ends it, and waits until it is gone."""
        self._wants_end = True
        self._wake.set()
        if self._holding is not None:
            if not self.is_running:
                self._holding.cancel()  # it may not answer its greeting for long
            await asyncio.wait([self._holding])

    async def _session(self) -> ServerSession:
        loop = asyncio.get_running_loop()
        if self._opening is None:
            seconds = self._retry_at - loop.time()
            if seconds > MOST_WAIT_SECONDS:
                raise ToolFailed(
                    f"The server {self.name!r} is not there: {self.problem}. "
                    f"It is tried again in {seconds:.0f} seconds; do without it until then."
                )
            await asyncio.sleep(max(0.0, seconds))
        session = await asyncio.shield(self.begin())
        if session is None:
            raise ToolFailed(f"The server {self.name!r} could not be started: {self.problem}.")
        return session

    def _answered(self) -> None:
        self._failures = self._unanswered = 0

    def _lose(self, problem: str) -> None:
        """Gives the present session up; the next call begins another one, behind a pause."""
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

    async def _hold(
        self, before: asyncio.Task[None] | None, opening: asyncio.Future[ServerSession | None]
    ) -> None:
        if before is not None:
            await asyncio.wait([before])
        try:
            await self._held(opening)
        except asyncio.CancelledError:
            raise
        except ImportError as error:
            log.warning("MCP servers need a library: %s", error)
            problem = f"it needs the library mcp ({error}); install it with `pip install 'nacre[mcp]'`"
        except Exception as error:
            log.info("the MCP server %s", self.name, exc_info=True)
            problem = str(error) or type(error).__name__
        else:
            return
        if self._opening is opening:
            self._lose(problem)

    async def _held(self, opening: asyncio.Future[ServerSession | None]) -> None:
        # On a thread, because the library takes half a second to import.
        library = await asyncio.to_thread(import_module, "nacre.extensions.mcp.client.session")
        wake = self._wake

        def ended(last_words: str) -> None:
            if self._opening is opening and opening.done() and not self._wants_end:
                self._lose(last_words or "it ended")

        def changed() -> None:
            self._has_other_tools = True
            wake.set()

        async with library.server_session(self.name, self.settings, self._home, ended, changed) as session:
            await self._ask_for_tools(session)
            if not opening.done():
                self.problem = ""
                opening.set_result(session)
            while self._opening is opening and not self._wants_end:
                await wake.wait()
                wake.clear()
                if self._has_other_tools and not self._wants_end:
                    self._has_other_tools = False
                    await self._ask_for_tools(session)

    async def _ask_for_tools(self, session: ServerSession) -> None:
        async with asyncio.timeout(self.settings.start_seconds):
            tools = await session.tools()
        listed = ToolList(at_ms=self._now_ms(), tools=tools)
        await self._approve_first(self.listed or listed)
        if self.listed is None or self.listed.tools != tools:
            log.info("the MCP server %s has %d tools", self.name, len(tools))
        self.listed = listed
        await asyncio.to_thread(self._kept.write, listed)

    async def _approve_first(self, listed: ToolList) -> None:
        """Approves the first list of a server, which its settings were just written for."""
        self._first = self._first or _digests(listed)
        if self._approved.digests() is not None:
            return
        try:
            await asyncio.to_thread(self._approved.approve, listed.tools, is_first=True)
        except (SessionError, OSError) as error:
            log.warning("the approved tools of the MCP server %s cannot be kept: %s", self.name, error)


def _digests(listed: ToolList | None) -> Mapping[str, str]:
    return {tool.name: tool.digest for tool in listed.tools} if listed else {}
