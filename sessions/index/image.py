"""The content of `sessions.json` and its change log in memory, the files that hold them, and their recovery.

An unreadable index is restored from its backup, its change log and the first lines of transcripts.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from nacre.record import Record
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.contracts.keys import RECOVERED
from nacre.sessions.disk.durable import (
    Sync,
    keep_as,
    open_plain,
    read_plain,
    replace_file,
    reported,
    sync_folder,
    unfinished_file,
)
from nacre.sessions.disk.json_text import indented_json, json_value, split_lines, timestamp_ms
from nacre.sessions.entries.entries import entry_from_json, header_from_json, session_owner
from nacre.sessions.index.record import (
    CHANGES_VERSION,
    Patch,
    SessionRecord,
    apply_patch,
    header_line,
    patches_of,
    record_from_json,
    record_to_json,
)


class IndexImage(Mapping[str, SessionRecord]):
    """The lines of an index. As a mapping, it contains the lines that are records, each parsed on access.

    `base` and `log` are the fingerprints of the two files when they were read, or `None` if missing. A line
    that changes is replaced by a new object, so that objects taken from here never change.
    """

    def __init__(self, lines: dict[str, Any], *, base: Fingerprint | None) -> None:
        self.lines = lines
        self.base = base
        self.log: Fingerprint | None = None
        self.log_bytes = 0
        """The size of the part of the change log that has been read, up to the end of a line."""
        self.edits: list[bytes] = []
        """The lines of the change log, one per edit, without line feeds."""
        self.has_base = True
        """Whether the change log continues a `sessions.json`; the first log does not."""
        self.is_base_read = True
        """Whether `sessions.json` was readable, or is missing because there is only a change log yet."""
        self.broken_lines = 0
        """The number of unreadable lines in the change log."""
        self.newer_version: int | None = None
        """The version of the change log if a newer program wrote it."""
        self._records: dict[str, tuple[object, SessionRecord | None]] = {}

    @property
    def is_whole(self) -> bool:
        """Whether everything was readable."""
        return self.is_base_read and not self.broken_lines and self.newer_version is None

    @property
    def is_torn(self) -> bool:
        """Whether the change log ends with an incomplete line."""
        return self.log is not None and self.log[2] > self.log_bytes

    def read_on(self, data: bytes) -> None:
        """Applies the change log's bytes after `log_bytes`, except for an incomplete last line."""
        whole = data[: data.rfind(b"\n") + 1]
        for line in split_lines(whole):
            self._take(line.data, line.value)
        self.log_bytes += len(whole)

    def apply(self, patches: list[Patch], line: bytes, after: Mapping[str, SessionRecord | None]) -> None:
        """Applies an edit that was written as `line`; `after` are the resulting records."""
        for patch in patches:
            apply_patch(self.lines, patch)
            record = after[patch.key]
            if record is not None:
                self._records[patch.key] = (self.lines[patch.key], record)
        self.edits.append(line.rstrip(b"\n"))
        self.log_bytes += len(line)

    def records(self) -> dict[str, SessionRecord]:
        """All records by key, each looked up once."""
        return {key: record for key in self.lines if (record := self.get(key)) is not None}

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
        """The index before its last rewrite."""
        return self._beside(".bak")

    @cached_property
    def log(self) -> Path:
        """The changes since the last rewrite."""
        return self._beside(".changes")

    @cached_property
    def log_backup(self) -> Path:
        """The changes between the backup and the last rewrite."""
        return self._beside(".changes.bak")

    def _beside(self, suffix: str) -> Path:
        return self.base.with_name(f"{self.base.name}{suffix}")


def fingerprint(path: Path) -> Fingerprint | None:
    """A file's fingerprint, or `None` if there is no such file."""
    try:
        return facts_fingerprint(os.lstat(path))
    except FileNotFoundError:
        return None


def facts_fingerprint(facts: os.stat_result) -> Fingerprint:
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


def log_bytes_of(edits: Iterable[bytes]) -> bytes:
    """The content of a change log with these edits that continues a `sessions.json`."""
    return b"\n".join((header_line(has_base=True).rstrip(b"\n"), *edits, b""))


def put_in_place(
    paths: IndexPaths,
    unfinished: Path,
    image: IndexImage,
    *,
    contained: int,
    sync: Sync,
    earlier: bytes | None,
) -> None:
    """Makes `unfinished`, which contains the image's first `contained` edits, the index; updates the image.

    The caller holds the index's lock. `earlier` is the new change log of the backup. Without it, the current
    index and its change log become the backup.

    Raises:
        SessionWriteFailed: the system refused; no data was lost.
        FileNotFoundError: the unfinished file is gone.
    """
    later = image.edits[contained:]
    fresh = log_bytes_of(later)
    with unfinished_file(paths.log, fresh, sync=sync) as log:
        # The file system's clock stands still for some milliseconds, in which another write of the same size
        # would go unnoticed. No later write can give the file this time.
        facts = unfinished.stat()
        os.utime(unfinished, ns=(facts.st_atime_ns, facts.st_mtime_ns - 1))
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


def parsed_index(data: bytes) -> dict[str, Any] | None:
    """Parses an index file, JSON or JSON5; `None` if it does not contain an object."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        value = json_value(data)
    except (ValueError, RecursionError):
        import pyjson5

        try:
            value = pyjson5.decode(data.decode(), maxdepth=100)
        except (ValueError, pyjson5.Json5Exception):
            return None
    return value if isinstance(value, dict) else None


def index_bytes(lines: Mapping[str, Any]) -> bytes:
    return indented_json(lines) + b"\n"


Fingerprint: TypeAlias = tuple[int, int, int, int]
"""Identifies a version of a file: device, inode, size and modification time in nanoseconds."""


HEAD_BYTES = 65_536


class ScannedSession(Record):
    """A session by its transcript; `key` is `recovered:<id>` if the transcript has none."""

    key: str
    record: SessionRecord


def restored(paths: IndexPaths, log: bytes) -> tuple[dict[str, Any], list[bytes], str] | None:
    """Restores an unreadable index: its lines, the edits since its backup, and a description of the source.

    `log` is the content of its change log. Returns `None` if there is nothing to restore from.
    """
    backup, log_backup = read_plain(paths.backup), read_plain(paths.log_backup)
    old = parsed_index(backup[0]) if backup is not None else None
    known = IndexImage(old or {}, base=None)
    known.read_on(log_backup[0] if log_backup is not None else b"")
    known.read_on(log)
    is_known = old is not None or bool(known.edits)
    if not is_known and not _transcripts(paths.base.parent):
        return None
    lines = with_scanned(known.lines, scanned_records(paths.base.parent))
    return lines, known.edits, "its backup and the transcripts" if is_known else "the transcripts"


def better_record(paths: IndexPaths, key: str, present: SessionRecord | None) -> SessionRecord | None:
    """The record of the backup or the transcripts for a key whose record has no transcript.

    `None` if they have none, or only a session that the key refers to no longer.
    """
    log = read_plain(paths.log)
    left = restored(paths, log[0] if log is not None else b"")
    better = record_from_json(left[0].get(key)) if left is not None else None
    if better is None or present is None:
        return better
    former = {present.session_id, *present.previous_session_ids}
    return None if better.session_id in former else better


def scanned_records(directory: Path, *, without: Collection[str] = ()) -> list[ScannedSession]:
    """The sessions of a folder's readable transcripts, oldest first, except files named in `without`."""
    paths = _transcripts(directory, without)
    found = [scanned for path in paths if (scanned := _scanned(path)) is not None]
    return sorted(found, key=lambda item: (item.record.session_started_at_ms or 0, item.record.updated_at_ms))


def with_scanned(backup: Mapping[str, Any], scanned: list[ScannedSession]) -> dict[str, Any]:
    """The backup's records, completed with newer or missing sessions from the transcripts.

    Of several transcripts with one key, the newest is the key's session; the others are its previous ones.
    """
    raw = dict(backup)
    started_ms = {item.record.session_id: item.record.session_started_at_ms or 0 for item in scanned}
    records = [record for record in map(record_from_json, backup.values()) if record is not None]
    known = {name for record in records for name in (record.session_id, *record.previous_session_ids)}
    for item in scanned:
        present = record_from_json(raw.get(item.key))
        if present is None and item.record.session_id not in known:
            raw[item.key] = record_to_json(item.record)
        elif present is not None and item.record.session_id not in known:
            present_ms = started_ms.get(present.session_id, present.session_started_at_ms or 0)
            if started_ms[item.record.session_id] >= present_ms:
                previous = (*present.previous_session_ids, present.session_id)
                raw[item.key] = {**record_to_json(item.record), "previousSessionIds": list(previous)}
    return raw


def _transcripts(directory: Path, without: Collection[str] = ()) -> list[Path]:
    if not directory.is_dir():
        return []
    with reported("list", directory), os.scandir(directory) as entries:
        return sorted(
            directory / entry.name
            for entry in entries
            if entry.name.endswith(".jsonl")
            and entry.name not in without
            and entry.name != ".jsonl"
            and entry.is_file(follow_symlinks=False)
        )


def _scanned(path: Path) -> ScannedSession | None:
    try:
        with os.fdopen(open_plain(path, os.O_RDONLY), "rb") as file, reported("read", path):
            head, written_ms = file.read(HEAD_BYTES), os.fstat(file.fileno()).st_mtime_ns // 1_000_000
    except (SessionError, FileNotFoundError):
        return None
    values = [line.value for line in split_lines(head) if line.value is not None]
    header = header_from_json(values[0]) if values else None
    if header is None:
        return None
    owners = (session_owner(entry_from_json(value)) for value in values[1:])
    owner = next((owner for owner in owners if owner is not None and owner.key), None)
    record = SessionRecord(
        session_id=header.id,
        updated_at_ms=written_ms,
        session_file=None if path.name == f"{header.id}.jsonl" else path.name,
        chat_type=owner.chat_kind if owner is not None else None,
        session_started_at_ms=timestamp_ms(header.timestamp),
        display_name=next((name for value in reversed(values) if (name := _name(value))), None),
    )
    key = owner.key if owner is not None else None
    return ScannedSession(key=key or f"{RECOVERED}{header.id.lower()}", record=record)


def _name(value: Mapping[str, Any]) -> str:
    name = value.get("name") if value.get("type") == "session_info" else ""
    return name.strip() if isinstance(name, str) else ""
