"""Writes `sessions.json` anew from what is known, and begins a new file of changes after it. Edge.

The order makes a kill harmless at any point: changes that `sessions.json` contains already change nothing
in it (`patches.py`). Both files keep a backup, and these belong together: the backup of `sessions.json`
with the changes in the other one is the present `sessions.json`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from nacre.records.record import Record
from nacre.sessions.disk.durable import Sync, keep_as, replace_file, sync_folder, unfinished_file
from nacre.sessions.disk.reported import reported
from nacre.sessions.index.image import Fingerprint, Image
from nacre.sessions.index.patches import header_line


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
