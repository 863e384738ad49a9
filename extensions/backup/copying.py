"""One file copied as it was at one moment, while others write it. Edge: the only importer of apsw here.

A database is copied by SQLite's own backup, which sees one transaction's end. Of a file that only grows come
its whole lines. Any other is read again until it did not change while it was read.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from pathlib import Path

from nacre.extensions.backup.manifest import DATABASE, FILE, LINES, Entry

SQLITE_HEAD = b"SQLite format 3\0"
MOST_TRIES = 5
_GROWING = (".jsonl", ".json.changes")
_PIECE_BYTES = 1 << 20


class CopyFailed(Exception):
    """A file that could not be copied as it was at one moment; the sentence says why."""


def copied(source: Path, path: str, to: Path) -> Entry | None:
    """Copies a file to `to`, and says what stands there now; `None` for what is gone or is no regular file.

    Raises:
        CopyFailed: a database is damaged, or the file went on changing.
        OSError: the system refused.
    """
    try:
        facts = source.lstat()
        if not stat.S_ISREG(facts.st_mode):
            return None
        kind = _kind(source)
        if kind == DATABASE:
            _copy_database(source, to)
        elif kind == LINES:
            _copy_lines(source, to, facts.st_size)
        else:
            _copy_unchanged(source, to)
    except FileNotFoundError:
        return None
    return Entry(
        path=path,
        kind=kind,
        size_bytes=to.stat().st_size,
        sha256=digest(to),
        mode=stat.S_IMODE(facts.st_mode) & 0o777,
    )


def digest(path: Path) -> str:
    """The SHA-256 of a file, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _kind(source: Path) -> str:
    if source.name.endswith(_GROWING):
        return LINES
    with source.open("rb") as file:
        return DATABASE if file.read(len(SQLITE_HEAD)) == SQLITE_HEAD else FILE


def _copy_database(source: Path, to: Path) -> None:
    import apsw

    to.unlink(missing_ok=True)
    try:
        reading = apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READONLY)
        writing = apsw.Connection(str(to))
        try:
            reading.set_busy_timeout(10_000)
            with writing.backup("main", reading, "main") as backup:
                backup.step(-1)  # at once: between steps a writer would have it begin anew
            writing.pragma("journal_mode", "delete")
            found = writing.pragma("quick_check")
        finally:
            writing.close()
            reading.close()
    except apsw.Error as error:
        raise CopyFailed(f"The database {source} could not be copied: {error}.") from error
    if found != "ok":
        raise CopyFailed(f"The database {source} is damaged: {found}.")


def _copy_lines(source: Path, to: Path, size_bytes: int) -> None:
    """What the file had when it was looked at, up to its last whole line."""
    left, whole = size_bytes, 0
    with source.open("rb") as reading, to.open("wb") as writing:
        while left and (piece := reading.read(min(left, _PIECE_BYTES))):
            end = piece.rfind(b"\n")
            if end >= 0:
                whole = writing.tell() + end + 1
            writing.write(piece)
            left -= len(piece)
        writing.truncate(whole)


def _copy_unchanged(source: Path, to: Path) -> None:
    for _ in range(MOST_TRIES):
        with source.open("rb") as reading, to.open("wb") as writing:
            before = os.fstat(reading.fileno())
            shutil.copyfileobj(reading, writing, _PIECE_BYTES)
            after = os.fstat(reading.fileno())
        if (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns):
            return
    raise CopyFailed(f"{source} changed each of the {MOST_TRIES} times that it was read.")
