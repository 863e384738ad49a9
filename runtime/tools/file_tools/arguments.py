"""What the file tools are called with, as the model sees it."""

from __future__ import annotations

from pydantic import Field

from nacre.runtime.tools.toolbox import ToolArguments


class ReadArguments(ToolArguments):
    """Arguments of `read`."""

    path: str = Field(description="File in the workspace, for example 'MEMORY.md'.")
    from_line: int = Field(default=1, ge=1, alias="from", description="First line to show, counted from 1.")
    lines: int | None = Field(default=None, ge=1, description="How many lines to show; all by default.")
    from_char: int = Field(
        default=1, ge=1, alias="char", description="Where to begin in the first line, if that is very long."
    )


class WriteArguments(ToolArguments):
    """Arguments of `write`."""

    path: str = Field(description="File in the workspace; folders are made as needed.")
    content: str = Field(description="The whole new content of the file.")


class EditArguments(ToolArguments):
    """Arguments of `edit`."""

    path: str = Field(description="File in the workspace.")
    old_text: str = Field(description="The passage to replace, exactly as it stands; it must occur once.")
    new_text: str = Field(description="What takes its place; empty to delete the passage.")


class AppendArguments(ToolArguments):
    """Arguments of `append`."""

    path: str = Field(description="File in the workspace; made if it does not exist.")
    text: str = Field(description="Markdown to add at the end.")


class ListArguments(ToolArguments):
    """Arguments of `list`."""

    path: str = Field(default=".", description="Folder in the workspace; the workspace itself by default.")
