"""`sessions.json` and its log as bytes: parsing, fingerprints, replacing the file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from nacre.record import Record
from nacre.sessions.disk.durable import (
    Sync,
    keep_as,
    replace_file,
    reported,
    sync_folder,
    unfinished_file,
)
from nacre.sessions.disk.json_text import indented_json, json_value, split_lines
from nacre.sessions.index.record import (
    CHANGES_VERSION,
    Patch,
    SessionRecord,
    apply_patch,
    header_line,
    patches_of,
    record_from_json,
)


class Image(Mapping[str, SessionRecord]):
    """The lines of an index; as a mapping, those that are records, each read when it is asked for.

    `base` and `log` are the two files as they were when they were looked at, `None` for none. A line that
    changes becomes another object, so that what was taken from here stays what it was.
    """

    def __init__(self, lines: dict[str, Any], *, base: Fingerprint | None) -> None:
        self.lines = lines
        self.base = base
        self.log: Fingerprint | None = None
        self.log_bytes = 0
        """How far the changes have been read, up to the end of a line."""
        self.edits: list[bytes] = []
        """Their lines, one an edit, without line feeds."""
        self.has_base = True
        """Whether the changes go on from a `sessions.json`; the very first ones do not."""
        self.is_base_read = True
        """Whether `sessions.json` could be read, or there is none because there are only changes yet."""
        self.broken_lines = 0
        """How many lines of the changes could not be read."""
        self.newer_version: int | None = None
        """The version of the changes when a newer program wrote them."""
        self._records: dict[str, tuple[object, SessionRecord | None]] = {}

    @property
    def is_whole(self) -> bool:
        """Whether all of it could be read."""
        return self.is_base_read and not self.broken_lines and self.newer_version is None

    @property
    def is_torn(self) -> bool:
        """Whether something stands behind the last whole line of the changes."""
        return self.log is not None and self.log[2] > self.log_bytes

    def read_on(self, data: bytes) -> None:
        """Takes what stands behind `log_bytes` in the file of changes; a line without its end is left."""
        whole = data[: data.rfind(b"\n") + 1]
        for line in split_lines(whole):
            self._take(line.data, line.value)
        self.log_bytes += len(whole)

    def apply(self, patches: list[Patch], line: bytes, after: Mapping[str, SessionRecord | None]) -> None:
        """Takes an edit that has been put on disk as `line`; `after` are the records that it made."""
        for patch in patches:
            apply_patch(self.lines, patch)
            record = after[patch.key]
            if record is not None:
                self._records[patch.key] = (self.lines[patch.key], record)
        self.edits.append(line.rstrip(b"\n"))
        self.log_bytes += len(line)

    def copy_of_lines(self) -> dict[str, Any]:
        """The lines as they are now, in a dictionary that does not change with them."""
        return dict(self.lines)

    def __getitem__(self, key: str) -> SessionRecord:
        raw = self.lines[key]
        kept = self._records.get(key)
        if kept is None or kept[0] is not raw:
            kept = self._records[key] = (raw, record_from_json(raw))
        if kept[1] is None:
            raise KeyError(key)
        return kept[1]

    def __iter__(self) -> Iterator[str]:
        return (key for key in list(self.lines) if self.get(key) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _take(self, data: bytes, value: Mapping[str, Any] | None) -> None:
        if value is not None and value["type"] == "header":
            version = value.get("version")
            if version == CHANGES_VERSION:
                self.has_base = value.get("base") is not False
            elif isinstance(version, int) and version > CHANGES_VERSION:
                self.newer_version = version
            else:
                self.broken_lines += 1
            return
        patches = patches_of(value) if value is not None else None
        if patches is None:
            self.broken_lines += 1
            return
        for patch in patches:
            apply_patch(self.lines, patch)
        self.edits.append(data)


class IndexPaths(Record):
    """The files of an index, all in one folder."""

    base: Path

    @cached_property
    def backup(self) -> Path:
        """The index before it was last written."""
        return self._beside(".bak")

    @cached_property
    def log(self) -> Path:
        """What changed since."""
        return self._beside(".changes")

    @cached_property
    def log_backup(self) -> Path:
        """What changed between the two."""
        return self._beside(".changes.bak")

    def _beside(self, suffix: str) -> Path:
        return self.base.with_name(f"{self.base.name}{suffix}")


def fingerprint(path: Path) -> Fingerprint | None:
    """What tells a file from what it was before; `None` when there is none."""
    try:
        return facts_fingerprint(os.lstat(path))
    except FileNotFoundError:
        return None


def facts_fingerprint(facts: os.stat_result) -> Fingerprint:
    """The same of a file that was looked at."""
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


def log_bytes_of(edits: Iterable[bytes]) -> bytes:
    """A file of changes with these edits, which goes on from a `sessions.json`."""
    return b"\n".join((header_line(has_base=True).rstrip(b"\n"), *edits, b""))


def put_in_place(
    paths: IndexPaths, unfinished: Path, image: Image, *, contained: int, sync: Sync, earlier: bytes | None
) -> None:
    """Makes `unfinished` the index, with the first so many edits of the image in it; the image is told.

    For the holder of the index's lock. `earlier` are the changes that belong to the backup from now on;
    without it they are the present ones, and the backup is the present index.

    Raises:
        SessionWriteFailed: the system refused; everything that was known still is.
        FileNotFoundError: the unfinished file is gone.
    """
    later = image.edits[contained:]
    fresh = log_bytes_of(later)
    with unfinished_file(paths.log, fresh, sync=sync) as log:
        _tell_apart(unfinished)
        if earlier is None:
            keep_as(paths.backup, paths.base, sync=sync)
        unfinished.replace(paths.base)
        sync_folder(paths.base.parent, sync=sync)
        if earlier is None:
            keep_as(paths.log_backup, paths.log, sync=sync)
        else:
            replace_file(paths.log_backup, earlier, sync=sync)
        log.replace(paths.log)
        sync_folder(paths.base.parent, sync=sync)
    with reported("read", paths.base):
        image.base, image.log = fingerprint(paths.base), fingerprint(paths.log)
    image.edits, image.log_bytes, image.has_base = later, len(fresh), True
    image.is_base_read, image.broken_lines = True, 0


def _tell_apart(file: Path) -> None:
    """Gives a file a time that no writing to it can give it again.

    The system's time stands still for some milliseconds; who wrote into the file in these, as much as
    was there, would not be noticed.
    """
    facts = file.stat()
    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns - 1))


def parsed_index(data: bytes) -> dict[str, Any] | None:
    """The object of an index file, JSON or JSON5; `None` when it holds none."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        value = json_value(data)
    except (ValueError, RecursionError):
        value = _json5(data)
    return value if isinstance(value, dict) else None


def index_bytes(lines: Mapping[str, Any]) -> bytes:
    """An index file that holds these lines."""
    return indented_json(lines) + b"\n"


def _json5(data: bytes) -> object:
    import pyjson5

    try:
        return pyjson5.decode(data.decode(), maxdepth=100)
    except (ValueError, pyjson5.Json5Exception):
        return None


Fingerprint: TypeAlias = tuple[int, int, int, int]
"""By which a file is known again: device, inode, size, time of its last change."""
