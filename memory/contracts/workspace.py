"""The owner's Markdown, whatever holds it: the only way to read and write it. A folder is the first member.

A name is a file's path from the root with forward slashes, never an absolute one; `.` is the root. Nothing
here knows what a file says. Methods that wait are coroutines, and run what blocks on a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Protocol, TypeAlias

from nacre.memory.contracts.notes import NoteBytes, NoteListing, NoteWatch, WantedNotes
from nacre.record import Record

MAX_READ_BYTES = 2 * 1024 * 1024
"""Most of a file that is read at once, unless a reader asks for another bound."""

FIRST_RUN_FILE = "BOOTSTRAP.md"
"""What a new workspace has for the first conversation, which removes it."""

RACY_NS = 2_000_000_000
"""A change that is younger than this, in nanoseconds, may be followed by one that leaves the same
fingerprint: the steps of the coarsest clock that a member's stamps come from."""


class PathOutsideRoot(Exception):
    """A path was refused: it leads out of its folder or no system could hold it safely."""


class FileBusy(Exception):
    """Another process kept a workspace file locked for longer than a writer waits."""


class Fingerprint(Record):
    """What tells a changed file from the same one without reading it.

    Files with equal fingerprints have the same content, unless `changed_ns`, the time of the last change in
    nanoseconds since the epoch, was less than `RACY_NS` ago when one was taken.
    """

    facts: tuple[int, ...]
    changed_ns: int


class FileBytes(Record):
    """What was read: `data` is cut at the asked bound, `size_bytes` is the whole file's size.

    `relative` is the name of the file that was read, which is another one than that asked for when a link
    led there. `has_other_names` tells of hard links: the same bytes stand under another name as well.
    """

    relative: PurePosixPath
    data: bytes
    size_bytes: int
    has_other_names: bool

    @property
    def is_cut(self) -> bool:
        """Whether the file goes on behind `data`."""
        return self.size_bytes > len(self.data)


ReadFailed: TypeAlias = OSError | PathOutsideRoot
"""Why a file cannot be read; `FileNotFoundError` when there is none."""


class FolderEntry(Record):
    """One name in a folder; size and time of change are 0 for folders. Links are entries, not followed."""

    name: str
    is_folder: bool
    size_bytes: int
    modified_ns: int


class Appended(Record):
    """`written` is the text that went into the file, `""` when all of it stood there already.

    `skipped_parts` counts the paragraphs and list items that were left out as repeats.
    """

    written: str
    skipped_parts: int


class Workspace(Protocol):
    """The owner's Markdown files.

    Every method that takes a name raises `PathOutsideRoot` for one that leads out of the root, and `OSError`
    (`FileNotFoundError`, `IsADirectoryError`, …) for what cannot be done; those that write raise `FileBusy`
    while another process holds the file. A write that failed leaves the file as it was.
    """

    @property
    def place(self) -> str:
        """Where the files are, for the owner's eyes: a path, an address without a password."""

    @property
    def is_there(self) -> bool:
        """Whether the files can be reached, as far as is known without waiting.

        Notes on a drive that is not mounted must not be begun anew: they would seem lost.
        """

    @property
    def folder(self) -> Path | None:
        """The folder of this machine that the files lie in, `None` where there is none.

        Only for what is beside the workspace: where a relative path in `extraPaths` starts, and the name of
        what lies outside.
        """

    def may_change(self, name: str) -> bool:
        """Whether a file could be made or changed, as far as is known without waiting.

        `False` of what is mounted to be read, or not the process's to write. A name that leads out, and what
        only an attempt can tell, is `True`: the attempt says why.
        """

    async def real_name(self, name: str) -> PurePosixPath:
        """The name of the file that `name` leads to, links followed; the file need not exist."""

    async def list_folder(self, name: str, *, beginnings: tuple[str, ...] = ("",)) -> tuple[FolderEntry, ...]:
        """The entries of a folder, sorted by name; names that begin with a dot are left out.

        With `beginnings` only names that have one of them; the other files are not looked at.
        """

    async def fingerprints(self, names: Sequence[str]) -> Mapping[str, Fingerprint | None]:
        """The fingerprints of many files in one step; `None` where there is no file. Raises nothing.

        A link has a fingerprint of its own, not that of what it leads to.
        """

    async def read(self, name: str, *, max_bytes: int = MAX_READ_BYTES) -> FileBytes:
        """The first `max_bytes` of a file. Only regular files: a pipe keeps nobody waiting."""

    async def read_many(
        self, names: Sequence[str], *, max_bytes: int = MAX_READ_BYTES
    ) -> Mapping[str, FileBytes | ReadFailed]:
        """Many files in one step; what cannot be read has its error as its value."""

    async def append(
        self, name: str, text: str, *, skip_repeats: bool = True, heading: str = "", below: str = ""
    ) -> Appended:
        """Adds Markdown at the end of a file, which is made if need be; what stands there is not touched.

        The text starts on a fresh line, after a blank line unless a list goes on, and is safe from a kill
        when this returns. With `skip_repeats`, parts that already stand in the file under the same heading
        are left out; of a very large file, those near its end. What is left then stands under `heading`, a
        Markdown line, unless the file ends right behind that line, or the text has a heading of that level.
        With `below`, the heading is for a file alone that ends under a heading which begins so, or "Retain".
        """

    async def change(self, name: str, change: Callable[[bytes | None], bytes | None]) -> None:
        """Replaces a file by `change(old bytes)`, whole or not at all; `None` stands for a missing file, and
        removes one.

        Nobody else changes the file in between, and an exception from `change` leaves it alone.
        """

    async def make(self, files: Mapping[str, bytes], *, folders: Sequence[str] = ()) -> tuple[str, ...]:
        """Makes the root, `folders` and those `files` that are not there, in order; the names it made.

        What exists stays as it is.
        """

    async def list_notes(self, wanted: Sequence[WantedNotes]) -> NoteListing:
        """The notes that are asked for, in the order of `wanted` and by name below. Raises nothing.

        A note that two of `wanted` cover is there once. Links are passed over, as are folders of tools. Where
        the notes may only seem to be gone, such as in an empty folder that may be a drive which is not
        mounted, the listing says that it could not look.
        """

    async def read_notes(self, names: Sequence[str]) -> Mapping[str, NoteBytes | ReadFailed]:
        """Whole notes of a listing; what cannot be read has its error as its value, `NoteTooLarge` too.

        A note that has become a link since it was listed is refused.
        """

    async def now_ns(self) -> int:
        """Now by the clock that the marks of notes come from; 0 if it cannot be asked.

        A note whose marks are not older than this when it is read is looked at again the next time.
        """

    def watch(self, wanted: Sequence[WantedNotes], changed: Callable[[], None]) -> NoteWatch:
        """Calls `changed` on the running loop, soon after each change of the notes that are asked for.

        It may be called once for many changes, and without one when a change may have been missed.
        """
