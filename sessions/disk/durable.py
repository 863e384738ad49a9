"""Durable file operations, and locks across processes.

A completed write survives a crash. A symbolic link is never followed.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import logging
import os
import re
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, TypeVar

from nacre.locks import FILE_MODE, lock_within, try_lock
from nacre.sessions.contracts.errors import SessionCorrupt, SessionWriteFailed

log = logging.getLogger(__name__)

READ_BLOCK_BYTES = 1 << 18

Sync: TypeAlias = Callable[[int], None]
"""Flushes a descriptor's file or folder to disk. It is `os.fsync` except in some tests."""


def no_sync(_descriptor: int) -> None:
    """A `Sync` for data that a later write flushes, or that is also stored elsewhere."""


_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def open_plain(path: Path | str, flags: int) -> int:
    """Opens an existing regular file and returns its descriptor.

    Raises:
        FileNotFoundError: there is none.
        SessionCorrupt: it is a symbolic link, a folder or a device.
        SessionWriteFailed: the system refused.
    """
    try:
        kind = os.lstat(path).st_mode
        if not stat.S_ISREG(kind):
            what = "a symbolic link" if stat.S_ISLNK(kind) else "not a regular file"
            raise SessionCorrupt(f"{path} is {what}, so it was not opened. Replace it with the file itself.")
        descriptor = os.open(path, flags | _NO_FOLLOW | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        raise
    except OSError:
        with reported("open", path):
            raise
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise SessionCorrupt(
            f"{path} was replaced by something that is not a regular file, so it was not read."
        )
    return descriptor


def read_plain(path: Path) -> tuple[bytes, os.stat_result] | None:
    """A regular file's bytes and `stat` result, or `None` if there is no such file."""
    try:
        descriptor = open_plain(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    with reported("read", path), os.fdopen(descriptor, "rb") as file:
        return file.read(), os.fstat(file.fileno())


@contextmanager
def reading(path: Path, *, start_bytes: int = 0) -> Iterator[BinaryIO]:
    """Opens an existing regular file for reading at `start_bytes`. Raises like `open_plain`."""
    descriptor = open_plain(path, os.O_RDONLY)
    with reported("read", path), os.fdopen(descriptor, "rb", buffering=READ_BLOCK_BYTES) as file:
        file.seek(start_bytes)
        yield file


def read_tail(path: Path | str, most_bytes: int) -> bytes:
    """The last whole lines of a regular file, at most `most_bytes` of them. Raises like `open_plain`."""
    descriptor = open_plain(path, os.O_RDONLY)  # no file object, because a list reads thousands of ends
    with reported("read", path):
        try:
            start = max(0, os.lseek(descriptor, 0, os.SEEK_END) - most_bytes)
            os.lseek(descriptor, start, os.SEEK_SET)
            data = os.read(descriptor, most_bytes)
        finally:
            os.close(descriptor)
    return data if not start else data.partition(b"\n")[2]


def write_all(descriptor: int, data: bytes, *, sync: Sync = os.fsync) -> None:
    """Writes all of `data` and flushes it to disk."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    sync(descriptor)


def append_all(path: Path, data: bytes, *, at_bytes: int, sync: Sync = os.fsync) -> os.stat_result:
    """Appends to a regular file of `at_bytes` bytes, or creates it. Returns its `stat` result afterwards.

    Raises:
        SessionCorrupt: it is a symbolic link, a folder or a device.
        SessionWriteFailed: the system refused; the file is unchanged.
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


def replace_file(path: Path, data: bytes, *, sync: Sync = os.fsync) -> None:
    """Replaces a file's content atomically."""
    with reported("write", path), unfinished_file(path, data, sync=sync) as temporary:
        temporary.replace(path)
        sync_folder(path.parent, sync=sync)


@contextmanager
def unfinished_file(path: Path, data: bytes, *, sync: Sync = os.fsync) -> Iterator[Path]:
    """Writes `data` to a temporary file beside `path`, to be renamed to `path`; otherwise deleted on exit."""
    temporary = _unfinished(path)
    try:
        _write_new(temporary, data, os.O_CREAT | os.O_TRUNC, sync)
        yield temporary
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def copy_plain(path: Path, copy: Path) -> None:
    """Copies a regular file block by block to a path that does not exist yet. Raises like `open_plain`."""
    with reading(path) as source, reported("copy", path):
        descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW, FILE_MODE)
        with os.fdopen(descriptor, "wb") as target:
            while block := source.read(READ_BLOCK_BYTES):
                target.write(block)


def write_new(path: Path, data: bytes) -> None:
    """Writes a file that must not exist yet.

    Raises:
        SessionWriteFailed: it exists, or the system refused.
    """
    with reported("write", path):
        _write_new(path, data, os.O_CREAT | os.O_EXCL, os.fsync)


def remove_unfinished(path: Path, *others: Path) -> None:
    """Removes the temporary files of killed `replace_file` calls. The caller holds the file's lock.

    `others` are files in the same folder that the same lock protects.
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
    """Stores `data` from `path` as `<name>.<mark>-<timestamp>` beside it, and returns that path."""
    stamp = now().astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    with reported("set aside the unreadable data of", path):
        for attempt in range(1, 1000):
            aside = path.with_name(f"{path.name}.{mark}-{stamp}{'' if attempt == 1 else f'-{attempt}'}")
            try:
                _write_new(aside, data, os.O_CREAT | os.O_EXCL, sync)
            except FileExistsError:
                continue
            sync_folder(path.parent, sync=sync)
            return aside
        raise FileExistsError(f"a thousand files are already named {aside.name}")


def sync_folder(path: Path, *, sync: Sync = os.fsync) -> None:
    """Flushes a folder's entries to disk. Does nothing on systems that cannot open a folder."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:
        return
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


def keep_as(backup: Path, path: Path, *, sync: Sync = os.fsync) -> None:
    """Links `backup` to the bytes of `path`, or copies them on systems without links.

    Call it after the new bytes are on disk: both names refer to one file until `path` is replaced.
    """
    temporary = _unfinished(backup)
    try:
        temporary.unlink(missing_ok=True)
        os.link(path, temporary, follow_symlinks=False)
        temporary.replace(backup)
        # A rename does nothing if both names refer to one file, as after a kill right after this line.
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


FOLDER_MODE = 0o700


class reported:  # noqa: N801 - called like a function
    """Context manager that turns an `OSError` into `SessionWriteFailed` with a sentence.

    It is a class because a turn enters it eight times, and a generator takes three times as long.
    """

    def __init__(self, verb: str, path: Path | str) -> None:
        self._verb = verb
        self._path = path

    def __enter__(self) -> None:
        """Does nothing."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            raise SessionWriteFailed(
                f"Could not {self._verb} {self._path}: {reason}. Existing data on disk is unchanged. "
                "Check the free disk space and the folder's permissions, then try again.",
                path=Path(self._path),
            ) from error


def make_folder(path: Path) -> None:
    """Creates a folder and its missing parents for the owner only; leaves an existing folder unchanged."""
    if path.is_dir():
        return
    with reported("create the folder", path):
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
        for folder in reversed(missing):
            folder.mkdir(mode=FOLDER_MODE, exist_ok=True)


T = TypeVar("T")


class OrderedWorker:
    """Runs blocking calls on a thread, in order.

    A started call always finishes: a canceled caller waits for it first, so that an object and its file never
    disagree. A second cancellation ends the wait but not the call.
    """

    def __init__(self) -> None:
        self._last: asyncio.Future[Any] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether all calls are done."""
        return self._last is None or self._last.done()

    async def run(self, call: Callable[[], T]) -> T:
        """Runs `call` on a thread and returns its result or raises its exception."""
        before = self._last
        mine: asyncio.Future[T]
        if before is None or before.done():
            mine = _on_a_thread(call)
        else:
            mine = asyncio.ensure_future(_after(before, call))
        self._last = mine
        return await wait_until_done(mine)


async def wait_until_done(call: asyncio.Future[T]) -> T:
    """Waits for a shared future. A canceled caller first waits until the future is done."""
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        with suppress(asyncio.CancelledError):
            await asyncio.wait({call})
        if call.done() and not call.cancelled() and call.exception():
            log.warning("a canceled call failed: %s", call.exception())
        raise


def _on_a_thread(call: Callable[[], T]) -> asyncio.Future[T]:
    return asyncio.get_running_loop().run_in_executor(None, copy_context().run, call)


async def _after(before: asyncio.Future[Any], call: Callable[[], T]) -> T:
    await asyncio.wait({before})
    return await _on_a_thread(call)


LOCK_TIMEOUT_SECONDS = 30.0


class locked:  # noqa: N801 - called like a function
    """Context manager that holds the lock `<path>.lock` across processes. Creates a missing folder.

    The kernel frees the lock of a process that dies.

    Raises:
        SessionWriteFailed: the lock was not free within `LOCK_TIMEOUT_SECONDS`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        with reported("lock", self._path):
            self._release = _waited_for(f"{self._path}.lock")

    def __exit__(self, *_ended: object) -> None:
        self._release()


@contextmanager
def locked_if_free(path: Path) -> Iterator[bool]:
    """Like `locked`, but does not wait and creates no folder. Yields whether the lock is held.

    Raises:
        SessionWriteFailed: the system refused.
    """
    release: Callable[[], None] | None = None
    with reported("lock", path), suppress(FileNotFoundError):
        release = try_lock(f"{path}.lock")
    try:
        yield release is not None
    finally:
        if release is not None:
            release()


def _waited_for(lock: str) -> Callable[[], None]:
    try:
        release = lock_within(lock, LOCK_TIMEOUT_SECONDS)
    except FileNotFoundError:
        make_folder(Path(lock).parent)
        release = lock_within(lock, LOCK_TIMEOUT_SECONDS)
    if release is None:
        raise TimeoutError(
            errno.ETIMEDOUT, f"another process has held its lock for {LOCK_TIMEOUT_SECONDS:.0f} seconds"
        )
    return release


class TurnLockFiles:
    """The turn locks of one agent's sessions, in a folder that several processes may share.

    The kernel frees the locks of a killed process.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def turn_lock(self, key: str) -> TurnLockFile:
        """The turn lock of a session key. Entering it never waits."""
        return TurnLockFile(self._directory, f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.lane")


class TurnLockFile:
    """The turn lock of one session, for `async with`."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._path = f"{directory}/{name}"
        self._release: Callable[[], None] | None = None

    async def __aenter__(self) -> bool:
        """Returns whether this caller now holds the lock.

        Raises:
            SessionWriteFailed: the system refused.
        """
        with reported("lock", self._path):
            try:
                self._release = try_lock(self._path)
            except FileNotFoundError:
                make_folder(self._directory)
                self._release = try_lock(self._path)
        return self._release is not None

    async def __aexit__(self, *_ended: object) -> None:
        if self._release is not None:
            self._release()
