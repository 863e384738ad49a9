"""Locks across processes: of one file, and of one session while a turn runs."""

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
    """Context manager that holds the lock `<path>.lock` across processes. The kernel frees it when its holder
    dies.

    Creates the folder if it is missing.

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
