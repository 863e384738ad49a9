"""A workspace without a folder: it keeps the contract from asking for what only folders have."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from nacre.memory.contracts.notes import (
    IGNORED_FOLDERS,
    MAX_NOTE_BYTES,
    FoundNote,
    NoteBytes,
    NoteListing,
    NoteMarks,
    NoteTooLarge,
    WantedNotes,
    is_markdown,
)
from nacre.memory.contracts.records import SkippedPath
from nacre.memory.contracts.workspace import (
    MAX_READ_BYTES,
    RACY_NS,
    Appended,
    FileBytes,
    Fingerprint,
    FolderEntry,
    PathOutsideRoot,
    ReadFailed,
)
from nacre.memory.text.repeats import addition
from nacre.memory.workspace.paths import plain_name

BEGAN_NS = 1_700_000_000 * 10**9


def is_note(name: str) -> bool:
    """Whether a listing has the file of this name."""
    return is_markdown(name) and IGNORED_FOLDERS.isdisjoint(name.split("/")[:-1])


@dataclass(frozen=True, kw_only=True)
class Row:
    """One file, and the number of the write that made it so."""

    data: bytes
    revision: int


@dataclass
class Everything:
    """What a database would hold. Its clock goes on with each write, by more than stamps can blur."""

    files: dict[str, Row] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    watches: list[RememberedWatch] = field(default_factory=list)
    reads: list[str] = field(default_factory=list)
    revision: int = 0

    def write(self, name: str, data: bytes) -> None:
        """Keeps a file, and tells who watches."""
        self.revision += 1
        self.files[name] = Row(data=data, revision=self.revision)
        self.tell(name)

    def remove(self, name: str) -> None:
        """Forgets a file."""
        del self.files[name]
        self.tell(name)

    def tell(self, name: str) -> None:
        """Calls those who wanted to know of this file."""
        for watch in self.watches:
            if is_note(name) and any(asked.covers(name) for asked in watch.wanted):
                watch.loop.call_soon(watch.changed)

    def is_folder(self, name: str) -> bool:
        """Whether there is a folder of this name; `.` is always one."""
        return name == "." or name in self.folders or any(file.startswith(f"{name}/") for file in self.files)

    def at_ns(self, revision: int) -> int:
        """When a write was made."""
        return BEGAN_NS + revision * 2 * RACY_NS


@dataclass(eq=False)
class RememberedWatch:
    """A watch over an `Everything`."""

    everything: Everything
    wanted: Sequence[WantedNotes]
    changed: Callable[[], None]
    loop: asyncio.AbstractEventLoop
    problem: str = ""

    async def close(self) -> None:
        """Is told nothing any more."""
        self.everything.watches.remove(self)


class RememberedWorkspace:
    """A `Workspace` over an `Everything`."""

    place = "memory"
    is_there = True
    folder = None

    def __init__(self, everything: Everything) -> None:
        self._everything = everything

    async def real_name(self, name: str) -> PurePosixPath:
        return plain_name(name)

    async def list_folder(self, name: str, *, beginnings: tuple[str, ...] = ("",)) -> tuple[FolderEntry, ...]:
        folder = str(plain_name(name))
        if not self._everything.is_folder(folder):
            raise FileNotFoundError(folder)
        prefix = "" if folder == "." else f"{folder}/"
        found: dict[str, FolderEntry] = {}
        for path in (*self._everything.files, *self._everything.folders):
            entry, _, below = path.removeprefix(prefix).partition("/")
            if not path.startswith(prefix) or entry.startswith(".") or not entry.startswith(beginnings):
                continue
            row = None if below else self._everything.files.get(path)
            found[entry] = FolderEntry(
                name=entry,
                is_folder=row is None,
                size_bytes=len(row.data) if row else 0,
                modified_ns=self._everything.at_ns(row.revision) if row else 0,
            )
        return tuple(found[entry] for entry in sorted(found))

    async def fingerprints(self, names: Sequence[str]) -> Mapping[str, Fingerprint | None]:
        rows = {name: self._everything.files.get(name) for name in names}
        return {
            name: row and Fingerprint(facts=(row.revision,), changed_ns=self._everything.at_ns(row.revision))
            for name, row in rows.items()
        }

    async def read(self, name: str, *, max_bytes: int = MAX_READ_BYTES) -> FileBytes:
        row, plain = self._row(name), plain_name(name)
        return FileBytes(
            relative=plain, data=row.data[:max_bytes], size_bytes=len(row.data), has_other_names=False
        )

    async def read_many(
        self, names: Sequence[str], *, max_bytes: int = MAX_READ_BYTES
    ) -> Mapping[str, FileBytes | ReadFailed]:
        found: dict[str, FileBytes | ReadFailed] = {}
        for name in names:
            try:
                found[name] = await self.read(name, max_bytes=max_bytes)
            except (OSError, PathOutsideRoot) as error:
                found[name] = error
        return found

    async def append(
        self, name: str, text: str, *, skip_repeats: bool = True, heading: str = "", below: str = ""
    ) -> Appended:
        path = str(plain_name(name))
        old = self._everything.files[path].data if path in self._everything.files else b""
        added, appended = addition(
            old.decode(errors="replace"), text, skip_repeats=skip_repeats, heading=heading, below=below
        )
        if added:
            self._everything.write(path, old + added.encode())
        return appended

    async def change(self, name: str, change: Callable[[bytes | None], bytes | None]) -> None:
        path = str(plain_name(name))
        row = self._everything.files.get(path)
        old = row.data if row else None
        if (new := change(old)) is None:
            if row is not None:
                self._everything.remove(path)
        elif new != old:
            self._everything.write(path, new)

    async def make(self, files: Mapping[str, bytes], *, folders: Sequence[str] = ()) -> tuple[str, ...]:
        self._everything.folders.update(str(plain_name(folder)) for folder in folders)
        made = tuple(name for name in files if name not in self._everything.files)
        for name in made:
            self._everything.write(str(plain_name(name)), files[name])
        return made

    async def list_notes(self, wanted: Sequence[WantedNotes]) -> NoteListing:
        found: dict[str, FoundNote] = {}
        missing: list[SkippedPath] = []
        for asked in wanted:
            covered = [name for name in sorted(self._everything.files) if asked.covers(name)]
            if asked.is_required and not covered:
                missing.append(SkippedPath(path=asked.name, reason="missing"))
            for name in filter(is_note, covered):
                found.setdefault(name, FoundNote(name=name, marks=self._marks(name)))
        return NoteListing(notes=tuple(found.values()), skipped=tuple(missing))

    async def read_notes(self, names: Sequence[str]) -> Mapping[str, NoteBytes | ReadFailed]:
        found: dict[str, NoteBytes | ReadFailed] = {}
        for name in names:
            self._everything.reads.append(name)
            try:
                data = self._row(name).data
                if len(data) > MAX_NOTE_BYTES:
                    raise NoteTooLarge(len(data))
                found[name] = NoteBytes(data=data, marks=self._marks(name))
            except (OSError, PathOutsideRoot) as error:
                found[name] = error
        return found

    async def now_ns(self) -> int:
        return self._everything.at_ns(self._everything.revision + 1)

    def watch(self, wanted: Sequence[WantedNotes], changed: Callable[[], None]) -> RememberedWatch:
        watch = RememberedWatch(self._everything, wanted, changed, asyncio.get_running_loop())
        self._everything.watches.append(watch)
        return watch

    def _row(self, name: str) -> Row:
        path = str(plain_name(name))
        if path in self._everything.files:
            return self._everything.files[path]
        raise IsADirectoryError(path) if self._everything.is_folder(path) else FileNotFoundError(path)

    def _marks(self, name: str) -> NoteMarks:
        row = self._everything.files[name]
        at_ns = self._everything.at_ns(row.revision)
        return NoteMarks(
            size_bytes=len(row.data), modified_ns=at_ns, changed_ns=at_ns, device=0, inode=row.revision
        )
