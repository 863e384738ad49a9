"""A session's transcript file, `<sessionId>.jsonl`, and its full tool results.

An append is on disk when it returns. Entries are never changed or removed. Damage by a crash or another
program is set aside and repaired on reading.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from types import EllipsisType
from typing import Any, TypeVar

from nacre.record import paused_collector
from nacre.sessions.contracts.errors import (
    SessionCorrupt,
    SessionNotFound,
    SessionVersionUnknown,
    SessionWriteFailed,
)
from nacre.sessions.contracts.messages import MAX_KEPT_CHARS, is_result_name
from nacre.sessions.disk.durable import (
    OrderedWorker,
    Sync,
    append_all,
    copy_plain,
    locked,
    make_folder,
    open_plain,
    read_plain,
    reading,
    remove_unfinished,
    replace_file,
    reported,
    set_aside,
    sync_folder,
)
from nacre.sessions.disk.json_text import Line, read_lines, split_lines, timestamp_text, to_line
from nacre.sessions.entries.entries import (
    FORMAT_VERSION,
    CustomRecord,
    Entry,
    EntryLinker,
    EntryTree,
    KnownBody,
    SessionHeader,
    StoredTranscript,
    branch_copy,
    check_addable,
    entry_to_json,
    header_from_json,
    header_to_json,
    migrated,
    rewind_body,
)
from nacre.sessions.view.sent_view import BranchViews, SentView
from nacre.sessions.view.transcript import TranscriptItem

T = TypeVar("T")


class Journal:
    """One transcript. Several journals, in one process or many, may share a file.

    Appends happen in the order of the calls. Canceling one waits until it is done. An append raises
    `SessionWriteFailed` if the disk refuses; file and object are then unchanged.
    """

    def __init__(self, file: JournalFile) -> None:
        self._file = file
        self._worker = OrderedWorker()
        self.views = BranchViews()

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        session_id: str,
        cwd: Path,
        now: Callable[[], datetime],
        new_id: Callable[[], str],
        sync: Sync = os.fsync,
        first: KnownBody | None = None,
    ) -> Journal:
        """Reads a transcript, or creates one with a header, and an entry `first`, if there is none.

        A new file is written with its first durable entry. An incomplete end is set aside and cut off. A file
        without a header is set aside, and its entries are kept. `notices` are sentences about both.
        `session_id` and `cwd` are used only for a new header.

        Raises:
            SessionVersionUnknown: a newer program wrote the file.
            SessionCorrupt: `path` is a symbolic link or not a regular file.
            SessionWriteFailed: the system refused to read, lock or write.
        """
        header = SessionHeader(id=session_id, timestamp=timestamp_text(now()), cwd=str(cwd))
        journal = cls(JournalFile(path, fresh_header=header, now=now, new_id=new_id, sync=sync))
        if journal._file.try_begin(first):
            return journal

        @paused_collector()
        def load() -> None:
            journal._file.load(first)
            # The first view of a long session takes time, so it is built on the thread too.
            journal.transcript()
            journal.sent()

        await journal._worker.run(load)
        return journal

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def name(self) -> str:
        """The file name, which the index and ended sessions refer to."""
        return self.path.name

    @property
    def place(self) -> str:
        return str(self.path)

    @property
    def results(self) -> ResultFiles:
        return ResultFiles(self.path)

    @property
    def header(self) -> SessionHeader:
        return self._file.header

    @property
    def size_bytes(self) -> int:
        """The size of the file when it was last read."""
        return self._file.size_bytes

    @property
    def tree(self) -> EntryTree:
        """The entries of all branches; a new object after the file was read from the start."""
        return self._file.linker.tree

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences about repaired, skipped and set-aside parts since the journal was opened."""
        return self._file.notices

    def transcript(self) -> tuple[TranscriptItem, ...]:
        """The branch as a model sees it; the same object until it changes. Not thread-safe."""
        return self.views.transcript(self.tree)

    def sent(self) -> SentView:
        return self.views.sent(self.tree)

    async def refresh(self) -> bool:
        return not self._file.is_current() and await self._worker.run(self._file.refresh)

    async def append(self, body: KnownBody, *, durable: bool = True, mirror: object = None) -> Entry:  # noqa: ARG002 - the index is another file
        """Appends an entry as a child of the newest one.

        If it is not `durable`, it is written with the next durable one, unless another process writes first.

        Raises:
            ValueError: a compaction's summary is blank or its first kept entry is not on the branch, or a
                label's target does not exist.
        """
        check_addable(body, self.tree)
        if not durable and self._worker.is_idle:
            return self._file.keep(body)
        add = self._file.append if durable else self._file.keep
        return await self._worker.run(lambda: add(body))

    async def append_custom(self, custom_type: str, data: Any, *, durable: bool = True) -> Entry:
        return await self.append(CustomRecord(custom_type=custom_type, data=data), durable=durable)

    async def rewind(self, leaf_id: str | None, *, summary: str = "") -> Entry:
        """Rewinds: the next entry is a child of `leaf_id`, or a new root if it is `None`.

        The abandoned branch stays in the file; the model sees its `summary`. One entry is always written, so
        that a reopened file continues at the same place.

        Raises:
            ValueError: no entry has that id.
        """
        body = rewind_body(self.tree, leaf_id, summary)
        return await self._worker.run(lambda: self._file.append(body, parent_id=leaf_id))

    async def fork(self, name: str, *, session_id: str, leaf_id: str | None) -> None:
        """Writes a new transcript with the branch to `leaf_id`, whose parent is this one, beside it.

        The full tool results so far are copied to it.

        Raises:
            ValueError: no entry has that id.
            SessionCorrupt: a file with that name exists.
            SessionWriteFailed: the system refused; no key refers to a partial copy.
        """
        path = self.path.with_name(name)
        await self._worker.run(lambda: self._file.fork(path, session_id=session_id, leaf_id=leaf_id))
        await self.results.copy_to(path)


_NEVER_READ = (0, 0)
_TAIL_BYTES = 256
"""The number of bytes that are compared to distinguish a file that grew from a rewritten one."""


class JournalFile:
    """The file's header, entries and notices. Thread-safe; one call runs at a time."""

    def __init__(
        self,
        path: Path,
        *,
        fresh_header: SessionHeader,
        now: Callable[[], datetime],
        new_id: Callable[[], str],
        sync: Sync = os.fsync,
    ) -> None:
        self.path = path
        self.header = fresh_header
        self.notices: tuple[str, ...] = ()
        self._fresh_header = fresh_header
        self._now = now
        self._new_id = new_id
        self._sync = sync
        self.linker = EntryLinker(fresh_header.id)
        self.size_bytes = 0
        self._identity = _NEVER_READ
        self._tail = b""
        self._unwritten = b""
        """The lines of entries, and of a new file's header, that are written before the next entry."""
        self._is_new = False
        """Whether there is no file yet."""
        self._is_named = False
        """Whether the folder's entry for the file is known to be on disk."""
        self._busy = threading.Lock()

    def load(self, first: KnownBody | None = None) -> None:
        """Reads the file and repairs crash damage, or begins a new file if there is none."""
        with self._busy, locked(self.path):
            if not self.try_begin(first):
                self._load()

    def try_begin(self, first: KnownBody | None = None) -> bool:
        """Begins a file if there is none; returns whether it did. The first append creates it."""
        if os.path.lexists(self.path):
            return False
        self._is_new, self._unwritten = True, to_line(header_to_json(self.header))
        if first is not None:
            self.keep(first)
        return True

    def is_current(self) -> bool:
        """Whether the file is unchanged since the last read. Never waits; `False` may be wrong."""
        if not self._busy.acquire(blocking=False):
            return False
        try:
            return self._is_known(os.lstat(self.path))
        except OSError:
            return self._is_new
        finally:
            self._busy.release()

    def refresh(self) -> bool:
        with self._busy, locked(self.path):
            return self._catch_up()

    def append(self, body: KnownBody, *, parent_id: str | EllipsisType | None = ...) -> Entry:
        """Writes the kept entries and one entry, and flushes them to disk.

        The parent is the newest entry unless `parent_id` is given; `None` begins a new branch.
        """
        with self._busy, locked(self.path):
            self._catch_up()
            entry = self._next_entry(body, parent_id)
            self._write_on(to_line(entry_to_json(entry)))
            self.linker.add(entry)
            return entry

    def keep(self, body: KnownBody) -> Entry:
        """Adds an entry that is written before the next one. Do not call it while another call runs."""
        entry = self._next_entry(body, ...)
        self._unwritten += to_line(entry_to_json(entry))
        self.linker.add(entry)
        return entry

    def _write_on(self, line: bytes) -> None:
        """Writes the kept entries and `line`, and the name of a new file."""
        lines = self._unwritten + line
        try:
            facts = append_all(self.path, lines, at_bytes=self.size_bytes, sync=self._sync)
        except SessionWriteFailed:
            if self._is_new:
                self.path.unlink(missing_ok=True)
            raise
        self._identity, self._unwritten, self._is_new = (facts.st_dev, facts.st_ino), b"", False
        self.size_bytes += len(lines)
        self._tail = (self._tail + lines)[-_TAIL_BYTES:]
        if not self._is_named:
            with reported("write", self.path):
                sync_folder(self.path.parent, sync=self._sync)
            self._is_named = True

    def _next_entry(self, body: KnownBody, parent_id: str | EllipsisType | None) -> Entry:
        return Entry(
            id=self.linker.unused_id(self._new_id),
            parent_id=self.linker.tree.leaf_id if parent_id is ... else parent_id,
            timestamp=timestamp_text(self._now()),
            body=body,
        )

    def fork(self, path: Path, *, session_id: str, leaf_id: str | None) -> None:
        """Writes the branch to `leaf_id` to a new session's file atomically.

        Raises:
            ValueError: no entry has that id.
            SessionCorrupt: `path` exists.
        """
        with self._busy, locked(self.path), locked(path):
            self._catch_up()
            if self._unwritten:
                self._write_on(b"")
            if path.exists():
                raise SessionCorrupt(f"{path} already exists, so nothing was copied to it. Try again.")
            header = SessionHeader(
                id=session_id,
                timestamp=timestamp_text(self._now()),
                cwd=self.header.cwd,
                parent_session=str(self.path),
            )
            with reading(self.path) as file:
                copy = branch_copy(
                    read_lines(file),
                    self.linker.tree,
                    source_id=self.header.id,
                    leaf_id=leaf_id,
                    header=header,
                )
                replace_file(path, b"".join(map(to_line, copy)), sync=self._sync)

    def _load(self) -> None:
        header, notices = readable_header(self.path, fresh_header=self._fresh_header, now=self._now)
        self.notices += notices
        linker = EntryLinker(header.id)
        self._read_lines(linker, start_bytes=0)
        self.header, self.linker = header, linker
        # The process that wrote the first entries, the owner and the message, may have been killed before the
        # folder was on disk.
        self._is_named = len(linker.tree) > 2
        self._remember()

    def _catch_up(self) -> bool:
        """Under the lock: reads new lines, or the whole file if it was replaced or became shorter."""
        try:
            facts = os.lstat(self.path)
        except OSError as error:
            if self._is_new:
                return False
            raise SessionCorrupt(f"{self.path} is missing. Restore it, or start a new session.") from error
        if self._is_known(facts):
            return False
        is_same = (facts.st_dev, facts.st_ino) == self._identity and self._is_extended(facts.st_size)
        if not is_same and not self._is_new:
            self.notices += (f"{self.path.name} was changed by another program and was read again.",)
        if not is_same or self._unwritten:
            # Kept entries would continue an older end of the branch than the new ones.
            self._unwritten, self._is_new = b"", False
            self._load()
            return True
        known = len(self.linker.tree)
        # If reading fails halfway, the next call reads the whole file.
        self._identity, identity = _NEVER_READ, self._identity
        self._read_lines(self.linker, start_bytes=self.size_bytes)
        self._identity = identity
        self._remember()
        return len(self.linker.tree) > known

    def _read_lines(self, linker: EntryLinker, *, start_bytes: int) -> None:
        """Reads the lines from `start_bytes` on, one at a time, and repairs the file.

        Unreadable lines before a readable one are skipped and copied aside. Data after the last readable line
        is an incomplete end.
        """
        skipped: list[bytes] = []
        unreadable: list[Line] = []
        last: Line | None = None
        with reading(self.path, start_bytes=start_bytes) as file:
            for line in read_lines(file, offset_bytes=start_bytes):
                if line.value is None:
                    unreadable.append(line)
                    continue
                if unreadable:
                    linker.skip_unreadable()
                    skipped += [broken.data for broken in unreadable]
                    unreadable.clear()
                if line.value["type"] != "session":
                    linker.read(line.value, offset_bytes=line.start)
                last = line
        if unreadable:
            self._remove_incomplete_end(unreadable[0].start)
        if last is not None and not last.is_ended:
            append_all(self.path, b"\n", at_bytes=last.end, sync=self._sync)
            self.notices += (
                f"The last line of {self.path.name} had no line feed; the line was kept and ended.",
            )
        self._set_lines_aside(skipped)
        self.notices += tuple(linker.notices)
        linker.notices.clear()

    def _remove_incomplete_end(self, start_bytes: int) -> None:
        with reading(self.path, start_bytes=start_bytes) as file:
            data = file.read()
        aside = set_aside(self.path, data, now=self._now, sync=self._sync)
        with reported("cut off the incomplete end of", self.path):
            descriptor = open_plain(self.path, os.O_RDWR)
            try:
                os.ftruncate(descriptor, start_bytes)
                self._sync(descriptor)
            finally:
                os.close(descriptor)
        self.notices += (
            f"The end of {self.path.name} was incomplete ({len(data)} bytes), as after a crash. "
            f"It was set aside in {aside.name}, and the transcript continues before it.",
        )

    def _set_lines_aside(self, broken: list[bytes]) -> None:
        """Copies unreadable lines aside, once each; they stay in the file and are skipped."""
        if not broken:
            return
        prefix, copied = f"{self.path.name}.corrupt-", set[bytes]()
        with reported("list the folder of", self.path):
            files = [file for file in self.path.parent.iterdir() if file.name.startswith(prefix)]
        for copy in filter(Path.is_file, files):
            with reading(copy) as file:
                copied.update(data.rstrip(b"\r\n") for data in file)
        fresh = [data for data in broken if data not in copied]
        if fresh:
            lines = b"".join(data + b"\n" for data in fresh)
            aside = set_aside(self.path, lines, now=self._now, sync=self._sync)
            self.notices += (
                f"{len(fresh)} unreadable line(s) of {self.path.name} are skipped; "
                f"copies are in {aside.name}.",
            )

    def _is_extended(self, size_bytes: int) -> bool:
        if size_bytes < self.size_bytes:
            return False
        with reading(self.path, start_bytes=self.size_bytes - len(self._tail)) as file:
            return file.read(len(self._tail)) == self._tail

    def _is_known(self, facts: os.stat_result) -> bool:
        return (facts.st_dev, facts.st_ino) == self._identity and facts.st_size == self.size_bytes

    def _remember(self) -> None:
        with reported("read", self.path):
            facts = self.path.lstat()
        self._identity, self.size_bytes = (facts.st_dev, facts.st_ino), facts.st_size
        with reading(self.path, start_bytes=max(0, facts.st_size - _TAIL_BYTES)) as file:
            self._tail = file.read()


async def read_transcript(path: Path, *, session_id: str, now: Callable[[], datetime]) -> StoredTranscript:
    """Reads the transcript of a session.

    Raises:
        SessionNotFound: there is no such file. SessionCorrupt, SessionVersionUnknown, SessionWriteFailed: as
            for `Journal.open`.
    """
    import tempfile  # slow, and a list of sessions needs no copy

    with tempfile.TemporaryDirectory(prefix="nacre-") as folder:
        copy = Path(folder) / path.name
        try:
            await asyncio.to_thread(copy_plain, path, copy)
        except FileNotFoundError:
            raise _missing(path, session_id) from None
        journal = await Journal.open(
            copy, session_id=session_id, cwd=path.parent, now=now, new_id=lambda: session_id
        )
        return StoredTranscript(
            header=journal.header,
            entries=tuple(journal.tree.entries),
            branch=tuple(journal.tree.branch()),
        )


async def transcript_bytes(path: Path, *, session_id: str) -> bytes:
    """A transcript's bytes as stored, including incomplete or unreadable lines.

    Raises:
        SessionNotFound: there is no such file. SessionCorrupt, SessionWriteFailed: it is not a regular file,
            or the system refused.
    """
    import aiofiles

    with reported("read", path), suppress(FileNotFoundError):
        async with aiofiles.open(path, "rb", opener=open_plain) as file:
            return await file.read()
    raise _missing(path, session_id)


def _missing(path: Path, session_id: str) -> SessionNotFound:
    return SessionNotFound(f"The transcript {path} of the session {session_id!r} is missing.")


def readable_header(
    path: Path, *, fresh_header: SessionHeader, now: Callable[[], datetime]
) -> tuple[SessionHeader, tuple[str, ...]]:
    """Returns the header of a transcript, and a sentence for each repair of the file.

    A missing or blank file gets `fresh_header`. A file without a header is rewritten from its readable lines.
    A file of format 1 or 2 is rewritten in the current format.

    Raises:
        SessionVersionUnknown: a newer program wrote the file; it is unchanged.
        SessionCorrupt: `path` is a symbolic link or not a regular file.
        SessionWriteFailed: the system refused to read or write.
    """
    first: Mapping[str, Any] | None = None
    has_content = False
    with suppress(FileNotFoundError), reading(path) as file:
        for line in read_lines(file):
            first, has_content = line.value, True
            if first is not None:
                break
    if not has_content:
        remove_unfinished(path)
        replace_file(path, to_line(header_to_json(fresh_header)))
        return fresh_header, ()
    header = header_from_json(first) if first is not None else None
    notices: tuple[str, ...] = ()
    if header is None:
        header, notice = _salvaged(path, fresh_header, now)
        notices = (notice,)
    if _not_newer(header, path).version == FORMAT_VERSION:
        return header, notices
    header, notice = _migrated(path, header, now)
    return header, (*notices, notice)


def _not_newer(header: SessionHeader, path: Path) -> SessionHeader:
    if header.version > FORMAT_VERSION:
        raise SessionVersionUnknown(
            f"{path} has format version {header.version}; this program reads up to "
            f"{FORMAT_VERSION}. Use a newer Nacre, or move the file away. The file is unchanged."
        )
    return header


def _salvaged(
    path: Path, fresh_header: SessionHeader, now: Callable[[], datetime]
) -> tuple[SessionHeader, str]:
    """Sets the whole file aside and rewrites it: a header, then the readable entries."""
    with reading(path) as file:
        data = file.read()
    values = [(line, line.value) for line in split_lines(data) if line.value is not None]
    headers = (header_from_json(value) for _, value in values)
    header = _not_newer(next(filter(None, headers), fresh_header), path)
    entries = [line.data + b"\n" for line, value in values if value["type"] != "session"]
    aside = set_aside(path, data, now=now)
    remove_unfinished(path)
    replace_file(path, to_line(header_to_json(header)) + b"".join(entries))
    return header, (
        f"{path.name} had no valid header. It was set aside as {aside.name}, "
        f"and its readable entries were kept ({len(entries)})."
    )


def _migrated(path: Path, header: SessionHeader, now: Callable[[], datetime]) -> tuple[SessionHeader, str]:
    with reading(path) as file:
        data = file.read()
    lines = split_lines(data)
    aside = set_aside(path, data, now=now, mark=f"v{header.version}")
    remove_unfinished(path)
    replace_file(path, b"".join(map(to_line, migrated(lines, header))))
    left_out = sum(line.value is None for line in lines)
    return replace(header, version=FORMAT_VERSION), (
        f"{path.name} was migrated from format version {header.version} to {FORMAT_VERSION}. "
        f"The original file is kept as {aside.name}"
        + (f"; {left_out} unreadable line(s) were left out." if left_out else ".")
    )


FOLDER_SUFFIX = ".results"


def results_folder(transcript: Path) -> Path:
    """The folder of a transcript's full results, which exists once there is one."""
    return transcript.with_suffix(FOLDER_SUFFIX)


class ResultFiles:
    """The `WholeResults` of the session with this transcript."""

    def __init__(self, transcript: Path) -> None:
        self._transcript = transcript

    @cached_property
    def _folder(self) -> Path:
        return results_folder(self._transcript)

    async def keep(self, name: str, text: str) -> None:
        path = self._path(name)
        if path is None:
            raise ValueError(f"{name!r} is not a valid result name")
        data = text[:MAX_KEPT_CHARS].encode("utf-8", "replace")

        def write() -> None:
            make_folder(self._folder)
            replace_file(path, data)

        await asyncio.to_thread(write)

    async def read(self, name: str) -> str | None:
        path = self._path(name)
        found = await asyncio.to_thread(read_plain, path) if path is not None else None
        return None if found is None else found[0].decode("utf-8", "replace")

    async def copy_to(self, transcript: Path) -> None:
        """Copies the results so far to another transcript, such as a fork.

        Raises:
            SessionCorrupt: a result is not a regular file.
            SessionWriteFailed: the system refused.
        """
        target = results_folder(transcript)

        def copy() -> None:
            names = sorted(path.name for path in self._folder.glob("*.txt")) if self._folder.is_dir() else []
            for name in names:
                found = read_plain(self._folder / name)
                if found is not None:
                    make_folder(target)
                    replace_file(target / name, found[0])

        await asyncio.to_thread(copy)

    def _path(self, name: str) -> Path | None:
        return self._folder / f"{name}.txt" if is_result_name(name) else None
