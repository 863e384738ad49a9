"""Who is in a turn of a session: a lock file for each key. Edge."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from nacre.locks.kernel_lock import try_lock
from nacre.sessions.disk.reported import make_folder, reported


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
