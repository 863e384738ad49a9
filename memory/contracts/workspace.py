"""The contract for workspaces, the only way to read and write the owner's Markdown.

A name is the path of a file relative to the root, with forward slashes; `.` is the root. Coroutines run
blocking work on a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple, Protocol, TypeAlias

from nacre.memory.contracts.notes import NoteBytes, NoteListing, NoteWatch, WantedNotes, text_of_note
from nacre.record import Record

MAX_READ_BYTES = 2 * 1024 * 1024
"""The default limit for reading a file."""

FIRST_RUN_FILE = "BOOTSTRAP.md"
"""A file of new workspaces for the first conversation, which removes it."""

RACY_NS = 2_000_000_000
"""A change that is more recent than this may be followed by another with the same fingerprint: the resolution
of the coarsest clock of a workspace, in nanoseconds."""


class PathOutsideRoot(Exception):
    """A path was refused because it leads out of its folder or is not safe on every system."""


class FileBusy(Exception):
    """Another process held the lock of a workspace file for too long."""


class Fingerprint(Record):
    """Shows whether a file has changed, without reading it.

    Files with equal fingerprints have the same content, unless `changed_ns`, the time of the last change
    since the epoch, was less than `RACY_NS` before a fingerprint was taken.
    """

    facts: tuple[int, ...]
    changed_ns: int


class FileBytes(Record):
    """The first bytes of a file in `data`, and the size of the whole file.

    `relative` is the name of the file that was read, which differs from the requested one behind a link.
    With `has_other_names`, hard links give the file other names too.
    """

    relative: PurePosixPath
    data: bytes
    size_bytes: int
    has_other_names: bool

    @property
    def is_cut(self) -> bool:
        return self.size_bytes > len(self.data)

    @property
    def text(self) -> str:
        return text_of_note(self.data)


ReadFailed: TypeAlias = OSError | PathOutsideRoot
"""Why a file cannot be read; `FileNotFoundError` if it does not exist."""


class FolderEntry(NamedTuple):
    """An entry of a folder. The size and time of folders are 0. Links are not followed."""

    name: str
    is_folder: bool
    size_bytes: int
    modified_ns: int


class Appended(Record):
    """The `written` text, `""` if all of it was there already.

    `skipped_parts` counts paragraphs and list items that were left out as repeats, `rejected_lines` the
    lines that were left out because the owner had rejected them.
    """

    written: str
    skipped_parts: int
    rejected_lines: int = 0

    @property
    def left_out(self) -> str:
        """A sentence for a model about the rejected lines, or an empty string."""
        count = self.rejected_lines
        return f" Left out what the owner rejected before: {count}. Do not write it again." if count else ""


class Workspace(Protocol):
    """The owner's Markdown files.

    Methods that take a name raise `PathOutsideRoot` if it leads out of the root, and `OSError`
    (`FileNotFoundError`, `IsADirectoryError`, …) if the operation fails; methods that write raise `FileBusy`
    if another process holds the file. A failed write leaves the file as it was.
    """

    @property
    def place(self) -> str:
        """The place of the files for the owner: a path, or an address without a password."""

    @property
    def is_there(self) -> bool:
        """Whether the files can be reached, as far as is known without waiting.

        On an unmounted drive, no new workspace must be created, because the notes would seem lost.
        """

    @property
    def folder(self) -> Path | None:
        """The folder of the files on this machine, or `None`.

        Only for what is outside of the workspace: relative paths in `extraPaths`, and names of their notes.
        """

    def may_change(self, name: str) -> bool:
        """Whether a file could be created or changed, as far as is known without waiting.

        `False` on a read-only mount or without permission; otherwise `True`, and only an attempt shows more.
        """

    async def real_name(self, name: str) -> PurePosixPath:
        """The name of the file that `name` refers to through links; the file need not exist."""

    async def list_folder(self, name: str, *, beginnings: tuple[str, ...] = ("",)) -> tuple[FolderEntry, ...]:
        """The entries of a folder by name, without names that begin with a dot.

        With `beginnings`, only names with one of these prefixes.
        """

    async def fingerprints(self, names: Sequence[str]) -> Mapping[str, Fingerprint | None]:
        """The fingerprints of files in one step; `None` for missing files. Raises nothing.

        A link has a fingerprint of its own.
        """

    async def read(self, name: str, *, max_bytes: int = MAX_READ_BYTES) -> FileBytes:
        """The first `max_bytes` of a regular file."""

    async def read_many(
        self, names: Sequence[str], *, max_bytes: int = MAX_READ_BYTES
    ) -> Mapping[str, FileBytes | ReadFailed]:
        """Reads files in one step; the value of an unreadable file is its error."""

    async def append(
        self, name: str, text: str, *, skip_repeats: bool = True, heading: str = "", below: str = ""
    ) -> Appended:
        """Appends Markdown to a file and creates it if needed. The existing text is not changed.

        The text starts on a new line, after a blank line unless a list continues, and survives a kill once
        this returns. With `skip_repeats`, parts that the file has under the same heading are left out; in a
        very large file, only its end is compared. The rest goes under `heading`, a Markdown line, unless the
        file ends with this heading or the text has a heading of its level. With `below`, the heading is only
        added if the file ends under a heading with this prefix, or under "Retain".
        """

    async def change(self, name: str, change: Callable[[bytes | None], bytes | None]) -> None:
        """Replaces a file by `change(old bytes)` atomically. `None` stands for a missing file, and as a
        result removes the file.

        Nobody else changes the file meanwhile. An exception from `change` leaves it as it was.
        """

    async def make(self, files: Mapping[str, bytes], *, folders: Sequence[str] = ()) -> tuple[str, ...]:
        """Creates the root, `folders` and missing `files`, in order; the names of created files."""

    async def list_notes(self, wanted: Sequence[WantedNotes]) -> NoteListing:
        """The wanted notes without repeats, in the order of `wanted` and then by name. Raises nothing.

        Links and folders of tools are skipped. If notes may only seem to be gone, as in an empty folder that
        may be an unmounted drive, the listing marks the place as unreadable.
        """

    async def read_notes(self, names: Sequence[str]) -> Mapping[str, NoteBytes | ReadFailed]:
        """Reads whole notes of a listing; the value of an unreadable note is its error.

        A note that has become a link since the listing is refused.
        """

    async def now_ns(self) -> int:
        """The time by the clock of the notes' marks; 0 if it is unknown.

        A note whose marks are not older than this when it is read has to be read again the next time.
        """

    def watch(self, wanted: Sequence[WantedNotes], changed: Callable[[], None]) -> NoteWatch:
        """Calls `changed` on the running loop soon after changes of the wanted notes.

        One call may stand for many changes, and for changes that may have been missed.
        """
