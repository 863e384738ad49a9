"""Which files a sync has to read, and which rows it may forget. Pure decisions over two listings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nacre.memory.contracts.notes import FoundNote, NoteListing
from nacre.memory.contracts.records import FailedFile
from nacre.memory.contracts.store import FileState
from nacre.memory.contracts.workspace import RACY_NS
from nacre.record import Record

FIRST_RETRY_SECONDS = 30.0
LONGEST_RETRY_SECONDS = 3600.0


class Changes(Record):
    """What a listing means for the index. `waiting` are failed files whose next try is not due."""

    to_read: tuple[FoundNote, ...]
    to_remove: tuple[str, ...]
    unchanged: int
    waiting: tuple[FailedFile, ...]


def plan_changes(
    found: NoteListing,
    stored: Mapping[str, FileState],
    failed: Mapping[str, FailedFile],
    *,
    now_seconds: float,
) -> Changes:
    """Compares what is there with what is indexed."""
    to_read: list[FoundNote] = []
    waiting: list[FailedFile] = []
    unchanged = 0
    for file in found.notes:
        failure = failed.get(file.name)
        if failure is not None and _waits(failure, now_seconds) and not _mended(file, failure):
            waiting.append(failure)
        elif failure is None and is_unchanged(file, stored.get(file.name)):
            unchanged += 1
        else:
            to_read.append(file)
    paths = {file.name for file in found.notes}
    gone = [path for path in stored if path not in paths and found.may_be_deleted(path)]
    gone += [path for path in failed if path not in paths and path not in stored]
    to_read.sort(key=_asked_first, reverse=True)
    return Changes(to_read=tuple(to_read), to_remove=tuple(gone), unchanged=unchanged, waiting=tuple(waiting))


def _asked_first(file: FoundNote) -> tuple[bool, str]:
    """Falling: MEMORY.md, then what is not dated, then daily logs from the newest back.

    Vectors are made in the order in which chunks were stored, and a model on this machine takes a while.
    """
    return "/" not in file.name, file.name


def _waits(failure: FailedFile, now_seconds: float) -> bool:
    # A longer wait than the longest was set by a clock that has been put back since.
    return 0 < failure.retry_at_seconds - now_seconds <= LONGEST_RETRY_SECONDS


def _mended(file: FoundNote, failure: FailedFile) -> bool:
    """Whether the file, or what may be done with it, changed after it failed: then nobody should wait."""
    return file.marks.changed_ns / 1e9 > failure.retry_at_seconds - _wait_seconds(failure.attempts)


def is_unchanged(file: FoundNote, state: FileState | None) -> bool:
    """Whether the marks alone prove that the file is the one that was read."""
    return (
        state is not None
        and file.marks.size_bytes == state.size
        and file.marks.modified_ns == state.mtime_ns
        and file.marks.inode == state.inode
        and file.marks.modified_ns < state.read_at_ns - RACY_NS
        and file.marks.changed_ns < state.read_at_ns
    )


def next_failure(path: str, problem: str, previous: FailedFile | None, *, now_seconds: float) -> FailedFile:
    """A failure to record: each one in a row doubles the wait, up to an hour."""
    attempts = previous.attempts + 1 if previous else 1
    return FailedFile(
        path=path,
        problem=problem,
        attempts=attempts,
        retry_at_seconds=now_seconds + _wait_seconds(attempts),
    )


def _wait_seconds(attempts: int) -> float:
    return min(LONGEST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2.0 ** min(attempts - 1, 10))


def batches(files: Sequence[FoundNote], *, max_bytes: int, max_files: int) -> list[list[FoundNote]]:
    """Files in runs of bounded size, in order, so that memory and the time between commits stay bounded."""
    runs: list[list[FoundNote]] = []
    size = 0
    for file in files:
        if not runs or len(runs[-1]) >= max_files or size + file.marks.size_bytes > max_bytes:
            runs.append([])
            size = 0
        runs[-1].append(file)
        size += file.marks.size_bytes
    return runs
