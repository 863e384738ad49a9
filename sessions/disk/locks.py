"""The lock of a file across processes, waited for or not. Edge."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nacre.locks import lock_within, try_lock
from nacre.sessions.disk.durable import make_folder, reported

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


class LaneFiles:
    """The lanes of one agent, in a folder that several processes may share.

    A killed process leaves none behind: the kernel watches the locks.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def lane(self, key: str) -> LaneFile:
        """Whether this caller alone may have a turn of the key until the block ends; never waits.

        Raises:
            SessionWriteFailed: the system refused.
        """
        return LaneFile(self._directory, f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.lane")


class LaneFile:
    """The lane of one key, for an `async with`."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._path = f"{directory}/{name}"
        self._release: Callable[[], None] | None = None

    async def __aenter__(self) -> bool:
        """Whether it is this caller's."""
        with reported("lock", self._path):
            try:
                self._release = try_lock(self._path)
            except FileNotFoundError:
                make_folder(self._directory)
                self._release = try_lock(self._path)
        return self._release is not None

    async def __aexit__(self, *_ended: object) -> None:
        """Leaves it to others."""
        if self._release is not None:
            self._release()
