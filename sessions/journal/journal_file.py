"""A transcript file and what was read of it, kept in step. Blocking; `journal.py` runs it on threads.

Edge: the only code that writes `.jsonl`. A file is read line by line, so that its size does not
matter, and appended to. It is never rewritten: `readable_file.py` tells of the files that are written
anew before they are read, and here a torn end is cut off after a copy was set aside.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from types import EllipsisType

from nacre.sessions.contracts.errors import SessionCorrupt
from nacre.sessions.disk.durable import Sync, append_all, open_plain, reading, replace_file, set_aside
from nacre.sessions.disk.lines import Line, read_lines, timestamp_text, to_line
from nacre.sessions.disk.locks import locked
from nacre.sessions.disk.reported import reported
from nacre.sessions.entries.branch_copy import branch_copy
from nacre.sessions.entries.entries import Entry, KnownBody, SessionHeader, entry_to_json
from nacre.sessions.entries.linking import EntryLinker
from nacre.sessions.entries.tree import EntryTree
from nacre.sessions.journal.readable_file import readable_header

_NEVER_READ = (0, 0)
_TAIL_BYTES = 256
"""How much of what was read last is looked at again, to tell a file that grew from one written anew."""


class JournalFile:
    """The file's header, entries and notices; safe to call from any thread, one call at a time."""

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
        self._linker = EntryLinker(fresh_header.id)
        self.size_bytes = 0
        """How long the file was when it was last looked at."""
        self._identity = _NEVER_READ
        self._tail = b""
        self._busy = threading.Lock()

    @property
    def tree(self) -> EntryTree:
        """The entries."""
        return self._linker.tree

    def load(self) -> None:
        """Reads the file, repairs what a crash left, and creates the file when there is none."""
        with self._busy, locked(self.path):
            self._load()

    def is_current(self) -> bool:
        """Whether a glance says that nobody wrote since. It waits for nothing; a no may be a mistake."""
        if not self._busy.acquire(blocking=False):
            return False
        try:
            return self._is_known(os.lstat(self.path))
        except OSError:
            return False
        finally:
            self._busy.release()

    def refresh(self) -> bool:
        """Reads what others appended since; whether there was anything."""
        with self._busy, locked(self.path):
            return self._catch_up()

    def append(self, body: KnownBody, *, parent_id: str | EllipsisType | None = ...) -> Entry:
        """Writes one entry and waits until the disk has it.

        The parent is the newest entry unless `parent_id` names another; `None` begins a new branch.
        """
        with self._busy, locked(self.path):
            self._catch_up()
            parent = self.tree.leaf_id if parent_id is ... else parent_id
            entry = Entry(
                id=self._linker.unused_id(self._new_id),
                parent_id=parent,
                timestamp=timestamp_text(self._now()),
                body=body,
            )
            line = to_line(entry_to_json(entry))
            self._write(line)
            self.size_bytes += len(line)
            self._tail = (self._tail + line)[-_TAIL_BYTES:]
            self._linker.add(entry)
            return entry

    def fork(self, path: Path, *, session_id: str, leaf_id: str | None) -> None:
        """Writes the branch to `leaf_id` into a new session's file, whole or not at all.

        Raises:
            ValueError: there is no entry of that id.
            SessionCorrupt: there is a file at `path` already.
        """
        with self._busy, locked(self.path), locked(path):
            self._catch_up()
            if path.exists():
                raise SessionCorrupt(f"{path} is there already, so nothing was copied to it. Try again.")
            header = SessionHeader(
                id=session_id,
                timestamp=timestamp_text(self._now()),
                cwd=self.header.cwd,
                parent_session=str(self.path),
            )
            with reading(self.path) as file:
                copy = branch_copy(
                    read_lines(file), self.tree, source_id=self.header.id, leaf_id=leaf_id, header=header
                )
                replace_file(path, b"".join(map(to_line, copy)), sync=self._sync)

    def _load(self) -> None:
        header, notices = readable_header(self.path, fresh_header=self._fresh_header, now=self._now)
        self.notices += notices
        linker = EntryLinker(header.id)
        self._take(linker, start_bytes=0)
        self.header, self._linker = header, linker
        self._remember()

    def _catch_up(self) -> bool:
        """Under the lock: reads on, or anew when the file is another one or has become shorter."""
        try:
            facts = os.lstat(self.path)
        except OSError as error:
            raise SessionCorrupt(
                f"{self.path} was there and cannot be found any more. Put it back, or begin a new session."
            ) from error
        if self._is_known(facts):
            return False
        if (facts.st_dev, facts.st_ino) != self._identity or not self._goes_on(facts.st_size):
            self.notices += (f"{self.path.name} was changed by another program and was read anew.",)
            self._load()
            return True
        known = len(self.tree)
        # Should reading fail half-way, the next look reads the file anew.
        self._identity, identity = _NEVER_READ, self._identity
        self._take(self._linker, start_bytes=self.size_bytes)
        self._identity = identity
        self._remember()
        return len(self.tree) > known

    def _take(self, linker: EntryLinker, *, start_bytes: int) -> None:
        """Reads the lines from `start_bytes` on, one in memory at a time, and repairs the file behind them.

        Unreadable lines with a readable one behind them are skipped and copied aside; what is behind
        the last readable line is a torn end.
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
            self._cut_off(unreadable[0].start)
        if last is not None and not last.is_ended:
            self._write(b"\n", at_bytes=last.end)
            self.notices += (
                f"The last line of {self.path.name} lacked its line feed; it was kept and ended.",
            )
        self._set_lines_aside(skipped)
        self.notices += tuple(linker.notices)
        linker.notices.clear()

    def _cut_off(self, start_bytes: int) -> None:
        """Sets the torn end aside, then takes it off the file."""
        with reading(self.path, start_bytes=start_bytes) as file:
            data = file.read()
        aside = set_aside(self.path, data, now=self._now, sync=self._sync)
        self._truncate(start_bytes)
        self.notices += (
            f"The end of {self.path.name} was torn ({len(data)} bytes), as after a crash; "
            f"it was set aside in {aside.name} and the transcript goes on before it.",
        )

    def _set_lines_aside(self, broken: list[bytes]) -> None:
        """Copies unreadable lines in the middle once; they stay in the file, skipped."""
        if not broken:
            return
        copied: set[bytes] = set()
        for copy in _copies_set_aside(self.path):
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

    def _goes_on(self, size_bytes: int) -> bool:
        """Whether the file begins with what was read of it."""
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

    def _write(self, data: bytes, *, at_bytes: int | None = None) -> None:
        """Appends; if the system refuses, the file is cut back to what it was."""
        end = self.size_bytes if at_bytes is None else at_bytes
        append_all(self.path, data, at_bytes=end, sync=self._sync)

    def _truncate(self, size_bytes: int) -> None:
        with reported("cut off the torn end of", self.path):
            descriptor = open_plain(self.path, os.O_RDWR)
            try:
                os.ftruncate(descriptor, size_bytes)
                self._sync(descriptor)
            finally:
                os.close(descriptor)


def _copies_set_aside(path: Path) -> list[Path]:
    """What was set aside of a file so far."""
    prefix = f"{path.name}.corrupt-"
    with reported("list the folder of", path):
        return sorted(
            file for file in path.parent.iterdir() if file.name.startswith(prefix) and file.is_file()
        )
