"""Holds the agent's memory engine. The runtime calls it only through `MemorySlot`: no failure ends a turn."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from nacre.closing import stop_tasks
from nacre.prompts import quoted, render
from nacre.runtime.recall.memory_plugin import MemoryHome, MemoryPlugin
from nacre.runtime.tools.function import FunctionTool, ToolChat
from nacre.runtime.tools.toolbox import Tool

T = TypeVar("T")

log = logging.getLogger(__name__)

START_SECONDS = 60.0
"""How long opening an agent waits for the engine, which then continues to start in the background."""
RETRY_SECONDS = 2.0
MOST_RETRY_SECONDS = 300.0
"""The pause before a retry doubles with each failed start, up to this."""
RECALL_SECONDS = 5.0
"""How long a turn waits for `recall`."""
CAPTURE_SECONDS = 60.0
"""The time limit of `capture`, which runs after the reply."""
RECALL_CHARS = 12_000
"""The most characters of a recall that a request contains."""
NO_MEMORY = "0 files, 0 chunks, no search"


class MemorySlot:
    """The engine of an agent: `plugin`, which does nothing if there is none; `why_empty` says why.

    `name` is the engine's id.
    """

    def __init__(
        self,
        plugin: MemoryPlugin | None,
        *,
        name: str,
        why_empty: str = "",
        start_seconds: float = START_SECONDS,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self.plugin = self._engine = plugin or MemoryPlugin()
        self._start_seconds, self._retry_seconds = start_seconds, retry_seconds
        self._started: asyncio.Task[None] | None = None
        self._later: asyncio.Task[None] | None = None
        self._news: list[str] = []
        self.name = name
        self._why_empty = why_empty if plugin is None else ""
        self._captures: set[asyncio.Task[None]] = set()
        self._notices: list[str] = []

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences for the owner about how the engine started."""
        return tuple(self._notices)

    @property
    def news(self) -> tuple[str, ...]:
        """Sentences for the owner about the engine since the agent was opened."""
        return tuple(self._news)

    async def start(self, home: MemoryHome, validate: Callable[[MemoryPlugin], T]) -> T | None:
        """Starts the engine and returns `validate(engine)`, or `None` if the engine is left out.

        An engine that takes too long or fails to start is reported, and is used once it has started, without
        the result of `validate`. An engine for which `validate` raises is closed for good.
        """
        engine, self.plugin = self.plugin, MemoryPlugin()
        self._started = asyncio.create_task(engine.start(home), name="memory-start")
        try:
            await asyncio.wait((self._started,), timeout=self._start_seconds)
            if not self._started.done():
                raise TimeoutError("it is still starting")
            self._started.result()
        except Exception as error:
            log.warning("the memory engine %s did not start yet", self.name, exc_info=error)
            self._why_empty = f"the memory engine {self.name!r} did not start"
            self._notices.append(
                f"The memory engine {self.name!r} could not be started: {_message_of(error)}. "
                "Memory tools are missing until it starts; Nacre retries in the background."
            )
            self._later = asyncio.create_task(self._start_later(engine, home), name="memory-start-later")
            return None
        try:
            parts = validate(engine)
        except Exception as error:
            log.exception("the memory engine %s cannot be used", self.name)
            with self._errors_logged("closing"):
                await engine.close()
            self._engine = MemoryPlugin()
            self._why_empty = f"the memory engine {self.name!r} cannot be used"
            self._notices.append(
                f"The memory engine {self.name!r} could not be started: {_message_of(error)}. "
                "The agent runs without memory tools until the next start."
            )
            return None
        self.plugin = engine
        with self._errors_logged("reporting its problem"):
            if self.plugin.problem:
                self._notices.append(self.plugin.problem)
        return parts

    async def _start_later(self, engine: MemoryPlugin, home: MemoryHome) -> None:
        """Waits for a slow start and repeats a failed one; then the engine's tools are available."""
        pause = self._retry_seconds
        while True:
            try:
                assert self._started is not None
                await self._started
                break
            except Exception as error:  # noqa: BLE001 - an engine of others raises what it likes
                log.warning("the memory engine %s did not start: %s", self.name, error)
            await asyncio.sleep(pause)
            with self._errors_logged("closing"):
                await engine.close()
            pause = min(2 * pause, MOST_RETRY_SECONDS)
            self._started = asyncio.create_task(engine.start(home), name="memory-start")
        log.info("the memory engine %s has started", self.name)
        self.plugin, self._why_empty = engine, ""
        self._news.append(f"The memory engine {self.name!r} has started; its tools are available now.")

    async def close(self) -> None:
        """Waits for running captures and closes the engine."""
        await asyncio.gather(*self._captures, return_exceptions=True)
        await stop_tasks(self._later, self._started)
        with self._errors_logged("closing"):
            await self._engine.close()

    def tools(self, chat: ToolChat) -> tuple[Tool, ...]:
        """The engine's tools in this chat; none in chats that may not see private memory."""
        if not self._serves(chat):
            return ()
        tools: Sequence[Tool] = ()
        with self._errors_logged("naming its tools"):
            tools = [
                tool.bound(chat) if isinstance(tool, FunctionTool) else tool
                for tool in self.plugin.tools(chat)
            ]
        return tuple(tools)

    def instructions(self, chat: ToolChat) -> str:
        """The engine's section of the system prompt; empty in chats without its tools."""
        if not self._serves(chat):
            return ""
        try:
            return self.plugin.instructions(chat).strip()
        except Exception:
            log.exception("the memory engine %s failed at returning its instructions", self.name)
            return ""

    async def recall(self, chat: ToolChat, asked: str, tell: Callable[[Sequence[str]], None]) -> str:
        """The engine's text for a message, quoted as data; failures are passed to `tell`."""
        if not _is_owners(chat) or type(self.plugin).recall is MemoryPlugin.recall or not asked.strip():
            return ""
        try:
            async with asyncio.timeout(RECALL_SECONDS):
                text = (await self.plugin.recall(chat, asked)).strip()
        except Exception as error:
            log.exception("the memory engine %s failed at recalling", self.name)
            tell((f"The memory engine {self.name!r} could not recall anything: {_message_of(error)}.",))
            return ""
        if len(text) > RECALL_CHARS:
            log.warning("the memory engine %s recalled %d characters", self.name, len(text))
            text = f"{text[:RECALL_CHARS]}\n[…]"
        return render("recall/engine", name=self.name, text=quoted(text)) if text else ""

    def capture(self, chat: ToolChat, asked: str, answered: str) -> None:
        """Passes a turn to the engine in the background."""
        if not _is_owners(chat) or type(self.plugin).capture is MemoryPlugin.capture:
            return

        async def capture() -> None:
            with self._errors_logged("capturing a turn"):
                async with asyncio.timeout(CAPTURE_SECONDS):
                    await self.plugin.capture(chat, asked, answered)

        task = asyncio.create_task(capture(), name="memory-capture")
        self._captures.add(task)
        task.add_done_callback(self._captures.discard)

    def session_started(self) -> None:
        with self._errors_logged("noticing a session"):
            self.plugin.session_started()

    def notes_changed(self) -> None:
        with self._errors_logged("noticing a note"):
            self.plugin.notes_changed()

    def transcripts_changed(self) -> None:
        with self._errors_logged("noticing a turn"):
            self.plugin.transcripts_changed()

    async def sync(self) -> None:
        """Waits until everything written so far can be found."""
        with self._errors_logged("following the notes"):
            await self.plugin.sync()

    async def status(self) -> str:
        """One line for the owner."""
        if self._why_empty:
            return f"{NO_MEMORY} · {self._why_empty}"
        try:
            return await self.plugin.status()
        except Exception as error:
            log.exception("the memory engine %s failed at its status", self.name)
            return f"{NO_MEMORY} · {_message_of(error)}"

    def _serves(self, chat: ToolChat) -> bool:
        if chat.policy.is_private:
            return _is_owners(chat)
        return self.plugin.serves_other_chats and bool(chat.policy.notes_folder) and chat.policy.sees_notes

    @contextmanager
    def _errors_logged(self, doing: str) -> Iterator[None]:
        """Logs an error of the engine and continues after the block."""
        try:
            yield
        except Exception:
            log.exception("the memory engine %s failed at %s", self.name, doing)


def _is_owners(chat: ToolChat) -> bool:
    """Whether this chat may see the owner's memory."""
    return chat.policy.is_private and chat.policy.sees_notes


def _message_of(error: Exception) -> str:
    """The error's message without its period, or its type."""
    if isinstance(error, TimeoutError) and not str(error):
        return "it took too long"
    return str(error).strip().rstrip(".") or type(error).__name__
