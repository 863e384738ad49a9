"""The workspace as a folder of this machine: bounded reads, appends, replacements and walks, on threads."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from nacre.locks import lock_within
from nacre.memory.contracts.notes import (
    IGNORED_FOLDERS,
    MAX_NOTE_BYTES,
    FoundNote,
    NoteBytes,
    NoteListing,
    NoteMarks,
    NoteTooLarge,
    NoteWatch,
    WantedNotes,
    encoding_of_note,
    is_markdown,
    matches,
    text_of_note,
)
from nacre.memory.contracts.records import SkippedPath
from nacre.memory.contracts.workspace import (
    MAX_READ_BYTES,
    Appended,
    FileBusy,
    FileBytes,
    Fingerprint,
    FolderEntry,
    PathOutsideRoot,
    ReadFailed,
)
from nacre.memory.workspace.paths import contained_path, kept_inside, open_regular, path_in_root, refuse_kept


class FolderWorkspace:
    """`Workspace` over the folder `root`; its methods are documented there.

    `lock_dir` is a folder for locks shared by processes. `kept` are places of programs: those inside the root
    are neither listed, read nor written by name, and give `PathOutsideRoot`.
    """

    def __init__(self, root: Path, *, lock_dir: Path, kept: Sequence[Path] = ()) -> None:
        self.folder = root
        self._lock_dir = lock_dir
        self._kept = tuple(kept)
        self.place = str(root)

    @property
    def is_there(self) -> bool:
        return self.folder.is_dir()

    def may_change(self, name: str) -> bool:
        try:
            path = contained_path(self.folder, name)
        except PathOutsideRoot:
            return True
        # a folder needs write and search permission, a file write permission
        there = next((each for each in (path, *path.parents) if each.exists()), self.folder)
        return os.access(there, os.W_OK)

    async def real_name(self, name: str) -> PurePosixPath:
        return path_in_root(self.folder, contained_path(self.folder, name))

    async def list_folder(self, name: str, *, beginnings: tuple[str, ...] = ("",)) -> tuple[FolderEntry, ...]:
        return await asyncio.to_thread(lambda: entries_of(self._allowed(name), beginnings))

    async def fingerprints(self, names: Sequence[str]) -> Mapping[str, Fingerprint | None]:
        # Every turn does this, and checking a few files is faster than a thread.
        return {name: fingerprint(f"{self.place}/{name}") for name in names}

    async def read(self, name: str, *, max_bytes: int = MAX_READ_BYTES) -> FileBytes:
        return await asyncio.to_thread(
            lambda: self._read(name, max_bytes, kept_inside(self.folder, self._kept))
        )

    async def read_many(
        self, names: Sequence[str], *, max_bytes: int = MAX_READ_BYTES
    ) -> Mapping[str, FileBytes | ReadFailed]:
        def read() -> dict[str, FileBytes | ReadFailed]:
            kept = kept_inside(self.folder, self._kept)
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
        return await asyncio.to_thread(make_files, self.folder, files, folders)

    async def list_notes(self, wanted: Sequence[WantedNotes]) -> NoteListing:
        return await asyncio.to_thread(notes_in, self.folder, wanted)

    async def read_notes(self, names: Sequence[str]) -> Mapping[str, NoteBytes | ReadFailed]:
        def read() -> dict[str, NoteBytes | ReadFailed]:
            # Resolved once: the root may contain links, which the notes in it may not.
            root = Path(os.path.realpath(self.folder))
            return {name: _note(root, name) for name in names}

        return await asyncio.to_thread(read)

    async def now_ns(self) -> int:
        return await asyncio.to_thread(stamped_now_ns, self._lock_dir)

    def watch(self, wanted: Sequence[WantedNotes], changed: Callable[[], None]) -> NoteWatch:
        from nacre.memory.workspace.watcher import FolderWatch, concerns_workspace, watch_plan

        root = Path(os.path.realpath(self.folder))
        places, top = [root / each.name for each in wanted], {each.name for each in wanted}
        return FolderWatch(
            lambda: watch_plan(root, places), lambda path: concerns_workspace(root, top, path), changed
        )

    def _allowed(self, name: str) -> Path:
        path = contained_path(self.folder, name)
        refuse_kept(self.folder, path, kept_inside(self.folder, self._kept))
        return path

    def _read(self, name: str, max_bytes: int, kept: Sequence[Path]) -> FileBytes:
        if kept:
            refuse_kept(self.folder, contained_path(self.folder, name), kept)
        return file_bytes(self.folder, name, max_bytes=max_bytes)

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


LOCK_WAIT_SECONDS = 10.0
TAIL_BYTES = 1 << 20
"""How much of a file's end an append reads, for the current heading and for repeats."""


def file_bytes(root: Path, name: str, *, max_bytes: int) -> FileBytes:
    """The first `max_bytes` of a file inside `root`.

    Raises:
        PathOutsideRoot: as `contained_path`; also for anything but a regular file.
        OSError: the file is missing, is a folder, or cannot be read.
    """
    path = contained_path(root, name)
    with _binary(open_regular(path, os.O_RDONLY), "rb") as file:
        info = os.fstat(file.fileno())
        data = file.read(max_bytes)
    return FileBytes(
        relative=path_in_root(root, path),
        data=data,
        size_bytes=max(info.st_size, len(data)),
        has_other_names=info.st_nlink > 1,
    )


def note_bytes(path: Path) -> NoteBytes:
    """The whole file at a path without symbolic links.

    Raises:
        OSError: it cannot be read; `NoteTooLarge` above `MAX_NOTE_BYTES`.
        PathOutsideRoot: it is a symbolic link or not a regular file.
    """
    with _binary(open_regular(path, os.O_RDONLY), "rb") as file:
        info = os.fstat(file.fileno())
        if info.st_size > MAX_NOTE_BYTES:
            raise NoteTooLarge(info.st_size)
        return NoteBytes(data=file.read(), marks=note_marks(info))


def note_marks(info: os.stat_result) -> NoteMarks:
    """A note's marks from its stat result."""
    return NoteMarks(
        size_bytes=info.st_size,
        modified_ns=info.st_mtime_ns,
        changed_ns=info.st_ctime_ns,
        device=info.st_dev,
        inode=info.st_ino,
    )


def stamped_now_ns(folder: Path) -> int:
    """The time by the clock of this machine's disk; 0 if nothing can be written."""
    marker = folder / "clock"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        marker.touch(mode=0o600)
        return marker.stat().st_mtime_ns
    except OSError:
        return 0


def fingerprint(path: str) -> Fingerprint | None:
    """Device, inode, size and times, which tell a changed file; `None` without a file.

    Links are not followed.
    """
    try:
        info = os.lstat(path)
    except (OSError, ValueError):
        return None
    times_ns = info.st_mtime_ns, info.st_ctime_ns
    return Fingerprint(facts=(info.st_dev, info.st_ino, info.st_size, *times_ns), changed_ns=max(times_ns))


def make_files(root: Path, files: Mapping[str, bytes], folders: Sequence[str]) -> tuple[str, ...]:
    """Creates missing root, folders and files; the names of the created files.

    Raises:
        OSError: the disk refused. No part of a file stays.
    """
    for folder in (root, *(contained_path(root, name) for name in folders)):
        folder.mkdir(parents=True, exist_ok=True)
    created: list[str] = []
    for name, data in files.items():
        with suppress(FileExistsError):
            file = (root / name).open("xb")
            try:
                with file:
                    file.write(data)
            except OSError:  # the next start would take a part of it for the owner's
                (root / name).unlink()
                raise
            created.append(name)
    return tuple(created)


def whole_file(path: Path) -> bytes | None:
    """All bytes of a file; `None` if it does not exist."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def folder_entries(found: Iterable[os.DirEntry[str]]) -> tuple[FolderEntry, ...]:
    """The entries of a scanned folder by name, without files that have disappeared."""
    entries: list[FolderEntry] = []
    for entry in found:
        if entry.name.startswith("."):
            continue
        size_bytes = modified_ns = 0
        if entry.is_file(follow_symlinks=False):
            try:
                info = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            size_bytes, modified_ns = info.st_size, info.st_mtime_ns
        entries.append(
            FolderEntry(
                name=entry.name,
                is_folder=entry.is_dir(follow_symlinks=False),
                size_bytes=size_bytes,
                modified_ns=modified_ns,
            )
        )
    return tuple(sorted(entries, key=lambda entry: entry.name))


def entries_of(folder: Path, beginnings: tuple[str, ...]) -> tuple[FolderEntry, ...]:
    """The entries of a folder whose names begin with one of `beginnings`."""
    with os.scandir(folder) as scan:
        return folder_entries(entry for entry in scan if entry.name.startswith(beginnings))


def append_locked(
    path: Path, text: str, lock_dir: Path, *, skip_repeats: bool, heading: str, below: str
) -> Appended:
    """Appends Markdown to a file in one synced write, and creates the file if needed.

    Raises:
        FileBusy: another process holds the file.
        OSError: the disk refused; the file is as before.
    """
    from nacre.memory.text.repeats import addition  # most commands only read

    with locked(path, lock_dir):
        path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not path.exists()
        with _binary(open_regular(path, os.O_RDWR | os.O_APPEND | os.O_CREAT), "rb+") as file:
            encoding = encoding_of_note(file.read(2))
            tail = _tail(file, encoding)
            added, appended = addition(tail, text, skip_repeats=skip_repeats, heading=heading, below=below)
            if added:
                _append(file.fileno(), added.encode(encoding))
        if is_new:
            _sync_folder(path.parent)
    return appended


def _tail(file: BinaryIO, encoding: str) -> str:
    left_out = max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES)
    file.seek(left_out)
    data = file.read()
    tail = data.decode(encoding, "replace") if left_out else text_of_note(data)
    return tail[tail.find("\n") + 1 :] if left_out else tail


def _append(descriptor: int, data: bytes) -> None:
    size_bytes = os.fstat(descriptor).st_size
    try:
        if os.write(descriptor, data) != len(data):
            raise OSError(f"only a part of {len(data)} bytes could be written; the disk may be full")
        os.fsync(descriptor)
    except OSError:
        # A torn note would be read as complete; the lock still protects the file.
        with suppress(OSError):
            os.ftruncate(descriptor, size_bytes)
        raise


def change_locked(path: Path, change: Callable[[bytes | None], bytes | None], lock_dir: Path) -> None:
    """Replaces a file by `change(old bytes)` atomically and keeps its mode; `None` removes it.

    Raises the same errors as `append_locked`.
    """
    with locked(path, lock_dir):
        path.parent.mkdir(parents=True, exist_ok=True)
        mode: int | None = None
        old: bytes | None = None
        with suppress(FileNotFoundError), _binary(open_regular(path, os.O_RDONLY), "rb") as file:
            mode = os.fstat(file.fileno()).st_mode & 0o777
            old = file.read()
        new = change(old)
        if new is None:
            path.unlink(missing_ok=True)
            _sync_folder(path.parent)
        elif new != old:
            _replace(path, new, mode)


def _replace(path: Path, data: bytes, mode: int | None) -> None:
    # One fixed name for each target, so that an existing file was left by a killed writer.
    from hashlib import sha256

    temporary = path.parent / f".{sha256(path.name.encode()).hexdigest()[:16]}.tmp"
    temporary.unlink(missing_ok=True)
    try:
        with _binary(open_regular(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            file.write(data)
            file.flush()
            if mode is not None:
                temporary.chmod(mode)
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


@contextmanager
def locked(path: Path, lock_dir: Path) -> Iterator[None]:
    from hashlib import sha256

    lock_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    name = sha256(str(path).encode()).hexdigest()[:24]
    release = lock_within(lock_dir / f"{name}.file", LOCK_WAIT_SECONDS)
    if release is None:
        raise FileBusy(
            f"Another process has held {path.name!r} for {LOCK_WAIT_SECONDS:.0f} seconds. Try again later."
        )
    try:
        yield
    finally:
        release()


def _sync_folder(folder: Path) -> None:
    # Some systems cannot open a folder, and some file systems cannot sync one.
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _binary(descriptor: int, mode: str) -> BinaryIO:
    return cast(BinaryIO, os.fdopen(descriptor, mode))


_SYMLINK = "a symbolic link, which is never followed; name its target in extraPaths instead"


def notes_in(root: Path, wanted: Sequence[WantedNotes]) -> NoteListing:
    """The notes of a workspace in the folder `root`. Unreadable places raise nothing."""
    real_root = Path(os.path.realpath(root))
    prefix_chars = len(os.path.join(real_root, ""))  # noqa: PTH118 - a Path drops the separator
    walk = Walk(lambda path: path[prefix_chars:].replace(os.sep, "/"))
    try:
        entries = os.listdir(real_root)  # noqa: PTH208 - names are enough, and the call proves that the folder is readable
    except OSError as error:
        walk.skip(real_root, f"the workspace is not readable ({error.strerror or type(error).__name__})")
        return NoteListing(skipped=tuple(walk.skipped), unreadable=("",))
    if not entries:
        # An unmounted drive looks like an empty workspace.
        walk.unreadable.append("")
    for each in wanted:
        # Taken from the entries, so that a case-folding system does not find a file under two names.
        if each.is_required or each.name.partition("/")[0] in entries:
            walk.visit(real_root / each.name, each.pattern, is_required=each.is_required)
    return walk.listing()


class Walk:
    """Collects notes; `name_of` returns the name of the file at an absolute path."""

    def __init__(self, name_of: Callable[[str], str]) -> None:
        self._name_of = name_of
        self._notes: dict[tuple[int, int] | str, FoundNote] = {}
        self.skipped: list[SkippedPath] = []
        self.unreadable: list[str] = []

    def listing(self) -> NoteListing:
        return NoteListing(
            notes=tuple(self._notes.values()),
            skipped=tuple(self.skipped),
            unreadable=tuple(self.unreadable),
        )

    def visit(self, path: Path, pattern: tuple[str, ...] = (), *, is_required: bool) -> None:
        """Adds the file at `path`, or the files in that folder that match `pattern`."""
        try:
            info = path.lstat()
        except FileNotFoundError:
            if is_required:
                self.skip(path, "missing")
                # A missing extra path may be an unmounted drive, so what was indexed from it stays.
                self._keep(path)
            return
        except OSError as error:
            self._unread(path, error)
            return
        if stat.S_ISLNK(info.st_mode):
            self.skip(path, _SYMLINK)
        elif pattern:
            if not self._folder(path, pattern):
                self.skip(path.joinpath(*pattern), "the pattern matches nothing")
        elif stat.S_ISDIR(info.st_mode):
            self._folder(path, ())
        elif not stat.S_ISREG(info.st_mode):
            self.skip(path, "not a regular file")
        elif is_markdown(path.name):
            self._add(os.fspath(path), note_marks(info))
        elif is_required:
            self.skip(path, "not a Markdown file (.md)")

    def skip(self, path: Path | str, reason: str) -> None:
        # A name that is not Unicode must not break printing.
        shown = os.fsencode(path).decode("utf-8", "backslashreplace")
        self.skipped.append(SkippedPath(path=shown, reason=reason))

    def _folder(self, folder: Path, pattern: tuple[str, ...]) -> int:
        count, prefix_chars = 0, len(os.path.join(folder, ""))  # noqa: PTH118 - a Path drops the separator

        def fits(path: str, *, whole: bool) -> bool:
            return not pattern or matches(Path(path[prefix_chars:]).parts, pattern, whole=whole)

        # Without recursion, because folders may be nested deeper than Python's stack.
        open_folders = [iter(self._entries(os.fspath(folder)))]
        while open_folders:
            entry = next(open_folders[-1], None)
            if entry is None:
                open_folders.pop()
                continue
            try:
                if entry.is_symlink():
                    if not pattern:
                        self.skip(entry.path, _SYMLINK)
                elif entry.is_dir(follow_symlinks=False):
                    if not fits(entry.path, whole=False):
                        continue
                    if entry.name in IGNORED_FOLDERS:
                        self.skip(entry.path, "a folder of tools, not of notes")
                    else:
                        open_folders.append(iter(self._entries(entry.path)))
                elif is_markdown(entry.name) and fits(entry.path, whole=True):
                    count += 1
                    if entry.is_file(follow_symlinks=False):
                        self._add(entry.path, note_marks(entry.stat(follow_symlinks=False)))
                    else:
                        self.skip(entry.path, "not a regular file")
            except FileNotFoundError:
                continue
            except OSError as error:
                self._unread(entry.path, error)
        return count

    def _entries(self, folder: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except FileNotFoundError:
            return []
        except OSError as error:
            self._unread(folder, error)
            return []

    def _add(self, path: str, marks: NoteMarks) -> None:
        name = self._name_of(path)
        try:
            name.encode()
        except UnicodeEncodeError:  # some systems allow such names
            self.skip(path, "its name is not Unicode; rename it")
            return
        # One file under two names (case folding, overlapping extra paths) is one file. On some
        # systems, listing a folder does not return inodes.
        key = (marks.device, marks.inode) if marks.inode else os.path.normcase(path)
        if key not in self._notes:
            self._notes[key] = FoundNote(name=name, marks=marks)

    def _unread(self, path: Path | str, error: OSError) -> None:
        self.skip(path, f"not readable ({error.strerror or type(error).__name__})")
        self._keep(path)

    def _keep(self, path: Path | str) -> None:
        self.unreadable.append(self._name_of(os.fspath(path)))
