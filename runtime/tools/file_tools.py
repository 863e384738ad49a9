"""The tools `read`, `write`, `edit`, `append` and `list` for files of the workspace.

Each call first checks the real path against the chat's policy. Nothing outside the workspace is reachable,
and a file that could not be read is not overwritten. Nothing is removed except BOOTSTRAP.md, by an empty
`write` after the first conversation.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from pydantic import Field

from nacre.memory.contracts.notes import encoding_of_note
from nacre.memory.contracts.workspace import FIRST_RUN_FILE, FileBusy, FileBytes, PathOutsideRoot, Workspace
from nacre.memory.files.sources.proposed_write import WaitsForReview
from nacre.memory.files.sources.secrets import REDACTED, without_new_secrets
from nacre.memory.files.sources.source import NOT_THE_OWNERS
from nacre.runtime.contracts.policy import SHARED_FOLDER, ChatPolicy
from nacre.runtime.tools.toolbox import RESULT_PREFIX, CallScope, Tool, ToolArguments, ToolFailed, ToolOutput
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.contracts.messages import WholeResults

FILE_TOOL_NAMES = ("read", "write", "edit", "append", "list")
MAX_LISTED = 500
DATE_PLACEHOLDER = "YYYY-MM-DD"
"""Replaced by today's date in a path and in the owner's flush instructions."""

FLUSH_HEADING = "## Notes of the conversation"
"""The beginning of each flush's heading in a daily log; the time follows it."""

ReadSkill = Callable[[str], Awaitable[FileBytes | None]]
"""Reads a file by its path in the list of skills; returns `None` for any other path."""

_DAILY_LOG = re.compile(r"memory/\d{4}-\d{2}-\d{2}\.md")
_NOTES = re.compile(r"memory\.md|memory/.*\.md")


def file_tools(
    workspace: Workspace,
    policy: ChatPolicy,
    *,
    approved: Workspace | None = None,
    asks_secrets: bool = False,
    on_changed: Callable[[str], None],
    now: Callable[[], datetime],
    whole_results: WholeResults,
    read_skill: ReadSkill,
    page_chars: int,
) -> tuple[Tool, ...]:
    """The five tools for one chat; only `read`, for this session's results, if the chat sees no notes.

    `approved` is the workspace for calls that the owner approved. With `asks_secrets`, writing a key or a
    password needs the owner's approval. `on_changed` is called with the relative path of each changed file.
    `now` is the owner's clock: a literal `YYYY-MM-DD` in a path means today. `whole_results` are the results
    of this session. `read_skill` reads a file of a skill outside of the workspace, in the owner's private
    chats. `page_chars` is the most that `read` shows at once.
    """
    files = _Files(workspace, policy, on_changed, now, read_skill)
    approved_files = _Files(approved, policy, on_changed, now, read_skill) if approved else None
    reader = _Reader(files, whole_results, page_chars)
    if not policy.sees_notes:
        return (_tool("read", "Read a whole result of this conversation.", ReadArguments, reader.read),)
    is_whole = policy.writable_folders == ("",)
    hint = "" if is_whole else f" Only {_folders(policy)} can be changed in this chat."
    writing = partial(_writing_tool, files, approved_files, asks_secrets)
    return (
        _tool("read", "Read a text file.", ReadArguments, reader.read),
        writing("write", f"Create a file or replace its whole content.{hint}", WriteArguments, _Files.write),
        writing("edit", f"Replace one exact passage of a file.{hint}", EditArguments, _Files.edit),
        writing("append", f"Add text at the end of a file.{hint}", AppendArguments, _Files.append),
        _tool("list", "List the files in a folder.", ListArguments, files.list),
    )


def _tool(
    name: str,
    description: str,
    arguments: type[ToolArguments],
    call: Callable[[Any], Awaitable[ToolOutput]],
) -> Tool:
    return Tool(name=name, description=description, arguments=arguments, run=partial(run_file_tool, call))


def _writing_tool(
    files: _Files,
    approved_files: _Files | None,
    asks_secrets: bool,
    name: str,
    description: str,
    arguments: type[ToolArguments],
    call: Callable[[_Files, Any], Awaitable[ToolOutput]],
) -> Tool:
    """A tool that uses `approved_files`, if given, for a call that the owner approved."""
    tool = _tool(name, description, arguments, partial(call, files))
    if approved_files is None:
        return tool
    of_owner = partial(run_file_tool, partial(call, approved_files))

    async def run(arguments: Any, scope: CallScope) -> ToolOutput:
        return await (of_owner if scope.is_approved else tool.run)(arguments, scope)

    return replace(tool, run=run, needs_approval=asks_about_secrets if asks_secrets else False)


@dataclass(frozen=True)
class _Files:
    _workspace: Workspace
    _policy: ChatPolicy
    _on_changed: Callable[[str], None]
    _now: Callable[[], datetime]
    _read_skill: ReadSkill

    async def text(self, path: str) -> tuple[str, str, str]:
        if self._policy.is_private and (of_skill := await self._read_skill(path)) is not None:
            name, text, note = shown(path, of_skill)
            return name, text, f"{note}\n[A skill from outside of the workspace: {NOT_THE_OWNERS}.]"
        relative = await self._relative(path)
        if not self._policy.may_read(relative):
            raise ToolFailed(_not_here(relative, self._policy))
        content = await self._workspace.read(str(relative))
        moved = content.relative != relative
        # A hard link is a second name of a file that may be private under its first name.
        if moved or (content.has_other_names and not self._policy.is_private):
            raise ToolFailed(_not_here(relative, self._policy))
        return shown(str(relative), content)

    async def write(self, arguments: WriteArguments) -> ToolOutput:
        relative = await self._writable(arguments.path)
        data = encoded(arguments.content, str(relative))
        is_over = str(relative) == FIRST_RUN_FILE and not data.strip()

        def change(old: bytes | None) -> bytes | None:
            if is_over:
                return None
            if old is not None:
                text_to_change(old, str(relative))
                if old and _DAILY_LOG.fullmatch(str(relative).casefold()):
                    raise ToolFailed(
                        f"{relative} is a daily log, and logs only grow. Use `append` to add to it, "
                        "or `edit` to correct one passage."
                    )
            return data

        await self._workspace.change(str(relative), change)
        self._on_changed(str(relative))
        if is_over:
            return ToolOutput(text=f"Removed {relative}: the first run is over.")
        notice = await self._redacted(arguments, str(relative), data)
        return ToolOutput(text=f"Wrote {characters(len(arguments.content))} to {relative}.{notice}")

    async def edit(self, arguments: EditArguments) -> ToolOutput:
        relative = await self._writable(arguments.path)
        wanted = b""

        def change(old: bytes | None) -> bytes:
            if old is None:
                raise FileNotFoundError(str(relative))
            text = text_to_change(old, str(relative))
            nonlocal wanted
            new = replaced_once(text, arguments.old_text, arguments.new_text, name=str(relative))
            wanted = encoded(new, str(relative))
            return wanted

        await self._workspace.change(str(relative), change)
        self._on_changed(str(relative))
        notice = await self._redacted(arguments, str(relative), wanted)
        return ToolOutput(text=f"Replaced one passage in {relative}.{notice}")

    async def append(self, arguments: AppendArguments) -> ToolOutput:
        relative = await self._writable(arguments.path)
        if not arguments.text.strip():
            raise ToolFailed("The text is empty, so there is nothing to append.")
        encoded(arguments.text, str(relative))
        is_note = bool(_NOTES.fullmatch(str(relative).casefold()))
        # Text noted after a flush gets its own heading, because it does not belong to the flush.
        appended = await self._workspace.append(
            str(relative),
            arguments.text,
            skip_repeats=is_note,
            heading=f"## Noted at {self._now():%H:%M}",
            below=FLUSH_HEADING,
        )
        if not appended.written:
            nothing = appended.left_out or f"Nothing was added: {relative} already contains all of it."
            return ToolOutput(text=nothing)
        self._on_changed(str(relative))
        skipped = (
            f" Left out parts that it already contains: {appended.skipped_parts}."
            if appended.skipped_parts
            else ""
        )
        notice = redacted_notice(arguments.text.encode(), appended.written.encode())
        count = characters(len(appended.written))
        return ToolOutput(text=f"Appended {count} to {relative}.{skipped}{notice}{appended.left_out}")

    async def _redacted(self, arguments: WriteArguments | EditArguments, name: str, wanted: bytes) -> str:
        if not asks_about_secrets(arguments):
            return ""
        return redacted_notice(wanted, (await self._workspace.read(name)).data)

    async def list(self, arguments: ListArguments) -> ToolOutput:
        relative = await self._relative(arguments.path)
        is_root = relative == PurePosixPath()
        if not is_root and not self._policy.may_read(relative):
            raise ToolFailed(_not_here(relative, self._policy))
        # In the root of the workspace, a group sees only the entries that it may open.
        entries = [
            entry
            for entry in await self._workspace.list_folder(str(relative))
            if self._policy.may_read(relative / entry.name)
        ]
        lines = [
            f"{entry.name}/" if entry.is_folder else f"{entry.name} ({entry.size_bytes} bytes)"
            for entry in entries[:MAX_LISTED]
        ]
        if len(entries) > MAX_LISTED:
            lines.append(f"[... and {len(entries) - MAX_LISTED} more]")
        counted = "1 entry" if len(entries) == 1 else f"{len(entries)} entries"
        shown = "\n".join(lines) or "(The folder is empty.)"
        return ToolOutput(text=shown, summary=f"{relative}: {counted}")

    async def _writable(self, path: str) -> PurePosixPath:
        relative = await self._relative(path)
        if self._policy.may_write(relative):
            return relative
        if self._policy.access != "rw":
            raise ToolFailed(
                f"{relative} cannot be written: the owner's settings make the workspace read-only here."
            )
        if self._policy.is_private:
            raise ToolFailed(f"{relative} belongs to a program, so tools cannot write it.")
        raise ToolFailed(f"{relative} cannot be changed in this chat; only {_folders(self._policy)} can.")

    async def _relative(self, path: str) -> PurePosixPath:
        dated = path.replace(DATE_PLACEHOLDER, f"{self._now():%Y-%m-%d}")
        return await self._workspace.real_name(dated)


@dataclass(frozen=True)
class _Reader:
    """Shows pages of files and of this session's full results."""

    _files: _Files
    _whole_results: WholeResults
    _page_chars: int

    async def read(self, arguments: ReadArguments) -> ToolOutput:
        is_result = arguments.path.startswith(RESULT_PREFIX)
        name, text, note = await (self._result if is_result else self._files.text)(arguments.path)
        shown = page(
            text,
            from_line=arguments.from_line,
            from_char=arguments.from_char,
            lines=arguments.lines,
            page_chars=self._page_chars,
        )
        lines = text.count("\n") + 1
        return ToolOutput(text=shown + note, summary=f"{name}, {lines} line{'s' if lines > 1 else ''}")

    async def _result(self, path: str) -> tuple[str, str, str]:
        try:
            text = await self._whole_results.read(path.removeprefix(RESULT_PREFIX))
        except SessionError as error:
            raise ToolFailed(f"{path} cannot be read: {error}") from error
        if text is None:
            raise ToolFailed(f"{path} is not kept in this session. Call the tool again that returned it.")
        return path, text, ""


def _not_here(relative: PurePosixPath, policy: ChatPolicy) -> str:
    if not policy.sees_notes:
        return f"{relative} cannot be read: the owner's settings keep the workspace from this conversation."
    readable = " and ".join(f"{folder}/" for folder in (SHARED_FOLDER, policy.notes_folder) if folder)
    return f"{relative} is not available in this chat; only files in {readable} are."


def _folders(policy: ChatPolicy) -> str:
    folders = policy.writable_folders
    return f"files in {' and '.join(f'{folder}/' for folder in folders)}" if folders else "nothing"


class ReadArguments(ToolArguments):
    path: str = Field(description="File in the workspace, for example 'MEMORY.md'.")
    from_line: int = Field(default=1, ge=1, alias="from", description="First line to show, counted from 1.")
    lines: int | None = Field(default=None, ge=1, description="How many lines to show; all by default.")
    from_char: int = Field(
        default=1, ge=1, alias="char", description="Where to begin in the first line, if it is very long."
    )


class WriteArguments(ToolArguments):
    path: str = Field(description="File in the workspace; folders are created as needed.")
    content: str = Field(description="The whole new content of the file.")


class EditArguments(ToolArguments):
    path: str = Field(description="File in the workspace.")
    old_text: str = Field(description="The passage to replace, copied exactly; it must occur once.")
    new_text: str = Field(description="The replacement; empty to delete the passage.")


class AppendArguments(ToolArguments):
    path: str = Field(description="File in the workspace; created if it does not exist.")
    text: str = Field(description="Markdown to add at the end.")


class ListArguments(ToolArguments):
    path: str = Field(default=".", description="Folder in the workspace; the workspace itself by default.")


def asks_about_secrets(arguments: Any) -> str:
    """Why the owner is asked before a file tool writes; `""` for a text without a key or password."""
    given = (getattr(arguments, name, None) for name in ("content", "text", "new_text"))
    if all(without_new_secrets(text) == text for text in given if isinstance(text, str)):
        return ""
    return (
        f"This writes what looks like a key or a password to {arguments.path}. Approve it to keep the text "
        "unchanged; if you deny it, nothing is written."
    )


def redacted_notice(wanted: bytes, written: bytes) -> str:
    """A sentence if a key or a password was removed while writing, else an empty string."""
    mark = REDACTED.encode()
    if written.count(mark) <= wanted.count(mark):
        return ""
    return f" What looked like a key or a password became {REDACTED}, as memory.secrets says."


async def run_file_tool(
    call: Callable[[Any], Awaitable[ToolOutput]], arguments: Any, _scope: CallScope
) -> ToolOutput:
    """Turns file errors into sentences for the model."""
    try:
        return await call(arguments)
    except WaitsForReview as waiting:
        return ToolOutput(text=str(waiting))
    except (PathOutsideRoot, FileBusy) as error:
        raise ToolFailed(str(error)) from error
    except FileNotFoundError as error:
        raise ToolFailed(f"{arguments.path!r} does not exist. Use `list` to see what is there.") from error
    except IsADirectoryError as error:
        raise ToolFailed(f"{arguments.path} is a folder. Use `list` to see what is in it.") from error
    except NotADirectoryError as error:
        raise ToolFailed(f"{arguments.path!r} is not a folder, or leads through a file.") from error
    except FileExistsError as error:
        raise ToolFailed(f"{arguments.path!r} leads through something that is not a folder.") from error
    except OSError as error:
        raise ToolFailed(f"{arguments.path!r} cannot be used: {error.strerror or error}.") from error


MAX_PAGE_LINES = 2_000
BINARY_PROBE_BYTES = 8_192


def characters(count: int) -> str:
    return f"{count} character{'' if count == 1 else 's'}"


def is_binary(data: bytes) -> bool:
    """Whether the bytes are binary: a zero byte near the beginning, as for git, but not UTF-16."""
    return b"\0" in data[:BINARY_PROBE_BYTES] and encoding_of_note(data) == "utf-8"


def text_to_change(data: bytes, name: str) -> str:
    """The full text of a file that is about to be changed.

    Raises:
        ToolFailed: it is not UTF-8 text, so writing it back would destroy the unreadable bytes.
    """
    if is_binary(data):
        raise ToolFailed(f"{name} is a binary file; the file tools only change text.")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ToolFailed(
            f"{name} is not valid UTF-8 (byte {error.start}), so it is not overwritten. "
            "Write to another file, or ask the owner to convert it."
        ) from error


def encoded(text: str, name: str) -> bytes:
    """The text as UTF-8.

    Raises:
        ToolFailed: it contains a lone surrogate, which UTF-8 cannot represent.
    """
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ToolFailed(
            f"The text for {name} has a broken character at position {error.start}. Leave it out."
        ) from error


def page(text: str, *, from_line: int, lines: int | None, page_chars: int, from_char: int = 1) -> str:
    """Lines of a text, with a note about their position if they are not the whole text.

    A line longer than a page is shown in parts; `from_char` is the beginning in the first line.

    Raises:
        ToolFailed: the text has fewer lines than `from_line`, or the line fewer characters.
    """
    all_lines = text.split("\n")
    if all_lines[-1] == "":
        all_lines.pop()
    total = len(all_lines)
    if total == 0:
        return "(The file is empty.)"
    if from_line > total:
        raise ToolFailed(f"Line {from_line} is past the end: the file has {total} lines.")
    if from_char > max(1, len(all_lines[from_line - 1])):
        raise ToolFailed(
            f"Character {from_char} is past the end: line {from_line} has "
            f"{len(all_lines[from_line - 1])} characters."
        )
    wanted = all_lines[from_line - 1 : from_line - 1 + min(lines or MAX_PAGE_LINES, MAX_PAGE_LINES)]
    wanted[0] = wanted[0][from_char - 1 :]
    if len(wanted[0]) > page_chars:
        next_char = from_char + page_chars
        note = (
            f"[Line {from_line} of {total}, {len(wanted[0]) - page_chars} more characters; "
            f"go on with from={from_line}, char={next_char}.]"
        )
        return f"{wanted[0][:page_chars]}\n\n{note}"
    shown: list[str] = []
    left_chars = page_chars
    for line in wanted:
        if shown and len(line) + 1 > left_chars:
            break
        shown.append(line)
        left_chars -= len(line) + 1
    last = from_line + len(shown) - 1
    if from_line == 1 and from_char == 1 and last == total:
        return "\n".join(shown)
    go_on = f"; go on with from={last + 1}" if last < total else ""
    return "\n".join([*shown, "", f"[Lines {from_line}-{last} of {total}{go_on}.]"])


def replaced_once(text: str, old: str, new: str, *, name: str) -> str:
    """Replaces the only occurrence of `old` in `text`, with the line ends of the file, which may be mixed.

    Raises:
        ToolFailed: `old` is empty, equals `new`, or does not occur exactly once.
    """
    if not old:
        raise ToolFailed("old_text is empty. Give an exact copy of the passage to replace.")
    if old == new:
        raise ToolFailed("old_text and new_text are the same, so nothing would change.")
    lines = old.replace("\r\n", "\n").split("\n")
    found = list(re.finditer("\r?\n".join(map(re.escape, lines)), text))
    if len(found) == 1:
        line_end = "\r\n" if "\r\n" in (found[0][0] if len(lines) > 1 else text) else "\n"
        new = new.replace("\r\n", "\n").replace("\n", line_end)
        return f"{text[: found[0].start()]}{new}{text[found[0].end() :]}"
    if found:
        where = ", ".join(str(text.count("\n", 0, each.start()) + 1) for each in found[:10])
        raise ToolFailed(
            f"old_text was found {len(found)} times in {name} (lines {where}). "
            "Include more of the surrounding lines to make it unique."
        )
    hint = (
        "The file has it with different white space or line breaks; copy it exactly."
        if " ".join(old.split()) in " ".join(text.split()) and old.strip()
        else "Read the file again and copy the passage exactly."
    )
    raise ToolFailed(f"old_text was not found in {name}. {hint}")


def shown(name: str, content: FileBytes) -> tuple[str, str, str]:
    """A file's name and text, and a note if the text is incomplete.

    Raises:
        ToolFailed: the file is binary.
    """
    if is_binary(content.data):
        raise ToolFailed(f"{name} is a binary file of {content.size_bytes} bytes; only text can be read.")
    text = content.text.replace("\r\n", "\n")
    cut = f"\n[Only the first {len(content.data)} of {content.size_bytes} bytes were read.]"
    return name, text, cut if content.is_cut else ""
