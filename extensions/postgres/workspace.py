"""The workspace as rows of a PostgreSQL database."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, TypeVar

from nacre.extensions.postgres.document_rows import DocumentRows, Moment, NameRange, Row
from nacre.memory.contracts.notes import (
    IGNORED_FOLDERS,
    MAX_NOTE_BYTES,
    FoundNote,
    NoteBytes,
    NoteListing,
    NoteMarks,
    NoteTooLarge,
    WantedNotes,
    encoding_of_note,
    is_markdown,
    text_of_note,
)
from nacre.memory.contracts.records import SkippedPath
from nacre.memory.contracts.workspace import (
    MAX_READ_BYTES,
    Appended,
    FileBytes,
    Fingerprint,
    FolderEntry,
    PathOutsideRoot,
    ReadFailed,
)
from nacre.memory.text.repeats import addition
from nacre.memory.workspace.paths import plain_name

if TYPE_CHECKING:
    from nacre.extensions.postgres.server.database import Database

T = TypeVar("T")
LOOK_SECONDS = 1.0


class RevisionWatch:
    """Implements `NoteWatch` by polling every second. It starts with the running loop.

    An unreachable database is reported as its problem; afterwards, missed changes are reported.
    """

    def __init__(self, rows: DocumentRows, changed: Callable[[], None]) -> None:
        self._rows = rows
        self._changed = changed
        self.problem = ""
        self._looking = asyncio.get_running_loop().create_task(self._look())

    async def close(self) -> None:
        self._looking.cancel()
        with suppress(asyncio.CancelledError):
            await self._looking

    async def _look(self) -> None:
        seen: int | None = None
        while True:
            try:
                revision = await self._rows.single(Moment.revision)
            except OSError as error:
                self.problem = f"changes of the workspace are not noticed: {error}"
            else:
                self.problem = ""
                if revision != seen:  # the first look counts: it may be later than a change
                    self._changed()
                seen = revision
            await asyncio.sleep(LOOK_SECONDS)


_NEVER_SETTLED = Fingerprint(facts=(), changed_ns=2**63)
"""The fingerprint of unreachable files: reading them raises the error."""


class PostgresWorkspace:
    """Implements `Workspace` over the rows of one agent, without folders on disk and links.

    A write applies to the text that was read; if somebody else wrote meanwhile, it is repeated on theirs.
    """

    is_there = True
    folder = None

    def __init__(self, database: Database, *, agent: str) -> None:
        self._rows = DocumentRows(database, agent)

    @property
    def place(self) -> str:
        return self._rows.place

    def may_change(self, name: str) -> bool:  # noqa: ARG002 - only an attempt can tell
        return True

    async def real_name(self, name: str) -> PurePosixPath:
        return plain_name(name)

    async def list_folder(self, name: str, *, beginnings: tuple[str, ...] = ("",)) -> tuple[FolderEntry, ...]:
        folder = str(plain_name(name))
        prefix = "" if folder == "." else f"{folder}/"
        ranges = [NameRange.beginning(prefix + beginning) for beginning in beginnings]

        def read(rows: Moment) -> list[list[Row]]:
            found = rows.in_ranges(ranges)
            if not any(found) and prefix and not rows.is_folder(folder):
                if folder in rows.named([folder]):
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder)
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), folder)
            return found

        entries: dict[str, FolderEntry] = {}
        for row in (row for rows in await self._rows.read(read) for row in rows):
            entry, _, below = row.name.removeprefix(prefix).partition("/")
            if not entry.startswith("."):
                is_folder = bool(below) or row.is_folder
                entries[entry] = FolderEntry(
                    name=entry,
                    is_folder=is_folder,
                    size_bytes=0 if is_folder else row.size_bytes,
                    modified_ns=0 if is_folder else row.changed_ns,
                )
        return tuple(entries[entry] for entry in sorted(entries))

    async def fingerprints(self, names: Sequence[str]) -> Mapping[str, Fingerprint | None]:
        plain, _refused = _plain(names)
        try:
            rows = await self._rows.single(lambda rows: rows.named(list(plain.values())))
        except OSError:
            return dict.fromkeys(names, _NEVER_SETTLED)
        found = {name: rows.get(plain.get(name, "")) for name in names}
        return {
            name: Fingerprint(facts=(row.revision,), changed_ns=row.changed_ns) if row else None
            for name, row in found.items()
        }

    async def read(self, name: str, *, max_bytes: int = MAX_READ_BYTES) -> FileBytes:
        plain_name(name)
        found = (await self.read_many((name,), max_bytes=max_bytes))[name]
        if not isinstance(found, FileBytes):
            raise found
        return found

    async def read_many(
        self, names: Sequence[str], *, max_bytes: int = MAX_READ_BYTES
    ) -> Mapping[str, FileBytes | ReadFailed]:
        return await self._read_each(names, max_bytes, _file_bytes)

    async def _read_each(
        self,
        names: Sequence[str],
        max_bytes: int,
        found_in: Callable[[Moment, str, tuple[Row, bytes] | None], T | ReadFailed],
    ) -> Mapping[str, T | ReadFailed]:
        plain, refused = _plain(names)

        def read(rows: Moment) -> dict[str, T | ReadFailed]:
            there = rows.bodies(list(plain.values()), max_bytes=max_bytes)
            return {name: found_in(rows, place, there.get(place)) for name, place in plain.items()}

        try:
            found: Mapping[str, T | ReadFailed] = await self._rows.read(read)
        except OSError as error:
            found = dict.fromkeys(plain, error)
        return {name: found[name] if name in found else refused[name] for name in names}

    async def append(
        self, name: str, text: str, *, skip_repeats: bool = True, heading: str = "", below: str = ""
    ) -> Appended:
        plain = _file_name(name)
        appended = Appended(written="", skipped_parts=0)
        if not text.strip():
            return appended

        def add(old: bytes | None) -> bytes:
            nonlocal appended
            there = old or b""
            existing = text_of_note(there)
            added, appended = addition(
                existing, text, skip_repeats=skip_repeats, heading=heading, below=below
            )
            return there + added.encode(encoding_of_note(there))

        await self._rows.change(plain, add)
        return appended

    async def change(self, name: str, change: Callable[[bytes | None], bytes | None]) -> None:
        await self._rows.change(_file_name(name), change)

    async def make(self, files: Mapping[str, bytes], *, folders: Sequence[str] = ()) -> tuple[str, ...]:
        wanted = {name: _file_name(name) for name in files}
        wanted_folders = [_file_name(folder) for folder in folders]

        def missing(rows: Moment) -> list[str]:
            there = rows.named([*wanted.values(), *wanted_folders])
            return [name for name in (*wanted.values(), *wanted_folders) if name not in there]

        def make(rows: Moment) -> tuple[str, ...]:
            rows.begin_writing()
            absent = set(missing(rows))
            for folder in wanted_folders:
                rows.put_folder(folder)
            made = [name for name, place in wanted.items() if place in absent]
            for name in made:
                rows.put(wanted[name], files[name], seen=None)
            return tuple(made)

        return await self._rows.write(make) if await self._rows.read(missing) else ()

    async def list_notes(self, wanted: Sequence[WantedNotes]) -> NoteListing:
        ranges = [_range(asked, whole) for asked in wanted for whole in (False, True)]
        try:
            found = await self._rows.read(lambda rows: rows.in_ranges(ranges))
        except OSError as error:
            skipped = SkippedPath(path=".", reason=str(error))
            return NoteListing(skipped=(skipped,), unreadable=("",))
        notes: dict[str, FoundNote] = {}
        missing: list[SkippedPath] = []
        for at, asked in enumerate(wanted):
            rows = (row for part in found[2 * at : 2 * at + 2] for row in part)
            covered = [row for row in rows if not row.is_folder and asked.covers(row.name)]
            if asked.is_required and not covered:
                missing.append(SkippedPath(path=asked.name, reason="missing"))
            for row in covered:
                if is_markdown(row.name) and IGNORED_FOLDERS.isdisjoint(row.name.split("/")[:-1]):
                    notes.setdefault(row.name, FoundNote(name=row.name, marks=_marks(row)))
        return NoteListing(notes=tuple(notes.values()), skipped=tuple(missing))

    async def read_notes(self, names: Sequence[str]) -> Mapping[str, NoteBytes | ReadFailed]:
        return await self._read_each(names, MAX_NOTE_BYTES, _note_bytes)

    async def now_ns(self) -> int:
        with suppress(OSError):
            return await self._rows.single(Moment.now_us) * 1000
        return 0

    def watch(self, wanted: Sequence[WantedNotes], changed: Callable[[], None]) -> RevisionWatch:  # noqa: ARG002 - it watches all
        """Watches the whole workspace, including files that were not named."""
        return RevisionWatch(self._rows, changed)


def _file_name(name: str) -> str:
    plain = str(plain_name(name))
    if plain == ".":
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    return plain


def _plain(names: Sequence[str]) -> tuple[dict[str, str], dict[str, PathOutsideRoot]]:
    """The names without `.` and `..`, and the errors of names that lead out of the workspace."""
    found, refused = {}, {}
    for name in names:
        try:
            found[name] = str(plain_name(name))
        except PathOutsideRoot as error:
            refused[name] = error
    return found, refused


def _file_bytes(rows: Moment, name: str, found: tuple[Row, bytes] | None) -> FileBytes | ReadFailed:
    if found is None or found[0].is_folder:
        if found is not None or name == "." or rows.is_folder(name):
            return IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    row, data = found
    return FileBytes(
        relative=PurePosixPath(name), data=data, size_bytes=row.size_bytes, has_other_names=False
    )


def _note_bytes(_rows: Moment, name: str, found: tuple[Row, bytes] | None) -> NoteBytes | ReadFailed:
    if found is None or found[0].is_folder:
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    row, data = found
    if row.size_bytes > MAX_NOTE_BYTES:
        return NoteTooLarge(row.size_bytes)
    return NoteBytes(data=data, marks=_marks(row))


def _range(asked: WantedNotes, is_below: bool) -> NameRange:
    if asked.name == ".":
        return NameRange.beginning("") if is_below else NameRange.one("")
    return NameRange.beginning(f"{asked.name}/") if is_below else NameRange.one(asked.name)


def _marks(row: Row) -> NoteMarks:
    return NoteMarks(
        size_bytes=row.size_bytes,
        modified_ns=row.changed_ns,
        changed_ns=row.changed_ns,
        device=0,
        inode=row.revision,
    )
