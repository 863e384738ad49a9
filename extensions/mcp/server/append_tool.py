"""`memory_append`: what another program may add to the notes, and whose word that is from then on."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import Field

from nacre.memory.contracts.workspace import FileBusy, PathOutsideRoot, Workspace
from nacre.memory.files.sources.source import PRIVATE, Source
from nacre.memory.files.sources.sourced_workspace import SourcedWorkspace
from nacre.memory.files.sources.sources import SourceOf, Sources
from nacre.memory.workspace.workspace import daily_log_path, workspace_gone
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.tools.toolbox import CallScope, Tool, ToolArguments, ToolFailed, ToolOutput

MOST_CHARS = 20_000
"""More is no note: what a program wants to keep of a long text is a summary of it."""


class AppendArguments(ToolArguments):
    """Arguments of `memory_append`."""

    text: str = Field(
        description="Markdown, best as list items that can be understood without the conversation.",
        max_length=MOST_CHARS,
    )


def append_tool(workspace: Workspace, sources: Sources, now: Clock, *, written: Callable[[], None]) -> Tool:
    """A tool that adds to the log of the day and changes nothing that stands there; `written` hears of it.

    Nobody can know who is behind the words of a program: the owner, a model, or a web page that it read. So
    their source says that a tool may have said them, and they are never taken for the owner's.
    """

    async def begin() -> SourceOf:
        source = Source(
            written_by="tool",
            audience=PRIVATE,
            said_by=("owner", "tool"),
            names=("mcp",),
            chat="a program that shares the memory (MCP)",
            at=now().isoformat(timespec="seconds"),
        )
        return lambda _line: source

    sourced = SourcedWorkspace(workspace, sources, begin)

    async def append(arguments: AppendArguments, _scope: CallScope) -> ToolOutput:
        if not arguments.text.strip():
            raise ToolFailed("The text is empty, so there is nothing to note.")
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
            return ToolOutput(text=f"Nothing was added: all of it already stands in {path}.")
        written()
        return ToolOutput(text=f"Noted in {path}.")

    return Tool(
        name="memory_append",
        description=(
            "Add facts, decisions and preferences to the log of today. Use it when the user asks to remember "
            "something. What already stands there is not added again."
        ),
        arguments=AppendArguments,
        run=append,
    )
