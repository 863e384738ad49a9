"""Files of a workspace that is a folder: the only writer, and a bounded reader. Called on threads.

A file is appended to or replaced whole; it is never left half written, and two processes never
write it at once. Lock files live in the state folder, not in the workspace. What a file contains
is not understood here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

from nacre.locks.kernel_lock import lock_within
from nacre.memory.contracts.notes import MAX_NOTE_BYTES, NoteBytes, NoteMarks, NoteTooLarge
from nacre.memory.contracts.workspace import Appended, FileBusy, FileBytes, Fingerprint, FolderEntry
from nacre.memory.workspace.paths import contained_path, open_regular, path_in_root

LOCK_WAIT_SECONDS = 10.0
TAIL_BYTES = 1 << 20
"""What an append looks at of a file, for the heading that it stands under and for repeats."""


def file_bytes(root: Path, name: str, *, max_bytes: int) -> FileBytes:
    """The first `max_bytes` of a file inside `root`.

    Raises:
        PathOutsideRoot: see `contained_path`; also for what is not a regular file.
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
    """The whole file at a path that has no symbolic link in it.

    Raises:
        OSError: it cannot be read; `NoteTooLarge` for more than `MAX_NOTE_BYTES`.
        PathOutsideRoot: it is a symbolic link or no regular file.
    """
    with _binary(open_regular(path, os.O_RDONLY), "rb") as file:
        info = os.fstat(file.fileno())
        if info.st_size > MAX_NOTE_BYTES:
            raise NoteTooLarge(info.st_size)
        return NoteBytes(data=file.read(), marks=note_marks(info))


def note_marks(info: os.stat_result) -> NoteMarks:
    """What a file's stat says of a note."""
    return NoteMarks(
        size_bytes=info.st_size,
        modified_ns=info.st_mtime_ns,
        changed_ns=info.st_ctime_ns,
        device=info.st_dev,
        inode=info.st_ino,
    )


def stamped_now_ns(folder: Path) -> int:
    """The time by the clock that stamps the files of this machine's disk; 0 where nothing can be written."""
    marker = folder / "clock"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        marker.touch(mode=0o600)
        return marker.stat().st_mtime_ns
    except OSError:
        return 0


def fingerprint(path: str) -> Fingerprint | None:
    """What tells a changed file from the same one: device, inode, size, times; `None` where there is none.

    A link is looked at, not followed.
    """
    try:
        info = os.lstat(path)
    except (OSError, ValueError):
        return None
    times_ns = info.st_mtime_ns, info.st_ctime_ns
    return Fingerprint(facts=(info.st_dev, info.st_ino, info.st_size, *times_ns), changed_ns=max(times_ns))


def make_files(root: Path, files: Mapping[str, bytes], folders: Sequence[str]) -> tuple[str, ...]:
    """Makes the root, folders and files that are not there; the names of the files that were made."""
    for folder in (root, *(contained_path(root, name) for name in folders)):
        folder.mkdir(parents=True, exist_ok=True)
    return tuple(name for name, data in files.items() if _make(root / name, data))


def _make(path: Path, data: bytes) -> bool:
    try:
        with path.open("xb") as file:
            file.write(data)
    except FileExistsError:
        return False
    return True


def whole_file(path: Path) -> bytes | None:
    """All bytes of a file; `None` where there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def folder_entries(found: Iterable[os.DirEntry[str]]) -> tuple[FolderEntry, ...]:
    """What a scan of a folder found, sorted by name. A file that is gone by now is left out."""
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
    """The entries of a folder whose names have one of these beginnings."""
    with os.scandir(folder) as scan:
        return folder_entries(entry for entry in scan if entry.name.startswith(beginnings))


def append_locked(
    path: Path, text: str, lock_dir: Path, *, skip_repeats: bool, heading: str, below: str
) -> Appended:
    """Adds Markdown at the end of a file in one write, and syncs it; the file is made if need be.

    Raises:
        FileBusy: another process holds the file.
        OSError: the disk refused; the file is as it was.
    """
    from nacre.memory.text.repeats import addition  # most commands only read

    with locked(path, lock_dir):
        path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not path.exists()
        with _binary(open_regular(path, os.O_RDWR | os.O_APPEND | os.O_CREAT), "rb+") as file:
            added, appended = addition(
                _tail(file), text, skip_repeats=skip_repeats, heading=heading, below=below
            )
            if added:
                _append(file.fileno(), added.encode("utf-8"))
        if is_new:
            _sync_folder(path.parent)
    return appended


def _tail(file: BinaryIO) -> str:
    """The last whole lines of a file, which is all of a log that people write."""
    size_bytes = os.fstat(file.fileno()).st_size
    if size_bytes <= TAIL_BYTES:
        return file.read().decode("utf-8", errors="replace")
    file.seek(size_bytes - TAIL_BYTES)
    tail = file.read()
    return tail[tail.find(b"\n") + 1 :].decode("utf-8", errors="replace")


def _append(descriptor: int, data: bytes) -> None:
    size_bytes = os.fstat(descriptor).st_size
    try:
        if os.write(descriptor, data) != len(data):
            raise OSError(f"only a part of {len(data)} bytes could be written; the disk may be full")
        os.fsync(descriptor)
    except OSError:
        # A torn note would be read as a whole one; the file is ours while the lock is held.
        with suppress(OSError):
            os.ftruncate(descriptor, size_bytes)
        raise


def change_locked(path: Path, change: Callable[[bytes | None], bytes | None], lock_dir: Path) -> None:
    """Replaces a file by `change(old bytes)`, atomically; its mode is kept. `None` removes it. Raises as
    `append_locked`."""
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
    # One fixed name for each target: whatever stands there was left by a killed writer.
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
    # Some systems cannot open a folder, and some file systems refuse to sync one.
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _binary(descriptor: int, mode: str) -> BinaryIO:
    return cast(BinaryIO, os.fdopen(descriptor, mode))
