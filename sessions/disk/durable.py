"""The file system as sessions need it: what is reported as written survives a crash right after.

Edge: private files, whole replacements, copies set aside.
Never follows a symbolic link to a file.
"""

from __future__ import annotations

import os
import re
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, TypeAlias

from nacre.locks.kernel_lock import FILE_MODE
from nacre.sessions.contracts.errors import SessionCorrupt
from nacre.sessions.disk.reported import reported

READ_BLOCK_BYTES = 1 << 18

Sync: TypeAlias = Callable[[int], None]
"""Waits until the disk has what a descriptor's file or folder holds: `os.fsync`, unless somebody watches."""

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def open_plain(path: Path, flags: int) -> int:
    """A descriptor of an existing plain file.

    Raises:
        FileNotFoundError: there is none.
        SessionCorrupt: it is a symbolic link, a folder or a device.
        SessionWriteFailed: the system refused.
    """
    try:
        kind = os.lstat(path).st_mode
        if not stat.S_ISREG(kind):
            what = "a symbolic link" if stat.S_ISLNK(kind) else "not a plain file"
            raise SessionCorrupt(f"{path} is {what}, so it was not opened. Put the file itself there.")
        descriptor = os.open(path, flags | _NO_FOLLOW | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        raise
    except OSError:
        with reported("open", path):
            raise
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise SessionCorrupt(f"{path} was exchanged for what is no plain file, so it was not read.")
    return descriptor


def read_plain(path: Path) -> tuple[bytes, os.stat_result] | None:
    """A plain file's bytes and facts; `None` when there is no such file."""
    try:
        descriptor = open_plain(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    with reported("read", path), os.fdopen(descriptor, "rb") as file:
        return file.read(), os.fstat(file.fileno())


@contextmanager
def reading(path: Path, *, start_bytes: int = 0) -> Iterator[BinaryIO]:
    """An existing plain file, open for reading from `start_bytes` on.

    Raises:
        FileNotFoundError: there is none.
        SessionCorrupt: it is a symbolic link, a folder or a device.
        SessionWriteFailed: the system refused.
    """
    descriptor = open_plain(path, os.O_RDONLY)
    with reported("read", path), os.fdopen(descriptor, "rb", buffering=READ_BLOCK_BYTES) as file:
        file.seek(start_bytes)
        yield file


def read_tail(path: Path, most_bytes: int) -> bytes:
    """The last lines of a plain file, whole ones, `most_bytes` at most. Raises as `open_plain`."""
    with reading(path) as file:
        size_bytes = file.seek(0, os.SEEK_END)
        file.seek(max(0, size_bytes - most_bytes))
        data = file.read()
    return data if size_bytes <= most_bytes else data.partition(b"\n")[2]


def write_all(descriptor: int, data: bytes, *, sync: Sync = os.fsync) -> None:
    """Writes all of `data` and waits until the disk has it."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    sync(descriptor)


def append_all(path: Path, data: bytes, *, at_bytes: int, sync: Sync = os.fsync) -> os.stat_result:
    """Appends to a plain file of `at_bytes`; the file's facts afterwards. Makes the file if there is none.

    Raises:
        SessionCorrupt: it is a symbolic link, a folder or a device.
        SessionWriteFailed: the system refused; the file is as it was.
    """
    try:
        descriptor = open_plain(path, os.O_RDWR | os.O_APPEND)
    except FileNotFoundError:
        with reported("write", path):
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | _NO_FOLLOW, FILE_MODE)
    with reported("write", path):
        try:
            write_all(descriptor, data, sync=sync)
            return os.fstat(descriptor)
        except OSError:
            with suppress(OSError):
                os.ftruncate(descriptor, at_bytes)
                sync(descriptor)
            raise
        finally:
            os.close(descriptor)


def replace_file(path: Path, data: bytes, *, backup: Path | None = None, sync: Sync = os.fsync) -> None:
    """Puts `data` in the place of a file, whole or not at all; `backup` then names what was there."""
    with reported("write", path), unfinished_file(path, data, sync=sync) as temporary:
        if backup is not None:
            keep_as(backup, path, sync=sync)
        temporary.replace(path)
        sync_folder(path.parent, sync=sync)


@contextmanager
def unfinished_file(path: Path, data: bytes, *, sync: Sync = os.fsync) -> Iterator[Path]:
    """A file beside `path` with `data`, on disk, to be renamed to `path`; gone afterwards if it was not."""
    temporary = _unfinished(path)
    try:
        _write_new(temporary, data, os.O_CREAT | os.O_TRUNC, sync)
        yield temporary
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def copy_plain(path: Path, copy: Path) -> None:
    """Copies a plain file, a block at a time, to where nothing is yet. Raises as `open_plain`."""
    with reading(path) as source, reported("copy", path):
        descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW, FILE_MODE)
        with os.fdopen(descriptor, "wb") as target:
            while block := source.read(READ_BLOCK_BYTES):
                target.write(block)


def write_new(path: Path, data: bytes) -> None:
    """Writes a file that must not be there yet.

    Raises:
        SessionWriteFailed: it is there, or the system refused.
    """
    with reported("write", path):
        _write_new(path, data, os.O_CREAT | os.O_EXCL, os.fsync)


def remove_unfinished(path: Path, *others: Path) -> None:
    """Removes what `replace_file` calls left that were killed; for the holder of the file's lock.

    `others` are files beside it that the same lock protects.
    """
    names = "|".join(re.escape(file.name) for file in (path, *others))
    with reported("tidy the folder of", path):
        for file in path.parent.iterdir():
            if re.fullmatch(rf"({names})(\.bak)?\.\d+-\d+\.tmp", file.name):
                file.unlink(missing_ok=True)


def _unfinished(path: Path) -> Path:
    return path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")


def set_aside(
    path: Path,
    data: bytes,
    *,
    now: Callable[[], datetime],
    mark: str = "corrupt",
    sync: Sync = os.fsync,
) -> Path:
    """Stores `data`, which was found in `path`, as `<name>.<mark>-<timestamp>` beside it."""
    stamp = now().astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    with reported("set aside what could not be read of", path):
        for attempt in range(1, 1000):
            aside = path.with_name(f"{path.name}.{mark}-{stamp}{'' if attempt == 1 else f'-{attempt}'}")
            try:
                _write_new(aside, data, os.O_CREAT | os.O_EXCL, sync)
            except FileExistsError:
                continue
            sync_folder(path.parent, sync=sync)
            return aside
        raise FileExistsError(f"a thousand files are named {aside.name} already")


def sync_folder(path: Path, *, sync: Sync = os.fsync) -> None:
    """Waits until the disk has the folder's names; systems that cannot open a folder are left alone."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:
        return
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


def keep_as(backup: Path, path: Path, *, sync: Sync = os.fsync) -> None:
    """A second name for the bytes of `path`, which are on disk already; a copy where there are no such names.

    Only once the new bytes are written: both names stand for one file until it is replaced.
    """
    temporary = _unfinished(backup)
    try:
        temporary.unlink(missing_ok=True)
        os.link(path, temporary, follow_symlinks=False)
        temporary.replace(backup)
        # Renaming does nothing where both are names of one file, as after a kill right behind this.
        temporary.unlink(missing_ok=True)
    except FileNotFoundError:
        return
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        found = read_plain(path)
        if found is not None:
            replace_file(backup, found[0], sync=sync)


def _write_new(path: Path, data: bytes, flags: int, sync: Sync) -> None:
    descriptor = os.open(path, os.O_WRONLY | flags | _NO_FOLLOW, FILE_MODE)
    with os.fdopen(descriptor, "wb", buffering=0):
        write_all(descriptor, data, sync=sync)
