"""The memory engine for `memory.backend: "qmd"`: the program qmd before memory-core."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from nacre.extensions.qmd.exports import SessionExports
from nacre.extensions.qmd.home import Collection, QmdHome, wanted_collections
from nacre.extensions.qmd.program import Program, program_environment
from nacre.extensions.qmd.qmd_notes import ChatNotes, QmdNotes
from nacre.extensions.qmd.upkeep import Upkeep
from nacre.memory.contracts.settings import at_home
from nacre.record import Record
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.recall.memory_core import MemoryCore, memory_tools
from nacre.runtime.recall.memory_plugin import MemoryHome, MemoryPlugin, MemoryTool, Notes
from nacre.runtime.recall.open_memory import open_transcripts, unindexed_notes
from nacre.runtime.settings.config import Config
from nacre.runtime.tools.function import ToolChat

FIRST_SYNC_SECONDS = 5.0
"""How long the first search of the built-in engine waits for its index."""


class QmdMemory(MemoryPlugin):
    """Searches with qmd. `core` is started when qmd fails for the first time."""

    serves_other_chats = True

    def __init__(self, config: Config, core: MemoryCore, *, embedding: asyncio.Lock, now: Clock) -> None:
        self._core = core
        self._settings = config.settings.memory.qmd
        self._parts = qmd_parts(config, self._built_in, embedding=embedding, now=now)
        self._home_of_core: MemoryHome | None = None
        self._starting = asyncio.Lock()
        self._has_core = False
        self._first_sync: asyncio.Task[None] | None = None

    async def start(self, home: MemoryHome) -> None:
        """Creates qmd's folders and starts to follow the notes."""
        self._home_of_core = home
        await self._parts.open()
        await self._parts.upkeep.start()

    async def close(self) -> None:
        await self._parts.upkeep.close()
        if self._first_sync is not None:
            self._first_sync.cancel()
            await asyncio.gather(self._first_sync, return_exceptions=True)
        await self._core.close()

    def tools(self, chat: ToolChat) -> Sequence[MemoryTool]:
        return memory_tools(
            self.searchable(chat),
            self._core.sources,
            cites=self._core.cites(chat.policy),
            below="" if chat.policy.is_private else chat.policy.notes_folder,
            with_conversations=self._settings.sessions.enabled,
        )

    def searchable(self, chat: ToolChat) -> Notes:
        return ChatNotes(notes=self._parts.notes, chat=chat)

    def instructions(self, chat: ToolChat) -> str:
        return self._core.instructions(chat)

    def session_started(self) -> None:
        self._core.session_started()

    def notes_changed(self) -> None:
        """Updates qmd's index, at the earliest `debounceMs` after the last update."""
        self._parts.upkeep.changed.set()
        self._core.notes_changed()

    def transcripts_changed(self) -> None:
        """Exports conversations if they are searched."""
        if self._settings.sessions.enabled:
            self._parts.upkeep.changed.set()
        self._core.transcripts_changed()

    async def sync(self) -> None:
        """Updates qmd's index, and the built-in engine's if it is used, and waits."""
        await self._parts.upkeep.update()
        await self._core.sync()

    async def status(self) -> str:
        """Which engine answers, the number of collections, and the current problem."""
        state = await asyncio.to_thread(self._parts.home.state)
        if problem := self._parts.notes.problem or self._parts.upkeep.problem:
            built_in = await self._core.status() if self._has_core else "memory-core steps in"
            return f"{built_in} · qmd does not answer: {' '.join(problem.split())}"
        count = len(state.collections)
        return f"{'1 collection' if count == 1 else f'{count} collections'}, qmd {self._settings.search_mode}"

    async def _built_in(self) -> Notes:
        async with self._starting:
            if not self._has_core:
                self._has_core = True
                assert self._home_of_core is not None
                await self._core.start(self._home_of_core)
                self._first_sync = asyncio.create_task(self._core.sync(), name="qmd-fallback-sync")
                await asyncio.wait((self._first_sync,), timeout=FIRST_SYNC_SECONDS)
        notes = self._core.engine or self._core.unindexed
        assert notes is not None
        return notes


class QmdParts(Record):
    """qmd for one agent: its folder, its upkeep, and its notes."""

    home: QmdHome
    upkeep: Upkeep
    notes: QmdNotes
    shared_cache: Path

    async def open(self) -> None:
        """Creates qmd's folders, which a search needs.

        Raises:
            OSError: they cannot be created.
        """
        await asyncio.to_thread(self.home.make, self.shared_cache)


def qmd_parts(
    config: Config, built_in: Callable[[], Awaitable[Notes]], *, embedding: asyncio.Lock, now: Clock
) -> QmdParts:
    """qmd as the settings say, not started. `built_in` returns the engine that replaces it."""
    settings, home = config.settings.memory.qmd, qmd_home(config)
    collections = _collections(config)
    program = Program(
        settings.command,
        environment=home.environment(program_environment(config.environment)),
        user_folder=config.home,
    )
    upkeep = Upkeep(
        program,
        home,
        settings.update,
        collections=collections,
        exports=_exports(config, now) if settings.sessions.enabled else None,
        embeds=settings.search_mode != "search",
        embedding=embedding,
        now=now,
    )
    notes = QmdNotes(
        program,
        home,
        settings,
        collections=collections,
        upkeep=upkeep,
        built_in=built_in,
        files=unindexed_notes(config),
        now=now,
    )
    cache = Path(config.environment.get("XDG_CACHE_HOME") or config.home / ".cache")
    return QmdParts(home=home, upkeep=upkeep, notes=notes, shared_cache=cache)


def qmd_home(config: Config) -> QmdHome:
    """The qmd folder of an agent."""
    return QmdHome(config.folders.agent_dir / "qmd")


def _collections(config: Config) -> tuple[Collection, ...]:
    settings = config.settings.memory.qmd
    return wanted_collections(
        agent_id=config.agent_id,
        workspace=config.workspace,
        user_folder=config.home,
        includes_default=settings.include_default_memory,
        paths=settings.paths,
        sessions=_exports_folder(config) if settings.sessions.enabled else None,
    )


def _exports(config: Config, now: Clock) -> SessionExports:
    return SessionExports(
        open_transcripts(config, now),
        _exports_folder(config),
        retention_days=config.settings.memory.qmd.sessions.retention_days,
        now=now,
    )


def _exports_folder(config: Config) -> Path:
    # One per agent, because two agents must not remove each other's exports.
    named = config.settings.memory.qmd.sessions.export_dir.strip()
    if not named:
        return qmd_home(config).sessions
    return config.state_dir / at_home(named, config.home) / config.agent_id
