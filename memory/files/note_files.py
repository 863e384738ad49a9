"""Which notes are memory, and reading them: `MEMORY.md`, `memory.md`, `memory/`, `chats/` and `extraPaths`.

The workspace serves extra paths inside of it, and this machine's file system the others. `memory_get` reads
no path with a symbolic link and no transcript.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from nacre.memory.contracts.errors import ReadRefused
from nacre.memory.contracts.notes import (
    CHATS_FOLDER,
    FoundNote,
    NoteBytes,
    NoteListing,
    NoteWatch,
    WantedNotes,
    is_markdown,
)
from nacre.memory.contracts.records import Excerpt
from nacre.memory.contracts.workspace import PathOutsideRoot, ReadFailed, Workspace
from nacre.memory.text.chunker import decode_markdown
from nacre.memory.workspace.extra_paths import ExtraPaths, extra_paths_of

ROOT_FILES = ("MEMORY.md", "memory.md")
NOTE_FOLDERS = ("memory", CHATS_FOLDER)
_ALWAYS = tuple(WantedNotes(name=name) for name in (*ROOT_FILES, *NOTE_FOLDERS))


class NoteFiles:
    """All notes of one agent. `extra_paths` come from the settings, with `~` expanded.

    `always` are the notes that need no setting.
    """

    def __init__(
        self,
        workspace: Workspace,
        extra_paths: Sequence[str] = (),
        *,
        always: Sequence[WantedNotes] = _ALWAYS,
    ) -> None:
        self.workspace = workspace
        self._always = tuple(always)
        self.extra_paths = tuple(extra_paths)

    async def listing(self) -> NoteListing:
        """Every note that exists now, in a fixed order. Raises nothing."""
        extra = await self._extra()
        found = await self.workspace.list_notes((*self._always, *extra.inside))
        if not (extra.outside or extra.skipped):
            return found
        outside = await extra.outside.list_notes()
        return NoteListing(
            notes=_each_once((*found.notes, *outside.notes)),
            skipped=(*found.skipped, *extra.skipped, *outside.skipped),
            unreadable=(*found.unreadable, *outside.unreadable),
        )

    async def read(self, names: Sequence[str]) -> Mapping[str, NoteBytes | ReadFailed]:
        """Whole notes of a listing by name; the value is the error if a note cannot be read."""
        extra = await self._extra()
        if not extra.outside:
            return await self.workspace.read_notes(names)
        wanted = (*self._always, *extra.inside)
        inside = [name for name in names if any(asked.covers(name) for asked in wanted)]
        outside = list(set(names).difference(inside))
        return {**await self.workspace.read_notes(inside), **await extra.outside.read_notes(outside)}

    async def name_of(self, text: str) -> str:
        """The name of the note that `text` refers to. The note need not exist; its path must not have a link.

        Raises:
            ReadRefused: the note may not be shown; the message says which may be.
        """
        extra = await self._extra()
        name = extra.name_of(text)
        is_inside = any(asked.covers(name) for asked in (*self._always, *extra.inside))
        if not is_markdown(name) or not (is_inside or extra.outside.has(name)):
            raise ReadRefused(
                f"path required: {text!r} is not a memory file. Allowed are MEMORY.md, Markdown files in "
                "memory/ and chats/, and the configured extra paths."
            )
        try:
            if not is_inside:
                extra.outside.refuse_links(name)
            elif (await self.workspace.real_name(name)).as_posix() != name:
                raise PathOutsideRoot("it goes through a symbolic link.")
        except PathOutsideRoot as error:
            raise ReadRefused(f"{text!r} is refused: {error}") from error
        return name

    async def watch(self, changed: Callable[[], None]) -> NoteWatch:
        """Calls `changed` soon after each change of a note, and when a change may have been missed."""
        extra = await self._extra()
        watches = [self.workspace.watch((*self._always, *extra.inside), changed)]
        if extra.outside:
            watches.append(extra.outside.watch(changed))
        return _Watches(tuple(watches))

    async def _extra(self) -> ExtraPaths:
        # This is computed each time, because which paths are patterns depends on what exists.
        if not self.extra_paths:
            return extra_paths_of(self.workspace.folder, ())
        return await asyncio.to_thread(extra_paths_of, self.workspace.folder, self.extra_paths)


class _Watches(NamedTuple):
    watches: tuple[NoteWatch, ...]

    @property
    def problem(self) -> str:
        return "; ".join(filter(None, (watch.problem for watch in self.watches)))

    async def close(self) -> None:
        for watch in self.watches:
            await watch.close()


def _each_once(notes: Sequence[FoundNote]) -> tuple[FoundNote, ...]:
    """The notes without second names of the same file, as links between two folders make them."""
    found: dict[tuple[int, int] | str, FoundNote] = {}
    for note in notes:
        marks = note.marks
        found.setdefault((marks.device, marks.inode) if marks.inode else note.name, note)
    return tuple(found.values())


MAX_EXCERPT_CHARS = 12_000
"""A longer excerpt without a line count is cut at a line end and marked `truncated`."""


async def read_excerpt(
    notes: NoteFiles,
    path: str,
    *,
    from_line: int | None = None,
    lines: int | None = None,
    below: str = "",
) -> Excerpt:
    """`lines` lines of a memory file from `from_line`, counted from 1; without both, the whole file.

    With `below`, a folder such as `chats/telegram-group-7`, only files in this folder may be read.

    Raises:
        ReadRefused: the path is not a memory file, or cannot be read.
    """
    text = path.strip()
    if not text:
        raise ReadRefused(
            "path required: name a memory file, for example 'MEMORY.md' or 'memory/2026-02-10.md'."
        )
    if text.startswith("sessions/"):
        raise ReadRefused(f"{text!r} is a transcript. Transcripts can be searched, not read.")
    shown = await notes.name_of(text)
    if below and not shown.startswith(f"{below}/"):
        raise ReadRefused(f"path required: {text!r} is not a note of this chat. They are in {below}/.")
    return excerpt_of(shown, (await notes.read([shown]))[shown], from_line, lines)


def content_lines(raw: bytes) -> list[str]:
    """The lines of a note, as line numbers count them."""
    lines = decode_markdown(raw)
    # A final line feed does not begin another line.
    return lines[:-1] if lines and not lines[-1] else lines


def excerpt_of(path: str, found: NoteBytes | ReadFailed, from_line: int | None, count: int | None) -> Excerpt:
    """`count` lines of a note from `from_line`; without `count`, as many as an excerpt may have.

    Raises:
        ReadRefused: the note exists and could not be read.
    """
    if isinstance(found, FileNotFoundError | NotADirectoryError):
        return Excerpt(path=path, text="", start_line=0, end_line=0, total_lines=0, missing=True)
    if not isinstance(found, NoteBytes):
        raise ReadRefused(f"{path} cannot be read: {str(found).removesuffix('.')}.") from found
    lines, start = content_lines(found.data), max(1, from_line or 1)
    wanted = lines[start - 1 : start - 1 + max(1, count)] if count else lines[start - 1 :]
    kept = len(wanted) if count else _within(wanted)
    text = "\n".join(wanted[:kept])
    return Excerpt(
        path=path,
        text=text,
        start_line=start if wanted else 0,
        end_line=start + kept - 1 if wanted else 0,
        total_lines=len(lines),
        missing=False,
        truncated=kept < len(wanted),
    )


def _within(lines: Sequence[str]) -> int:
    """The number of lines that fit into an excerpt, at least one."""
    size = 0
    for number, line in enumerate(lines):
        size += len(line) + 1
        if size > MAX_EXCERPT_CHARS and number:
            return number
    return len(lines)
