"""The lock of a file across processes, waited for or not. Edge."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nacre.locks.kernel_lock import lock_within, try_lock
from nacre.sessions.disk.reported import make_folder, reported

LOCK_TIMEOUT_SECONDS = 30.0


class locked:  # noqa: N801 - called like a function
    """Holds the lock `<path>.lock` across processes; the kernel frees it when its holder dies.

    Creates the folder when it is missing.

    Raises:
        SessionWriteFailed: the lock could not be had within `LOCK_TIMEOUT_SECONDS`.
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
    """`locked` that waits for nobody and makes no folder: whether the lock is held.

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
