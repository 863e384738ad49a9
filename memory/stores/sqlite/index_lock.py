"""The locks that processes share over one index. The only file of the index that imports filelock.

`<index>.lock` is held for one write; `<index>.building` for as long as a rebuild takes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from nacre.memory.contracts.errors import IndexBusy, unusable

if TYPE_CHECKING:
    from filelock import FileLock

LOCK_TIMEOUT_SECONDS = 30.0


class WriteLock:
    """One writer at a time among all processes; the threads of one holder are its own business."""

    def __init__(self, index: Path) -> None:
        self._index = index
        self._made: FileLock | None = None
        self._making = threading.Lock()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Waits for the lock and holds it.

        Raises:
            IndexBusy: another process kept it for too long.
            IndexUnusable: the lock's file cannot be made.
        """
        self.acquire()
        try:
            yield
        finally:
            self.release()

    def acquire(self) -> None:
        """Waits for the lock; a holder may take it again, and must let go as often.

        Raises:
            IndexBusy: another process kept it for too long.
            IndexUnusable: the lock's file cannot be made.
        """
        # a search takes no lock, and should not wait for the import either
        from filelock import Timeout

        lock = self._lock()
        try:
            lock.acquire()
        except Timeout as error:
            raise IndexBusy(
                f"Another process kept the lock {lock.lock_file} for more than "
                f"{LOCK_TIMEOUT_SECONDS:.0f} seconds. Try again when it is done."
            ) from error
        except OSError as error:
            raise unusable(self._index, error) from error

    def release(self) -> None:
        """Lets go once."""
        self._lock().release()

    def _lock(self) -> FileLock:
        from filelock import FileLock

        with self._making:
            if self._made is None:
                self._made = FileLock(f"{self._index}.lock", timeout=LOCK_TIMEOUT_SECONDS, thread_local=False)
            return self._made


class BuildingLock:
    """Held while an index is being rebuilt; never waited for."""

    def __init__(self, index: Path) -> None:
        from filelock import FileLock

        self._index = index
        self._lock = FileLock(f"{index}.building", timeout=0, thread_local=False)

    def take(self) -> bool:
        """Takes the lock if nobody has it.

        Raises:
            IndexUnusable: the lock's file cannot be made.
        """
        from filelock import Timeout

        try:
            self._lock.acquire()
        except Timeout:
            return False
        except OSError as error:
            raise unusable(self._index, error) from error
        return True

    def release(self) -> None:
        """Lets go; harmless when it is not held."""
        self._lock.release()
