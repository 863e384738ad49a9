"""A transcript file and what was read of it, kept in step. Blocking; `journal.py` runs it on threads.

Edge: the only code that writes `.jsonl`. A file is appended to and never rewritten, with two
exceptions, both after a copy was set aside: a torn end is cut off, and a file without a header is
written anew from the entries that could be read.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from nacre.sessions.durable import (
    copies_set_aside,
    locked,
    open_plain,
    read_plain,
    replace_file,
    reported,
    set_aside,
    write_all,
)
from nacre.sessions.entries import (
    FORMAT_VERSION,
    Entry,
    SessionHeader,
    entry_to_json,
    header_from_json,
    header_to_json,
)
from nacre.sessions.errors import SessionCorrupt, SessionVersionUnknown
from nacre.sessions.lines import Line, split_lines, timestamp_text, to_line
from nacre.sessions.linking import EntryLinker

E = TypeVar("E", bound=Entry)


class JournalFile:
    """The file's header, entries and notices; safe to call from any thread, one call at a time."""

    def __init__(self, path: Path, *, fresh_header: SessionHeader, now: Callable[[], datetime]) -> None:
        self.path = path
        self.header = fresh_header
        self.entries: tuple[Entry, ...] = ()
        self.notices: tuple[str, ...] = ()
        self._fresh_header = fresh_header
        self._now = now
        self._linker = EntryLinker(fresh_header.id)
        self._size_bytes = 0
        self._identity = (0, 0)
        self._busy = threading.Lock()

    def load(self) -> None:
        """Reads the file, repairs what a crash left, and creates the file when there is none."""
        with self._busy, locked(self.path):
            self._load()

    def refresh(self) -> bool:
        """Reads what others appended since; whether there was anything."""
        with self._busy:
            with suppress(OSError):
                facts = self.path.lstat()
                if (facts.st_dev, facts.st_ino) == self._identity and facts.st_size == self._size_bytes:
                    return False
            with locked(self.path):
                return self._catch_up()

    def append(self, make: Callable[[str, str | None, str], E], new_id: Callable[[], str]) -> E:
        """Writes one entry, made from its id, parent and timestamp, and waits until the disk has it."""
        with self._busy, locked(self.path):
            self._catch_up()
            entry = make(self._linker.unused_id(new_id), self._linker.leaf_id, timestamp_text(self._now()))
            line = to_line(entry_to_json(entry))
            self._write(line)
            self._size_bytes += len(line)
            self._linker.add(entry)
            self.entries = (*self.entries, entry)
            return entry

    def branch(self) -> tuple[Entry, ...]:
        """The entries from the root to the newest one."""
        return self._linker.branch()

    def _load(self) -> None:
        found = read_plain(self.path)
        data = found[0] if found else b""
        if not data.strip():
            replace_file(self.path, to_line(header_to_json(self._fresh_header)))
            data = self._reread()
        lines = split_lines(data)
        first = next((line.value for line in lines if line.value is not None), None)
        header = header_from_json(first) if first is not None else None
        if header is None:
            self._salvage(data, lines)
            header = self._fresh_header
            lines = split_lines(self._reread())
        if header.version > FORMAT_VERSION:
            raise SessionVersionUnknown(
                f"{self.path} has format version {header.version}; this program reads up to "
                f"{FORMAT_VERSION}. Use a newer Nacre for it, or move the file away. It was left as it is."
            )
        lines = self._without_torn_end(lines)
        self._set_unreadable_aside(lines)
        self.header, self.entries, self._linker = header, (), EntryLinker(header.id)
        self._take(lines)
        self._remember()

    def _catch_up(self) -> bool:
        """Under the lock: reads on, or anew when the file is another one or has become shorter."""
        try:
            facts = self.path.lstat()
        except OSError as error:
            raise SessionCorrupt(
                f"{self.path} was there and cannot be found any more. Put it back, or begin a new session."
            ) from error
        if (facts.st_dev, facts.st_ino) == self._identity and facts.st_size == self._size_bytes:
            return False
        if (facts.st_dev, facts.st_ino) != self._identity or facts.st_size < self._size_bytes:
            self.notices += (f"{self.path.name} was changed by another program and was read anew.",)
            self._load()
            return True
        known = len(self.entries)
        lines = split_lines(self._reread()[self._size_bytes :], offset_bytes=self._size_bytes)
        lines = self._without_torn_end(lines)
        self._set_unreadable_aside(lines)
        self._take(lines)
        self._remember()
        return len(self.entries) > known

    def _take(self, lines: list[Line]) -> None:
        """Reads entries out of lines that are whole; the header was seen to before."""
        entries: list[Entry] = []
        for line in lines:
            if line.value is None:
                self._linker.skip_unreadable()
            elif line.value["type"] == "session":
                self._linker.skip_header()
            else:
                entries.append(self._linker.read(line.value, offset_bytes=line.start))
        self.entries += tuple(entries)
        self.notices += tuple(self._linker.notices)
        self._linker.notices.clear()

    def _without_torn_end(self, lines: list[Line]) -> list[Line]:
        """Cuts off what stands behind the last readable line, and ends that line if need be."""
        good = [index for index, line in enumerate(lines) if line.value is not None]
        whole = lines[: good[-1] + 1] if good else []
        torn = lines[len(whole) :]
        if torn:
            data = self._reread()[torn[0].start :]
            aside = set_aside(self.path, data, now=self._now)
            self._truncate(torn[0].start)
            self.notices += (
                f"The end of {self.path.name} was torn ({len(data)} bytes), as after a crash; "
                f"it was set aside in {aside.name} and the transcript goes on before it.",
            )
        if whole and not whole[-1].is_ended:
            self._write(b"\n", at_bytes=whole[-1].end)
            self.notices += (
                f"The last line of {self.path.name} lacked its line feed; it was kept and ended.",
            )
        return whole

    def _set_unreadable_aside(self, lines: list[Line]) -> None:
        """Copies unreadable lines in the middle once; they stay in the file, skipped."""
        broken = [line.data for line in lines if line.value is None]
        if not broken:
            return
        copied: set[bytes] = set()
        for copy in copies_set_aside(self.path):
            found = read_plain(copy)
            copied.update(line.rstrip(b"\r") for line in found[0].split(b"\n")) if found else None
        fresh = [data for data in broken if data not in copied]
        if fresh:
            aside = set_aside(self.path, b"".join(data + b"\n" for data in fresh), now=self._now)
            self.notices += (
                f"{len(fresh)} unreadable line(s) of {self.path.name} are skipped; "
                f"copies are in {aside.name}.",
            )

    def _salvage(self, data: bytes, lines: list[Line]) -> None:
        """Sets the whole file aside and writes a new one from a fresh header and the readable entries."""
        readable = [line.data for line in lines if line.value is not None and line.value["type"] != "session"]
        aside = set_aside(self.path, data, now=self._now)
        replace_file(
            self.path,
            to_line(header_to_json(self._fresh_header)) + b"".join(entry + b"\n" for entry in readable),
        )
        self.notices += (
            f"{self.path.name} had no valid header; it was set aside as {aside.name} "
            f"and {len(readable)} entries that could be read were taken over.",
        )

    def _reread(self) -> bytes:
        found = read_plain(self.path)
        return found[0] if found else b""

    def _remember(self) -> None:
        with reported("read", self.path):
            facts = self.path.lstat()
        self._identity, self._size_bytes = (facts.st_dev, facts.st_ino), facts.st_size

    def _write(self, data: bytes, *, at_bytes: int | None = None) -> None:
        """Appends; if the system refuses, the file is cut back to what it was."""
        end = self._size_bytes if at_bytes is None else at_bytes
        with reported("write", self.path):
            descriptor = open_plain(self.path, os.O_RDWR | os.O_APPEND)
            try:
                write_all(descriptor, data)
            except OSError:
                with suppress(OSError):
                    os.ftruncate(descriptor, end)
                    os.fsync(descriptor)
                raise
            finally:
                os.close(descriptor)

    def _truncate(self, size_bytes: int) -> None:
        with reported("cut off the torn end of", self.path):
            descriptor = open_plain(self.path, os.O_RDWR)
            try:
                os.ftruncate(descriptor, size_bytes)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
