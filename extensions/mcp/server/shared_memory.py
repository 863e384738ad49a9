"""An agent's memory, opened for other programs: three tools, and the notes themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from nacre.extensions.mcp.server.append_tool import append_tool
from nacre.memory.contracts.errors import MemoryIndexError
from nacre.memory.engine import MemoryEngine
from nacre.memory.files.note_files import NoteFiles
from nacre.memory.files.sources.sources import Sources
from nacre.records.record import Record
from nacre.runtime.contracts.clock import Clock, epoch_ms
from nacre.runtime.recall.memory_core import memory_tools
from nacre.runtime.recall.open_memory import note_files, open_memory, unindexed_notes
from nacre.runtime.settings.config import Config
from nacre.runtime.storage.opening import storage_of
from nacre.runtime.tools.toolbox import Toolbox

CALL_SECONDS = 60.0
"""How long one call may take before it is stopped."""
SWITCHED_OFF = "Memory search is switched off (memorySearch.enabled)."


class SharedMemory(Record):
    """What other programs get: `tools` to call, `notes` to read. `problem` says why nothing is searched."""

    tools: Toolbox
    notes: NoteFiles
    problem: str = ""


@asynccontextmanager
async def shared_memory(config: Config, now: Clock) -> AsyncIterator[SharedMemory]:
    """The private memory of the agent in `config`, for a program that its owner has started.

    Follows the files while it is open. Where the index cannot be opened, notes are read and written all the
    same, and a search says why there is none. Only an agent that may write to its workspace has
    `memory_append`.

    Raises:
        ConfigError: the settings ask for an embedder or a re-ranker that there cannot be.
    """
    workspace = storage_of(config).workspace()
    sources = Sources(workspace)
    engine, problem = await _opened(config, now)
    try:
        if engine is not None:
            await engine.start_watching()
        tools = list(
            memory_tools(
                engine or unindexed_notes(config, problem),
                sources,
                cites=config.settings.memory.citations != "off",
                languages=engine.languages if engine else (),
                with_conversations="sessions" in config.settings.agent.memory_search.sources,
            )
        )
        tools.append(
            append_tool(workspace, sources, now, written=engine.mark_dirty if engine else lambda: None)
        )
        yield SharedMemory(
            tools=Toolbox(tools, now_ms=lambda: epoch_ms(now()), timeout_seconds=CALL_SECONDS),
            notes=note_files(config, workspace),
            problem=problem,
        )
    finally:
        if engine is not None:
            await engine.close()


async def _opened(config: Config, now: Clock) -> tuple[MemoryEngine | None, str]:
    try:
        engine = await open_memory(config, now)
    except MemoryIndexError as error:
        return None, str(error)
    return engine, "" if engine is not None else SWITCHED_OFF
