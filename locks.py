"""Lock files that the kernel watches, so that the death of a holder frees them. Edge.

It calls `flock` as filelock does, so that locks of programs with filelock have effect here, and these there.
A turn takes five locks, and filelock's bookkeeping takes twenty times as long as the kernel; its import takes
half as long as a search. So it is used only where there is no `flock`.

This is a module of the root, which imports nothing of Nacre, because sessions and memory both lock files.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

FILE_MODE = 0o600
POLL_SECONDS = 0.005


def lock_within(path: Path | str, seconds: float) -> Callable[[], None] | None:
    """Takes the lock at `path` like `try_lock`, but waits up to `seconds` for another holder.

    Raises:
        OSError: the system refused.
    """
    give_up_at = time.monotonic() + seconds
    while (release := try_lock(path)) is None and time.monotonic() < give_up_at:
        time.sleep(POLL_SECONDS)
    return release


def try_lock(path: Path | str) -> Callable[[], None] | None:
    """Takes the lock at `path`, a file that is created if needed in an existing folder.

    Returns a function that releases the lock, or `None` if another holder has it, in this process or
    another.

    Raises:
        OSError: the system refused.
    """
    if sys.platform == "win32":
        return _by_filelock(path)
    import fcntl

    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, FILE_MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Removing a session removes its lock file, and a lock on a removed file keeps nobody out.
        is_there = os.fstat(descriptor).st_nlink > 0
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError as error:
        os.close(descriptor)
        if error.errno in (errno.ENOSYS, errno.ENOTSUP):
            return _by_filelock(path)
        raise
    if not is_there:
        os.close(descriptor)
        return try_lock(path)

    def release() -> None:
        try:
            # Closing is not enough if a process that was forked meanwhile shares the file.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        finally:
            os.close(descriptor)

    return release


def keeps_out(folder: Path, take: Callable[[Path], Callable[[], None] | None] = try_lock) -> bool:
    """Whether a lock in a folder keeps a second holder out. On some network drives, both get it.

    `take` takes a lock like `try_lock`. If no lock can be taken at all, the result is `True`, because
    taking the lock raises the error.
    """
    path = folder / f".lock-check-{os.getpid()}"
    try:
        first = take(path)
        second = take(path) if first is not None else None
    except OSError:
        return True
    finally:
        with suppress(OSError):
            path.unlink()
    for release in (second, first):
        if release is not None:
            release()
    return second is None


def _by_filelock(path: Path | str) -> Callable[[], None] | None:
    from filelock import FileLock, Timeout

    lock = FileLock(path, mode=FILE_MODE, thread_local=False)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return None
    return lock.release


class SharedLock:
    """The lock file `file`, exclusive across processes and objects of this class."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._holders = 0
        self._let_go: Callable[[], None] | None = None
        self._taking = threading.Lock()

    def take(self, wait_seconds: float) -> bool:
        """Takes the lock, waiting up to `wait_seconds` for another holder.

        Raises:
            OSError: the file cannot be created, or the system refused.
        """
        give_up_at = time.monotonic() + wait_seconds
        if not self._taking.acquire(timeout=wait_seconds):
            return False
        try:
            self._let_go = self._let_go or lock_within(self._file, give_up_at - time.monotonic())
            if self._let_go is None:
                return False
            self._holders += 1
        finally:
            self._taking.release()
        return True

    def release(self) -> None:
        """Releases the lock once; does nothing if it is not held."""
        with self._taking:
            if self._let_go is None:
                return
            self._holders -= 1
            if not self._holders:
                let_go, self._let_go = self._let_go, None
                let_go()
