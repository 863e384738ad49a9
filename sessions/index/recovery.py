"""Rebuilds an index from its backup, its change log and the first lines of transcripts. Writes nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nacre.record import Record
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.contracts.keys import RECOVERED
from nacre.sessions.disk.durable import open_plain, read_plain, reported
from nacre.sessions.disk.json_text import split_lines, timestamp_ms
from nacre.sessions.entries.entries import entry_from_json, header_from_json, session_owner
from nacre.sessions.index.image import IndexImage, IndexPaths, parsed_index
from nacre.sessions.index.record import SessionRecord, record_from_json, record_to_json

HEAD_BYTES = 65_536


class ScannedSession(Record):
    """A session as described by its transcript; `key` is `recovered:<id>` if the transcript has none."""

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
    """The record that the backup and the transcripts have for a key whose record has no transcript.

    `None` if they have none, or only a session that the key has left or whose transcript was removed.
    """
    log = read_plain(paths.log)
    left = restored(paths, log[0] if log is not None else b"")
    better = record_from_json(left[0].get(key)) if left is not None else None
    if better is None or present is None:
        return better
    former = {present.session_id, *present.previous_session_ids}
    return None if better.session_id in former else better


def scanned_records(directory: Path) -> list[ScannedSession]:
    """The sessions of a folder's readable transcripts, oldest first."""
    found = [scanned for path in _transcripts(directory) if (scanned := _scanned(path)) is not None]
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
        elif present is not None and _follows(item.record, present, started_ms, known):
            previous = (*present.previous_session_ids, present.session_id)
            raw[item.key] = {**record_to_json(item.record), "previousSessionIds": list(previous)}
    return raw


def _follows(
    record: SessionRecord, present: SessionRecord, started_ms: Mapping[str, int], known: set[str]
) -> bool:
    present_ms = started_ms.get(present.session_id, present.session_started_at_ms or 0)
    return record.session_id not in known and started_ms[record.session_id] >= present_ms


def _transcripts(directory: Path) -> list[Path]:
    if not directory.is_dir():
        return []
    with reported("list", directory):
        return sorted(
            path
            for path in directory.iterdir()
            if path.suffix == ".jsonl" and path.is_file() and not path.is_symlink()
        )


def _scanned(path: Path) -> ScannedSession | None:
    try:
        head, written_ms = _head(path)
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
    """The name that an entry gives to the session (pi's `session_info`), or an empty string."""
    name = value.get("name") if value.get("type") == "session_info" else ""
    return name.strip() if isinstance(name, str) else ""


def _head(path: Path) -> tuple[bytes, int]:
    with os.fdopen(open_plain(path, os.O_RDONLY), "rb") as file, reported("read", path):
        return file.read(HEAD_BYTES), os.fstat(file.fileno()).st_mtime_ns // 1_000_000
