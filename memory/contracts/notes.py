"""Notes as the index sees them: which are wanted, what a listing has of each, and a watch over them.

Names are relative to the workspace, with forward slashes; a note outside of it has a name that
begins with `../` or `/`. Notes are Markdown files outside of the folders of tools.
"""

from __future__ import annotations

import codecs
import fnmatch
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from nacre.memory.contracts.records import SkippedPath
from nacre.record import Record

CHATS_FOLDER = "chats"
"""Notes of chats with others, in a folder for each chat."""

BANK_FOLDER = "bank"
"""Pages that are made from the logs. The folder may be missing until the first page is written."""

MAX_NOTE_BYTES = 64 << 20
"""A larger note is not indexed."""

IGNORED_FOLDERS = frozenset(
    {".git", ".nacre", "node_modules", ".pnpm-store", ".venv", "venv", ".tox", "__pycache__"}
    | {".obsidian", ".trash"}
)
_ANY_FOLDERS = "**"
_CONFLICT_COPY = re.compile(r"\.sync-conflict-\d|conflicted copy|\(case conflict", re.IGNORECASE)


def encoding_of_note(data: bytes) -> str:
    """UTF-8, or UTF-16 after its byte order mark."""
    marks = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
    return marks.get(data[:2], "utf-8")


def is_unicode(data: bytes) -> bool:
    with suppress(UnicodeDecodeError):
        return data.decode(encoding_of_note(data)) is not None
    return False


def is_torn(name: str, data: bytes) -> bool:
    """Whether a note is a copy that Syncthing or Dropbox made of a conflict, or has the marks of git's."""
    return bool(_CONFLICT_COPY.search(name)) or (b"<<<<<<< " in data and b"\n>>>>>>> " in data)


def text_of_note(data: bytes) -> str:
    """The text of a note without byte order mark.

    A line that is not UTF-8 is read as Windows-1252, and what that does not have either becomes U+FFFD.
    """
    if (encoding := encoding_of_note(data)) != "utf-8":
        return data[2:].decode(encoding, "replace")
    data = data.removeprefix(codecs.BOM_UTF8)
    with suppress(UnicodeDecodeError):
        return data.decode()
    return "\n".join(_line_text(line) for line in data.split(b"\n"))


def _line_text(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        # What was read up to a limit may end inside a character.
        is_cut = error.end == len(line) and not line[: error.start].isascii()
        return line.decode("utf-8" if is_cut else "cp1252", "replace")


class NoteTooLarge(OSError):
    """A note is larger than `MAX_NOTE_BYTES` and is not read."""

    def __init__(self, size_bytes: int) -> None:
        super().__init__(f"{size_bytes} bytes is too large for a memory file; {MAX_NOTE_BYTES} is the most")


class NoteMarks(NamedTuple):
    """What shows that a note has changed, without reading it.

    `modified_ns` is the time of its text, which programs may set; `changed_ns` is the time of any change.
    Notes with the same `device` and `inode` are one note with two names; with an `inode` of 0, this is
    unknown. A workspace without inodes returns a unique number per note, such as that of its last write, and
    the device 0.
    """

    size_bytes: int
    modified_ns: int
    changed_ns: int
    device: int
    inode: int


class FoundNote(NamedTuple):
    name: str
    marks: NoteMarks


class NoteBytes(NamedTuple):
    """A whole note, and its marks from before it was read."""

    data: bytes
    marks: NoteMarks

    @property
    def text(self) -> str:
        return text_of_note(self.data)


class NoteListing(Record):
    """Notes in a fixed order, and what was skipped and why.

    `unreadable` are names that could not be listed; `""` is the whole workspace. Notes below them must not
    count as deleted.
    """

    notes: tuple[FoundNote, ...] = ()
    skipped: tuple[SkippedPath, ...] = ()
    unreadable: tuple[str, ...] = ()

    def may_be_deleted(self, name: str) -> bool:
        """Whether the listing proves that a note, which it does not have, is gone."""
        return not any(place in ("", name) or name.startswith(place + "/") for place in self.unreadable)


class WantedNotes(Record):
    """The note `name`, or all notes in and below this folder; `.` is the whole workspace.

    With a `pattern`, only notes below it that match it part by part, or are in a matching folder; `**`
    matches any folders. If it `is_required`, a listing reports it as missing.
    """

    name: str
    pattern: tuple[str, ...] = ()
    is_required: bool = False

    def covers(self, name: str) -> bool:
        """Whether a file of this name is wanted if it is a note."""
        if name == self.name:
            return not self.pattern
        parts = self._below(name)
        return parts is not None and matches(parts, self.pattern, whole=True)

    def _below(self, name: str) -> list[str] | None:
        if self.name == ".":
            return None if name.startswith(("../", "/")) else name.split("/")
        return name[len(self.name) + 1 :].split("/") if name.startswith(f"{self.name}/") else None


class NoteWatch(Protocol):
    """A running watch, which must be closed."""

    @property
    def problem(self) -> str:
        """Why changes are polled instead of reported, or `""`."""

    async def close(self) -> None:
        """Stops the watch."""


def is_markdown(name: str) -> bool:
    """Whether a file of this name is a note, unless it is in one of `IGNORED_FOLDERS`."""
    return name.endswith(".md") or name[-3:].lower() == ".md"


def matches(parts: Sequence[str], pattern: Sequence[str], *, whole: bool) -> bool:
    """Whether a pattern matches these parts or their beginning; with `whole=False`, whether it may match
    longer names."""
    if not pattern:
        return True
    if pattern[0] == _ANY_FOLDERS:
        passed = next((at for at, part in enumerate(parts) if not _visible(part, "*")), len(parts))
        return any(matches(parts[at:], pattern[1:], whole=whole) for at in range(passed + 1))
    if not parts:
        return not whole
    return _visible(parts[0], pattern[0]) and matches(parts[1:], pattern[1:], whole=whole)


def _visible(name: str, pattern: str) -> bool:
    # As in a shell, a wildcard does not match a leading dot.
    return fnmatch.fnmatch(name, pattern) and (pattern.startswith(".") or not name.startswith("."))
