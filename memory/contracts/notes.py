"""Notes as the index sees them: which are asked for, what a listing says of each, and a watch over them.

A name is relative to the workspace, with forward slashes; that of a note outside of it begins with `../` or
`/`. Only Markdown files are notes, and none that lies in a folder of tools.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from nacre.memory.contracts.records import SkippedPath
from nacre.record import Record

CHATS_FOLDER = "chats"
"""Notes of chats that are not private: what others said, in a folder for each chat."""

BANK_FOLDER = "bank"
"""Typed pages made of the logs. It is asked for before the first of them is written, and nobody is told then
that it is missing."""

MAX_NOTE_BYTES = 64 << 20
"""A larger note is not indexed."""

IGNORED_FOLDERS = frozenset(
    {".git", ".nacre", "node_modules", ".pnpm-store", ".venv", "venv", ".tox", "__pycache__"}
    | {".obsidian", ".trash"}
)
_ANY_FOLDERS = "**"


class NoteTooLarge(OSError):
    """A note of more than `MAX_NOTE_BYTES`, of which nothing is read."""

    def __init__(self, size_bytes: int) -> None:
        super().__init__(f"{size_bytes} bytes is too large for a memory file; {MAX_NOTE_BYTES} is the most")


class NoteMarks(NamedTuple):
    """What tells a note from the one that was read under its name, without reading it.

    `modified_ns` is when its text changed, which programs may set as they like; `changed_ns` when anything
    about it changed. Notes with the same `device` and `inode` are one note under two names; an `inode` of 0
    says that nothing is known of that. A member without inodes gives a number that no other of its notes has,
    such as that of the write which made the note so, and 0 as its device.
    """

    size_bytes: int
    modified_ns: int
    changed_ns: int
    device: int
    inode: int


class FoundNote(NamedTuple):
    """A note that a listing found."""

    name: str
    marks: NoteMarks


class NoteBytes(NamedTuple):
    """A whole note, and the marks of the very note that was read, taken before its first byte."""

    data: bytes
    marks: NoteMarks


class NoteListing(Record):
    """What was found, in a fixed order, and what was passed over and why.

    `unreadable` are names that could not be looked into; `""` is the whole workspace. What lies below them
    must not count as deleted.
    """

    notes: tuple[FoundNote, ...] = ()
    skipped: tuple[SkippedPath, ...] = ()
    unreadable: tuple[str, ...] = ()

    def may_be_deleted(self, name: str) -> bool:
        """Whether the listing is proof that the note of this name is gone."""
        return not any(place in ("", name) or name.startswith(place + "/") for place in self.unreadable)


class WantedNotes(Record):
    """The note `name`, or all notes in the folder of that name and below; `.` is the whole workspace.

    With a `pattern`, those below it whose names match it part by part, or lie in a folder that does; `**`
    stands for any folders. The owner asked for what `is_required`: where it is missing, a listing says so.
    """

    name: str
    pattern: tuple[str, ...] = ()
    is_required: bool = False

    def covers(self, name: str) -> bool:
        """Whether the note of this name is asked for, should it be one."""
        if name == self.name:
            return not self.pattern
        parts = self._below(name)
        return parts is not None and matches(parts, self.pattern, whole=True)

    def _below(self, name: str) -> list[str] | None:
        if self.name == ".":
            return None if name.startswith(("../", "/")) else name.split("/")
        return name[len(self.name) + 1 :].split("/") if name.startswith(f"{self.name}/") else None


class NoteWatch(Protocol):
    """A watch that was begun; somebody has to close it."""

    @property
    def problem(self) -> str:
        """Why changes are looked for at intervals instead of being told, or `""`."""

    async def close(self) -> None:
        """Ends it: nothing is told any more."""


def is_markdown(name: str) -> bool:
    """Whether a file of this name is a note, if it lies in none of `IGNORED_FOLDERS`."""
    return name.endswith(".md") or name[-3:].lower() == ".md"


def matches(parts: Sequence[str], pattern: Sequence[str], *, whole: bool) -> bool:
    """Whether a pattern matches these parts or the first few of them; with `whole=False`, may match more."""
    if not pattern:
        return True
    if pattern[0] == _ANY_FOLDERS:
        passed = next((at for at, part in enumerate(parts) if not _visible(part, "*")), len(parts))
        return any(matches(parts[at:], pattern[1:], whole=whole) for at in range(passed + 1))
    if not parts:
        return not whole
    return _visible(parts[0], pattern[0]) and matches(parts[1:], pattern[1:], whole=whole)


def _visible(name: str, pattern: str) -> bool:
    """As in a shell: a wildcard does not stand for a dot at the beginning."""
    return fnmatch.fnmatch(name, pattern) and (pattern.startswith(".") or not name.startswith("."))
