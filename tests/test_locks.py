"""Lock files: one holder at a time, programs that use filelock included, and none left behind by the dead."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from filelock import FileLock, Timeout

from nacre.locks import SharedLock, keeps_out, lock_within, try_lock


def test_a_lock_has_one_holder(tmp_path: Path) -> None:
    """Whoever comes while it is held is turned away, and gets it once it is released."""
    path = tmp_path / "a.lock"
    release = try_lock(path)
    assert release is not None
    assert try_lock(path) is None
    release()
    again = try_lock(path)
    assert again is not None
    again()


def test_programs_with_filelock_keep_out_and_are_kept_out(tmp_path: Path) -> None:
    """Both mean the same lock by the same file."""
    path = tmp_path / "a.lock"
    with FileLock(path):
        assert try_lock(path) is None
    release = try_lock(path)
    assert release is not None
    with pytest.raises(Timeout):
        FileLock(path).acquire(blocking=False)
    release()
    FileLock(path).acquire(blocking=False)


def test_a_lock_that_does_nothing_is_noticed(tmp_path: Path) -> None:
    """On this disk a lock keeps out; one that every taker gets does not, and no file is left behind."""
    assert keeps_out(tmp_path)
    assert not keeps_out(tmp_path, take=lambda _path: lambda: None)
    assert list(tmp_path.iterdir()) == []


def test_a_killed_holder_leaves_no_lock(tmp_path: Path) -> None:
    """The kernel frees what a process held that is killed."""
    path = tmp_path / "a.lock"
    script = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from nacre.locks import try_lock\n"
        "held = try_lock(Path(sys.argv[1]))\n"
        "print('held', flush=True)\n"
        "signal.pause()\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert try_lock(path) is None
        holder.kill()
        holder.wait()
    assert try_lock(path) is not None


def test_a_lock_file_that_was_removed_keeps_nobody_out(tmp_path: Path) -> None:
    """The holder's file is gone with its session; who comes next makes a new one and holds that."""
    path = tmp_path / "a.lock"
    first = try_lock(path)
    path.unlink()
    second = try_lock(path)
    assert first is not None
    assert second is not None
    assert try_lock(path) is None
    first()
    second()


def test_somebody_who_lets_go_in_time_is_waited_for(tmp_path: Path) -> None:
    """And somebody who does not is given up."""
    path = tmp_path / "a.lock"
    first = try_lock(path)
    assert first is not None
    assert lock_within(path, 0.02) is None
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(lock_within, path, 20)
        first()
        second = waiting.result()
    assert second is not None
    assert try_lock(path) is None
    second()


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
