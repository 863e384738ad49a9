"""An agent's memory, opened for other programs: its notes, and tools to search, read and append to them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from pydantic import Field

from nacre.memory.contracts.errors import MemoryIndexError
from nacre.memory.contracts.workspace import FileBusy, PathOutsideRoot, Workspace
from nacre.memory.engine import MemoryEngine
from nacre.memory.files.note_files import NoteFiles
from nacre.memory.files.sources.source import PRIVATE, Source
from nacre.memory.files.sources.sourced_workspace import SourcedWorkspace
from nacre.memory.files.sources.sources import SourceOf, Sources
from nacre.memory.workspace.workspace import daily_log_path, workspace_gone
from nacre.record import Record
from nacre.runtime.contracts.clock import Clock, epoch_ms
from nacre.runtime.recall.memory_core import memory_tools
from nacre.runtime.recall.open_memory import note_files, open_memory, unindexed_notes
from nacre.runtime.settings.config import Config
from nacre.runtime.storage.storage import storage_of
from nacre.runtime.tools.toolbox import CallScope, Tool, ToolArguments, Toolbox, ToolFailed, ToolOutput

MOST_APPEND_CHARS = 20_000
"""A longer text is not a note; a program should append a summary instead."""
CALL_SECONDS = 60.0
"""The timeout of one call."""
SEARCH_DISABLED = "Memory search is disabled (memorySearch.enabled)."


class AppendArguments(ToolArguments):
    """Arguments of `memory_append`."""

    text: str = Field(
        description="Markdown, preferably list items that make sense without the conversation.",
        max_length=MOST_APPEND_CHARS,
    )


def append_tool(workspace: Workspace, sources: Sources, now: Clock, *, on_write: Callable[[], None]) -> Tool:
    """A tool that appends to today's log and changes nothing else; it calls `written` afterwards.

    Nobody can know who wrote the words of a program: the owner, a model, or a web page that it read. So their
    source says that a tool may have said them, and they are never taken for the owner's.
    """

    async def source_of_lines() -> SourceOf:
        source = Source(
            written_by="tool",
            audience=PRIVATE,
            said_by=("owner", "tool"),
            names=("mcp",),
            chat="a program that shares the memory (MCP)",
            at=now().isoformat(timespec="seconds"),
        )
        return lambda _line: source

    sourced = SourcedWorkspace(workspace, sources, source_of_lines)

    async def append(arguments: AppendArguments, _scope: CallScope) -> ToolOutput:
        if not arguments.text.strip():
            raise ToolFailed("The text is empty; there is nothing to append.")
        moment = now()
        path = daily_log_path(moment.date())
        try:
            if not workspace.is_there:
                raise FileNotFoundError(workspace_gone(workspace))
            appended = await sourced.append(
                path, arguments.text, heading=f"## Noted by a program at {moment:%H:%M}"
            )
        except (OSError, PathOutsideRoot, FileBusy) as error:
            raise ToolFailed(f"{path} could not be written: {error}") from error
        if not appended.written:
            nothing = appended.left_out or f"Nothing was added: {path} already contains all of it."
            return ToolOutput(text=nothing)
        on_write()
        return ToolOutput(text=f"Noted in {path}.{appended.left_out}")

    return Tool(
        name="memory_append",
        description=(
            "Add facts, decisions and preferences to today's log. Use it when the user asks to remember "
            "something. What the log already contains is not added again."
        ),
        arguments=AppendArguments,
        run=append,
    )


class SharedMemory(Record):
    """What other programs get: `tools` and `notes`. `problem` says why search is unavailable."""

    tools: Toolbox
    notes: NoteFiles
    problem: str = ""


@asynccontextmanager
async def shared_memory(config: Config, now: Clock) -> AsyncIterator[SharedMemory]:
    """Opens the private memory of the agent in `config` for a program of its owner.

    Watches the files while it is open. If the index cannot be opened, notes can still be read and written,
    and a search says why it is unavailable. Only an agent that may write to its workspace has
    `memory_append`.

    Raises:
        ConfigError: the settings name an embedder or a re-ranker that is not available.
    """
    workspace = storage_of(config).workspace()
    sources = Sources(workspace)
    engine, problem = await _open_engine(config, now)
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
            append_tool(workspace, sources, now, on_write=engine.mark_dirty if engine else lambda: None)
        )
        yield SharedMemory(
            tools=Toolbox(tools, now_ms=lambda: epoch_ms(now()), timeout_seconds=CALL_SECONDS),
            notes=note_files(config, workspace),
            problem=problem,
        )
    finally:
        if engine is not None:
            await engine.close()


async def _open_engine(config: Config, now: Clock) -> tuple[MemoryEngine | None, str]:
    try:
        engine = await open_memory(config, now)
    except MemoryIndexError as error:
        return None, str(error)
    return engine, "" if engine is not None else SEARCH_DISABLED
