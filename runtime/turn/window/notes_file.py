"""The one file that a flush may write: append only, whatever path the model names."""

from __future__ import annotations

from pydantic import Field

from nacre.memory.contracts.workspace import FileBusy, PathOutsideRoot, Workspace
from nacre.memory.files.sources.proposed import WaitsForReview
from nacre.memory.workspace.workspace import workspace_gone
from nacre.runtime.tools.toolbox import CallScope, Tool, ToolArguments, ToolFailed, ToolOutput


class AppendArguments(ToolArguments):
    """Arguments of the flush turn's only tool."""

    path: str = Field(default="", description="Today's log; any other path is redirected to it.")
    text: str = Field(description="Markdown to append: short bullets, each understandable on its own.")


class NotesFile:
    """Today's log as a flush may touch it: append only, and never the same block twice.

    `problem` says why the last attempt to write failed; empty when it did not. `added` is what was
    written, or what `waits` for the owner before it is.

    Each block stands under `heading`, a Markdown line. `is_for_bank` is a log of which pages are made.
    """

    def __init__(self, workspace: Workspace, path: str, *, heading: str, is_for_bank: bool) -> None:
        self.path = path
        self.is_for_bank = is_for_bank
        self.wrote = False
        self.waits = False
        self.problem = ""
        self.added = ""
        self._heading = heading
        self._workspace = workspace

    def tool(self) -> Tool:
        """The `append` tool that writes here, whatever path the model names."""
        return Tool(
            name="append",
            description=f"Append Markdown to {self.path}. Text that already stands there is not added again.",
            arguments=AppendArguments,
            run=self._append,
        )

    async def _append(self, arguments: AppendArguments, _scope: CallScope) -> ToolOutput:
        if not arguments.text.strip():
            raise ToolFailed("The text is empty, so there is nothing to append.")
        try:
            if not self._workspace.is_there:
                raise FileNotFoundError(workspace_gone(self._workspace))
            outcome = await self._workspace.append(self.path, arguments.text, heading=self._heading)
        except WaitsForReview as waiting:
            self.wrote, self.waits, self.problem = True, True, ""
            self.added += waiting.text
            return ToolOutput(text=f"Noted for {self.path}; the owner looks at it before it stands there.")
        except (OSError, PathOutsideRoot, FileBusy) as error:
            # Without the system's words, which name the whole path: others may read along.
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            self.problem = f"{self.path} could not be written: {reason}"
            raise ToolFailed(self.problem) from error
        if not outcome.written:
            return ToolOutput(text=f"Nothing new: all of it already stands in {self.path}.")
        self.wrote, self.problem = True, ""
        self.added += outcome.written
        return ToolOutput(text=f"Appended to {self.path}.")
