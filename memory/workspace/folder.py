"""The workspace as a folder of this machine: `Workspace` over `files.py` and `paths.py`, on threads."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath

from nacre.memory.contracts.notes import NoteBytes, NoteListing, NoteWatch, WantedNotes
from nacre.memory.contracts.workspace import (
    MAX_READ_BYTES,
    Appended,
    FileBytes,
    Fingerprint,
    FolderEntry,
    PathOutsideRoot,
    ReadFailed,
)
from nacre.memory.workspace.files import (
    append_locked,
    change_locked,
    entries_of,
    file_bytes,
    fingerprint,
    make_files,
    note_bytes,
    stamped_now_ns,
)
from nacre.memory.workspace.paths import contained_path, kept_inside, path_in_root, refuse_kept
from nacre.memory.workspace.walk import notes_in


class FolderWorkspace:
    """`Workspace` (its methods are described there) over the folder `root`.

    `lock_dir` is a folder for the locks that processes share. `kept` are places of programs: what lies
    there and inside the root is neither listed, read nor written by name; whoever asks gets
    `PathOutsideRoot`.
    """

    def __init__(self, root: Path, *, lock_dir: Path, kept: Sequence[Path] = ()) -> None:
        self._root = root
        self._lock_dir = lock_dir
        self._kept = tuple(kept)
        self.place = str(root)

    @property
    def is_there(self) -> bool:
        return self._root.is_dir()

    @property
    def folder(self) -> Path:
        return self._root

    def may_change(self, name: str) -> bool:
        try:
            path = contained_path(self._root, name)
        except PathOutsideRoot:
            return True
        # a folder must let names into it, a file must let itself be written
        there = next((each for each in (path, *path.parents) if each.exists()), self._root)
        return os.access(there, os.W_OK)

    async def real_name(self, name: str) -> PurePosixPath:
        return path_in_root(self._root, contained_path(self._root, name))

    async def list_folder(self, name: str, *, beginnings: tuple[str, ...] = ("",)) -> tuple[FolderEntry, ...]:
        return await asyncio.to_thread(lambda: entries_of(self._allowed(name), beginnings))

    async def fingerprints(self, names: Sequence[str]) -> Mapping[str, Fingerprint | None]:
        # Every turn asks: a look at a few files is quicker than a thread.
        return {name: fingerprint(f"{self.place}/{name}") for name in names}

    async def read(self, name: str, *, max_bytes: int = MAX_READ_BYTES) -> FileBytes:
        return await asyncio.to_thread(self._read, name, max_bytes, self._kept)

    async def read_many(
        self, names: Sequence[str], *, max_bytes: int = MAX_READ_BYTES
    ) -> Mapping[str, FileBytes | ReadFailed]:
        def read() -> dict[str, FileBytes | ReadFailed]:
            kept = kept_inside(self._root, self._kept)
            return {name: self._read_or_error(name, max_bytes, kept) for name in names}

        return await asyncio.to_thread(read)

    async def append(
        self, name: str, text: str, *, skip_repeats: bool = True, heading: str = "", below: str = ""
    ) -> Appended:
        path = self._allowed(name)
        if not text.strip():
            return Appended(written="", skipped_parts=0)
        append = partial(append_locked, path, text, self._lock_dir, skip_repeats=skip_repeats)
        return await asyncio.to_thread(append, heading=heading, below=below)

    async def change(self, name: str, change: Callable[[bytes | None], bytes | None]) -> None:
        await asyncio.to_thread(change_locked, self._allowed(name), change, self._lock_dir)

    async def make(self, files: Mapping[str, bytes], *, folders: Sequence[str] = ()) -> tuple[str, ...]:
        return await asyncio.to_thread(make_files, self._root, files, folders)

    async def list_notes(self, wanted: Sequence[WantedNotes]) -> NoteListing:
        return await asyncio.to_thread(notes_in, self._root, wanted)

    async def read_notes(self, names: Sequence[str]) -> Mapping[str, NoteBytes | ReadFailed]:
        def read() -> dict[str, NoteBytes | ReadFailed]:
            # Once for all: the root may have links in it, which the notes in it may not.
            root = Path(os.path.realpath(self._root))
            return {name: _note(root, name) for name in names}

        return await asyncio.to_thread(read)

    async def now_ns(self) -> int:
        return await asyncio.to_thread(stamped_now_ns, self._lock_dir)

    def watch(self, wanted: Sequence[WantedNotes], changed: Callable[[], None]) -> NoteWatch:
        from nacre.memory.workspace.watcher import FolderWatch, concerns_workspace, watch_plan

        root = Path(os.path.realpath(self._root))
        places, top = [root / asked.name for asked in wanted], {asked.name for asked in wanted}
        return FolderWatch(
            lambda: watch_plan(root, places), lambda path: concerns_workspace(root, top, path), changed
        )

    def _allowed(self, name: str) -> Path:
        path = contained_path(self._root, name)
        refuse_kept(self._root, path, kept_inside(self._root, self._kept))
        return path

    def _read(self, name: str, max_bytes: int, kept: Sequence[Path]) -> FileBytes:
        if kept := kept_inside(self._root, kept):
            refuse_kept(self._root, contained_path(self._root, name), kept)
        return file_bytes(self._root, name, max_bytes=max_bytes)

    def _read_or_error(self, name: str, max_bytes: int, kept: Sequence[Path]) -> FileBytes | ReadFailed:
        try:
            return self._read(name, max_bytes, kept)
        except (OSError, PathOutsideRoot) as error:
            return error


def _note(root: Path, name: str) -> NoteBytes | ReadFailed:
    if name.startswith("/") or ".." in name.split("/"):
        return PathOutsideRoot(f"The path {name!r} leads out of its folder.")
    try:
        return note_bytes(root / name)
    except (OSError, PathOutsideRoot) as error:
        return error
