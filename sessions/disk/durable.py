"""The file system as sessions need it: what is reported as written survives a crash right after.

Edge: private files, whole replacements, copies set aside.
Never follows a symbolic link to a file.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import copy_context
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, TypeVar

from nacre.locks import FILE_MODE
from nacre.sessions.contracts.errors import SessionCorrupt, SessionWriteFailed
from nacre.sessions.contracts.keys import END_REASONS, EndedSession


class EndingFolder:
    """The endings of one agent that are not finished. Several processes may share the folder."""

    def __init__(self, directory: Path, *, now: Callable[[], datetime]) -> None:
        self._directory = directory
        self._now = now
        self._worker = OrderedWorker()

    async def put(self, ended: EndedSession) -> None:
        """Writes an ending down, or its new number of attempts; on disk, or raises `SessionWriteFailed`."""
        await self._worker.run(lambda: self._put(ended))

    async def remove(self, ended: EndedSession) -> None:
        """Strikes an ending off; it may be gone already. Raises `SessionWriteFailed` as `put` does."""
        await self._worker.run(lambda: self._remove(self._directory / file_name(ended)))

    async def has(self, ended: EndedSession) -> bool:
        """Whether an ending is still due: another process may have finished it."""
        return await self._worker.run((self._directory / file_name(ended)).is_file)

    async def all(self) -> tuple[EndedSession, ...]:
        """The endings that are due, the oldest first. A file that cannot be read is set aside.

        Raises:
            SessionError: the system refused.
        """
        return await self._worker.run(self._all)

    def _put(self, ended: EndedSession) -> None:
        make_folder(self._directory)
        replace_file(self._directory / file_name(ended), json.dumps(ending_to_json(ended), indent=2).encode())

    def _remove(self, path: Path) -> None:
        with reported("remove", path):
            path.unlink(missing_ok=True)

    def _all(self) -> tuple[EndedSession, ...]:
        if not self._directory.is_dir():
            return ()
        with reported("list", self._directory):
            paths = sorted(path for path in self._directory.iterdir() if path.suffix == ".json")
        return tuple(ended for path in paths if (ended := self._read(path)) is not None)

    def _read(self, path: Path) -> EndedSession | None:
        found = read_plain(path)
        if found is None:
            return None
        ended = ending_from_json(found[0])
        if ended is None:
            aside = set_aside(path, found[0], now=self._now)
            self._remove(path)
            log.warning("%s tells no session's ending and was set aside as %s", path.name, aside.name)
        return ended


def file_name(ended: EndedSession) -> str:
    """The name of an ending's file: the same for the same ending, another for each."""
    safe = re.sub(r"[^\w-]", "_", ended.session_id)[:100]
    return f"{ended.ended_at_ms:013d}-{safe}.json"


_STORED: Mapping[str, tuple[str, type]] = {
    "key": ("key", str),
    "session_id": ("sessionId", str),
    "transcript": ("transcript", str),
    "reason": ("reason", str),
    "ended_at_ms": ("endedAt", int),
    "channel": ("channel", str),
    "attempts": ("attempts", int),
}
"""Each field's name and kind in the file, in its order."""


def ending_to_json(ended: EndedSession) -> dict[str, Any]:
    """An ending as it is stored."""
    return {"version": 1, **{stored: getattr(ended, name) for name, (stored, _) in _STORED.items()}}


def ending_from_json(data: bytes) -> EndedSession | None:
    """A stored ending; `None` when the bytes are none, or another version's."""
    try:
        raw = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, dict) or raw.get("version") != 1:
        return None
    if not all(type(raw.get(stored)) is kind for stored, kind in _STORED.values()):
        return None
    if raw["reason"] not in END_REASONS or not raw["sessionId"] or "/" in raw["transcript"]:
        return None
    return EndedSession(**{name: raw[stored] for name, (stored, _) in _STORED.items()})


READ_BLOCK_BYTES = 1 << 18

Sync: TypeAlias = Callable[[int], None]
"""Waits until the disk has what a descriptor's file or folder holds: `os.fsync`, unless somebody watches."""

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def open_plain(path: Path, flags: int) -> int:
    """A descriptor of an existing plain file.

    Raises:
        FileNotFoundError: there is none.
        SessionCorrupt: it is a symbolic link, a folder or a device.
        SessionWriteFailed: the system refused.
    """
    try:
        kind = os.lstat(path).st_mode
        if not stat.S_ISREG(kind):
            what = "a symbolic link" if stat.S_ISLNK(kind) else "not a plain file"
            raise SessionCorrupt(f"{path} is {what}, so it was not opened. Put the file itself there.")
        descriptor = os.open(path, flags | _NO_FOLLOW | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        raise
    except OSError:
        with reported("open", path):
            raise
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise SessionCorrupt(f"{path} was exchanged for what is no plain file, so it was not read.")
    return descriptor


def read_plain(path: Path) -> tuple[bytes, os.stat_result] | None:
    """A plain file's bytes and facts; `None` when there is no such file."""
    try:
        descriptor = open_plain(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    with reported("read", path), os.fdopen(descriptor, "rb") as file:
        return file.read(), os.fstat(file.fileno())


@contextmanager
def reading(path: Path, *, start_bytes: int = 0) -> Iterator[BinaryIO]:
    """An existing plain file, open for reading from `start_bytes` on.

    Raises:
        FileNotFoundError: there is none.
        SessionCorrupt: it is a symbolic link, a folder or a device.
        SessionWriteFailed: the system refused.
    """
    descriptor = open_plain(path, os.O_RDONLY)
    with reported("read", path), os.fdopen(descriptor, "rb", buffering=READ_BLOCK_BYTES) as file:
        file.seek(start_bytes)
        yield file


def read_tail(path: Path, most_bytes: int) -> bytes:
    """The last lines of a plain file, whole ones, `most_bytes` at most. Raises as `open_plain`."""
    with reading(path) as file:
        size_bytes = file.seek(0, os.SEEK_END)
        file.seek(max(0, size_bytes - most_bytes))
        data = file.read()
    return data if size_bytes <= most_bytes else data.partition(b"\n")[2]


def write_all(descriptor: int, data: bytes, *, sync: Sync = os.fsync) -> None:
    """Writes all of `data` and waits until the disk has it."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    sync(descriptor)


def append_all(path: Path, data: bytes, *, at_bytes: int, sync: Sync = os.fsync) -> os.stat_result:
    """Appends to a plain file of `at_bytes`; the file's facts afterwards. Makes the file if there is none.

    Raises:
        SessionCorrupt: it is a symbolic link, a folder or a device.
        SessionWriteFailed: the system refused; the file is as it was.
    """
    try:
        descriptor = open_plain(path, os.O_RDWR | os.O_APPEND)
    except FileNotFoundError:
        with reported("write", path):
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | _NO_FOLLOW, FILE_MODE)
    with reported("write", path):
        try:
            write_all(descriptor, data, sync=sync)
            return os.fstat(descriptor)
        except OSError:
            with suppress(OSError):
                os.ftruncate(descriptor, at_bytes)
                sync(descriptor)
            raise
        finally:
            os.close(descriptor)


def replace_file(path: Path, data: bytes, *, backup: Path | None = None, sync: Sync = os.fsync) -> None:
    """Puts `data` in the place of a file, whole or not at all; `backup` then names what was there."""
    with reported("write", path), unfinished_file(path, data, sync=sync) as temporary:
        if backup is not None:
            keep_as(backup, path, sync=sync)
        temporary.replace(path)
        sync_folder(path.parent, sync=sync)


@contextmanager
def unfinished_file(path: Path, data: bytes, *, sync: Sync = os.fsync) -> Iterator[Path]:
    """A file beside `path` with `data`, on disk, to be renamed to `path`; gone afterwards if it was not."""
    temporary = _unfinished(path)
    try:
        _write_new(temporary, data, os.O_CREAT | os.O_TRUNC, sync)
        yield temporary
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def copy_plain(path: Path, copy: Path) -> None:
    """Copies a plain file, a block at a time, to where nothing is yet. Raises as `open_plain`."""
    with reading(path) as source, reported("copy", path):
        descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW, FILE_MODE)
        with os.fdopen(descriptor, "wb") as target:
            while block := source.read(READ_BLOCK_BYTES):
                target.write(block)


def write_new(path: Path, data: bytes) -> None:
    """Writes a file that must not be there yet.

    Raises:
        SessionWriteFailed: it is there, or the system refused.
    """
    with reported("write", path):
        _write_new(path, data, os.O_CREAT | os.O_EXCL, os.fsync)


def remove_unfinished(path: Path, *others: Path) -> None:
    """Removes what `replace_file` calls left that were killed; for the holder of the file's lock.

    `others` are files beside it that the same lock protects.
    """
    names = "|".join(re.escape(file.name) for file in (path, *others))
    with reported("tidy the folder of", path):
        for file in path.parent.iterdir():
            if re.fullmatch(rf"({names})(\.bak)?\.\d+-\d+\.tmp", file.name):
                file.unlink(missing_ok=True)


def _unfinished(path: Path) -> Path:
    return path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")


def set_aside(
    path: Path,
    data: bytes,
    *,
    now: Callable[[], datetime],
    mark: str = "corrupt",
    sync: Sync = os.fsync,
) -> Path:
    """Stores `data`, which was found in `path`, as `<name>.<mark>-<timestamp>` beside it."""
    stamp = now().astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    with reported("set aside what could not be read of", path):
        for attempt in range(1, 1000):
            aside = path.with_name(f"{path.name}.{mark}-{stamp}{'' if attempt == 1 else f'-{attempt}'}")
            try:
                _write_new(aside, data, os.O_CREAT | os.O_EXCL, sync)
            except FileExistsError:
                continue
            sync_folder(path.parent, sync=sync)
            return aside
        raise FileExistsError(f"a thousand files are named {aside.name} already")


def sync_folder(path: Path, *, sync: Sync = os.fsync) -> None:
    """Waits until the disk has the folder's names; systems that cannot open a folder are left alone."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:
        return
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


def keep_as(backup: Path, path: Path, *, sync: Sync = os.fsync) -> None:
    """A second name for the bytes of `path`, which are on disk already; a copy where there are no such names.

    Only once the new bytes are written: both names stand for one file until it is replaced.
    """
    temporary = _unfinished(backup)
    try:
        temporary.unlink(missing_ok=True)
        os.link(path, temporary, follow_symlinks=False)
        temporary.replace(backup)
        # Renaming does nothing where both are names of one file, as after a kill right behind this.
        temporary.unlink(missing_ok=True)
    except FileNotFoundError:
        return
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        found = read_plain(path)
        if found is not None:
            replace_file(backup, found[0], sync=sync)


def _write_new(path: Path, data: bytes, flags: int, sync: Sync) -> None:
    descriptor = os.open(path, os.O_WRONLY | flags | _NO_FOLLOW, FILE_MODE)
    with os.fdopen(descriptor, "wb", buffering=0):
        write_all(descriptor, data, sync=sync)


FOLDER_MODE = 0o700


class reported:  # noqa: N801 - called like a function
    """Turns the system's errors into `SessionWriteFailed` with a sentence.

    A class, because a turn enters it eight times, and a generator costs three times as much.
    """

    def __init__(self, verb: str, path: Path | str) -> None:
        self._verb = verb
        self._path = path

    def __enter__(self) -> None:
        """Watches from here on."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            raise SessionWriteFailed(
                f"Could not {self._verb} {self._path}: {reason}. What was on disk before still is; "
                "check the disk's space and the folder's permissions, then try again.",
                path=Path(self._path),
            ) from error


def make_folder(path: Path) -> None:
    """Creates a folder, and those above it, for its owner only; an existing one is left as it is."""
    if path.is_dir():
        return
    with reported("create the folder", path):
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
        for folder in reversed(missing):
            folder.mkdir(mode=FOLDER_MODE, exist_ok=True)


log = logging.getLogger(__name__)

T = TypeVar("T")


class OrderedWorker:
    """Runs blocking work on a thread in the order of the calls.

    Work that has been asked for is always finished: cancelling the caller waits for it first, so that
    an object and its file never disagree. A second cancellation stops the waiting, not the work.
    """

    def __init__(self) -> None:
        self._last: asyncio.Future[Any] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether all that was asked for is done."""
        return self._last is None or self._last.done()

    async def run(self, work: Callable[[], T]) -> T:
        """The result of `work`, or its exception."""
        before = self._last
        mine: asyncio.Future[T]
        if before is None or before.done():
            mine = _on_a_thread(work)
        else:
            mine = asyncio.ensure_future(_behind(before, work))
        self._last = mine
        return await to_its_end(mine)


async def to_its_end(work: asyncio.Future[T]) -> T:
    """The result of work that others may wait for too. A caller that is cancelled waits for its end first."""
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        with suppress(asyncio.CancelledError):
            await asyncio.wait({work})
        if work.done() and not work.cancelled() and work.exception():
            log.warning("work of a cancelled call failed: %s", work.exception())
        raise


def _on_a_thread(work: Callable[[], T]) -> asyncio.Future[T]:
    return asyncio.get_running_loop().run_in_executor(None, copy_context().run, work)


async def _behind(before: asyncio.Future[Any], work: Callable[[], T]) -> T:
    await asyncio.wait({before})
    return await _on_a_thread(work)
