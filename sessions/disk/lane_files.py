"""Who is in a turn of a session: a lock file for each key. Edge."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from nacre.sessions.disk.durable import make_folder, reported
from nacre.sessions.disk.kernel_lock import try_lock


class LaneFiles:
    """The lanes of one agent, in a folder that several processes may share.

    A killed process leaves none behind: the kernel watches the locks.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @asynccontextmanager
    async def lane(self, key: str) -> AsyncIterator[bool]:
        """Whether this caller alone may have a turn of the key until the block ends; never waits.

        Raises:
            SessionWriteFailed: the system refused.
        """
        release = self._try(self._directory / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.lane")
        try:
            yield release is not None
        finally:
            if release is not None:
                release()

    def _try(self, path: Path) -> Callable[[], None] | None:
        with reported("lock", path):
            try:
                return try_lock(path)
            except FileNotFoundError:
                make_folder(path.parent)
                return try_lock(path)
