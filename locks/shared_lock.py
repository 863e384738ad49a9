"""A lock file that the threads of one holder share: as often as it is taken it has to be released. Edge."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from nacre.locks.kernel_lock import lock_within


class SharedLock:
    """The lock file `file`, kept from other processes and other objects of this class."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._holders = 0
        self._let_go: Callable[[], None] | None = None
        self._taking = threading.Lock()

    def take(self, wait_seconds: float) -> bool:
        """Takes the lock if nobody else keeps it for longer than that.

        Raises:
            OSError: the file cannot be made, or the system refused.
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
        """Lets go once; harmless when the lock is not held."""
        with self._taking:
            if self._let_go is None:
                return
            self._holders -= 1
            if not self._holders:
                let_go, self._let_go = self._let_go, None
                let_go()
