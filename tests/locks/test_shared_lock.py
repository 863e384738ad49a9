"""A lock file with several holders in one process."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nacre.locks.kernel_lock import try_lock
from nacre.locks.shared_lock import SharedLock


def test_the_last_of_its_holders_frees_it(tmp_path: Path) -> None:
    """Two threads take it at once; nobody else gets it before both have let go."""
    path = tmp_path / "index.lock"
    lock = SharedLock(str(path))
    with ThreadPoolExecutor(2) as threads:
        assert [*threads.map(lock.take, (1.0, 1.0))] == [True, True]
    assert not SharedLock(str(path)).take(0.02)
    lock.release()
    assert try_lock(path) is None
    lock.release()
    lock.release()
    release = try_lock(path)
    assert release is not None
    release()


def test_somebody_else_is_waited_for_as_long_as_is_said(tmp_path: Path) -> None:
    """Not at all with 0 seconds, and the lock is free for the next one after that."""
    path = tmp_path / "index.lock"
    release = try_lock(path)
    assert release is not None
    lock = SharedLock(str(path))
    assert not lock.take(0)
    release()
    assert lock.take(0)
    lock.release()


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    """And the lock can be taken once there is one."""
    lock = SharedLock(str(tmp_path / "memory" / "index.lock"))
    with pytest.raises(FileNotFoundError):
        lock.take(1)
    (tmp_path / "memory").mkdir()
    assert lock.take(1)
    lock.release()
