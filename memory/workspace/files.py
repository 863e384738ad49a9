"""The only writer of workspace files, and their bounded reader.

A file is appended to or replaced whole; it is never left half written, and two processes never
write it at once. Lock files live in the state folder, not in the workspace. What a file contains
is not understood here.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from nacre.memory.workspace.paths import contained_path, open_regular, path_in_root
from nacre.memory.workspace.repeats import is_list_item, without_repeats

MAX_READ_BYTES = 2 * 1024 * 1024
LOCK_WAIT_SECONDS = 10.0
RACY_NS = 2_000_000_000
"""A file changed this shortly before it was read may change again without a new time stamp (the coarsest
file systems count in steps of two seconds), so its stat values prove nothing."""


class FileBusy(Exception):
    """Another process kept a workspace file locked for longer than a writer waits."""


@dataclass(frozen=True, kw_only=True)
class FileBytes:
    """What was read: `data` is cut at the asked bound, `size_bytes` is the whole file's size.

    `has_other_names` tells of hard links: the same bytes stand under another name as well.
    """

    relative: PurePosixPath
    data: bytes
    size_bytes: int
    has_other_names: bool

    @property
    def is_cut(self) -> bool:
        """Whether the file goes on behind `data`."""
        return self.size_bytes > len(self.data)


@dataclass(frozen=True, kw_only=True)
class FolderEntry:
    """One name in a folder; size and time of change are 0 for folders. Symlinks are entries, not followed."""

    name: str
    is_folder: bool
    size_bytes: int
    modified_ns: int


@dataclass(frozen=True, kw_only=True)
class Appended:
    """`written` is the text that went into the file, `""` when all of it stood there already.

    `skipped_parts` counts the paragraphs and list items that were left out as repeats.
    """

    written: str
    skipped_parts: int


async def read_bytes(root: Path, relative: str, *, max_bytes: int = MAX_READ_BYTES) -> FileBytes:
    """The first `max_bytes` of a file inside `root`.

    Raises:
        PathOutsideRoot: see `contained_path`; also for what is not a regular file.
        OSError: the file is missing or cannot be read.
    """
    return await asyncio.to_thread(file_bytes, root, relative, max_bytes=max_bytes)


def file_bytes(root: Path, relative: str, *, max_bytes: int) -> FileBytes:
    """What `read_bytes` gives, for whoever is on a thread already. Raises as it does."""
    path = contained_path(root, relative)
    with _binary(open_regular(path, os.O_RDONLY), "rb") as file:
        info = os.fstat(file.fileno())
        data = file.read(max_bytes)
    return FileBytes(
        relative=path_in_root(root, path),
        data=data,
        size_bytes=max(info.st_size, len(data)),
        has_other_names=info.st_nlink > 1,
    )


async def list_folder(
    root: Path, relative: str, *, beginnings: tuple[str, ...] = ("",)
) -> tuple[FolderEntry, ...]:
    """The entries of a folder inside `root`, sorted by name; names that begin with a dot are left out.

    With `beginnings` only names that have one of them; the other files are not looked at.

    Raises:
        PathOutsideRoot: see `contained_path`.
        OSError: the folder is missing, is a file, or cannot be read.
    """
    return await asyncio.to_thread(_entries, contained_path(root, relative), beginnings)


async def append_to_file(
    root: Path, relative: str, text: str, *, lock_dir: Path, skip_repeats: bool = True
) -> Appended:
    """Adds Markdown at the end of a file, which is made if need be; what stands there is not touched.

    The text starts on a fresh line, after a blank line unless a list goes on, and goes to disk in
    one write before this returns. With `skip_repeats`, parts that already stand in the file under
    the same heading are left out.

    Raises:
        PathOutsideRoot: see `contained_path`.
        FileBusy: another process holds the file.
        OSError: the disk refused; the file is as it was.
    """
    path = contained_path(root, relative)
    if not text.strip():
        return Appended(written="", skipped_parts=0)
    return await asyncio.to_thread(_append_locked, path, text, lock_dir, skip_repeats)


async def change_file(
    root: Path, relative: str, change: Callable[[bytes | None], bytes], *, lock_dir: Path
) -> None:
    """Replaces a file by `change(old bytes)`, atomically; `None` stands for a file that is not there.

    The file is locked from the reading to the replacing, its mode is kept, and an exception from
    `change` leaves it alone.

    Raises:
        PathOutsideRoot: see `contained_path`.
        FileBusy: another process holds the file.
        OSError: the disk refused; the file is as it was.
    """
    path = contained_path(root, relative)
    await asyncio.to_thread(_change_locked, path, change, lock_dir)


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


def _entries(folder: Path, beginnings: tuple[str, ...]) -> tuple[FolderEntry, ...]:
    with os.scandir(folder) as scan:
        return folder_entries(entry for entry in scan if entry.name.startswith(beginnings))


def _append_locked(path: Path, text: str, lock_dir: Path, skip_repeats: bool) -> Appended:
    with _locked(path, lock_dir):
        path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not path.exists()
        with _binary(open_regular(path, os.O_RDWR | os.O_APPEND | os.O_CREAT), "rb+") as file:
            existing = file.read().decode("utf-8", errors="replace")
            written, skipped = without_repeats(existing, text) if skip_repeats else (text.strip("\r\n"), 0)
            if written:
                _append(file.fileno(), (_gap(existing, written) + written + "\n").encode("utf-8"))
        if is_new:
            _sync_folder(path.parent)
    return Appended(written=written, skipped_parts=skipped)


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


def _gap(existing: str, written: str) -> str:
    if not existing.strip():
        return "" if not existing or existing.endswith("\n") else "\n"
    fresh_line = "" if existing.endswith("\n") else "\n"
    lines = existing.splitlines()
    list_goes_on = is_list_item(lines[-1]) and is_list_item(written)
    return fresh_line + ("" if list_goes_on or not lines[-1].strip() else "\n")


def _change_locked(path: Path, change: Callable[[bytes | None], bytes], lock_dir: Path) -> None:
    with _locked(path, lock_dir):
        path.parent.mkdir(parents=True, exist_ok=True)
        mode: int | None = None
        old: bytes | None = None
        with suppress(FileNotFoundError), _binary(open_regular(path, os.O_RDONLY), "rb") as file:
            mode = os.fstat(file.fileno()).st_mode & 0o777
            old = file.read()
        new = change(old)
        if new != old:
            _replace(path, new, mode)


def _replace(path: Path, data: bytes, mode: int | None) -> None:
    # One fixed name for each target: whatever stands there was left by a killed writer.
    temporary = path.parent / f".{hashlib.sha256(path.name.encode()).hexdigest()[:16]}.tmp"
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
def _locked(path: Path, lock_dir: Path) -> Iterator[None]:
    from filelock import FileLock, Timeout

    lock_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    name = hashlib.sha256(str(path).encode()).hexdigest()[:24]
    lock = FileLock(lock_dir / f"{name}.file", timeout=LOCK_WAIT_SECONDS)
    try:
        lock.acquire()
    except Timeout as error:
        raise FileBusy(
            f"Another process has held {path.name!r} for {LOCK_WAIT_SECONDS:.0f} seconds. Try again later."
        ) from error
    try:
        yield
    finally:
        lock.release()


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
