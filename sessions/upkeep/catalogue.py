"""Every session that there is: those that keys name now, and those they named before. Edge: reads only.

What the index tells of a session goes before what its transcript tells; a transcript that the index does
not know is listed all the same, so that nothing that was said is out of reach.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nacre.sessions.contracts.errors import SessionCorrupt, SessionError
from nacre.sessions.contracts.messages import UserMessage, message_text
from nacre.sessions.disk.durable import read_tail
from nacre.sessions.disk.lines import split_lines
from nacre.sessions.entries.entries import entry_from_json
from nacre.sessions.index.index import SessionIndex
from nacre.sessions.index.record import SessionRecord
from nacre.sessions.index.recovery import ScannedSession, scanned_records
from nacre.sessions.upkeep.stored_session import StoredSession

TAIL_BYTES = 65_536


async def stored_sessions(index: SessionIndex, *, with_earlier: bool = True) -> list[StoredSession]:
    """The sessions of an index, the latest active first.

    `with_earlier` reads the beginning of each transcript in the folder, to find those that no key names
    any more.

    Raises:
        SessionWriteFailed: the folder or the index cannot be read.
    """
    records = await index.all()
    scanned = await asyncio.to_thread(scanned_records, index.directory) if with_earlier else []
    current = {record.session_id for record in records.values()}
    named = {name: key for key, record in records.items() for name in record.previous_session_ids}
    found = [_current(index, key, record) for key, record in records.items()]
    found += [_earlier(index, item, named) for item in scanned if item.record.session_id not in current]
    return sorted(found, key=lambda session: session.active_at_ms, reverse=True)


def last_words(path: Path) -> str:
    """What a person said last on the present branch of a transcript, from the end of its file."""
    try:
        data = read_tail(path, TAIL_BYTES)
    except (SessionError, FileNotFoundError):
        return ""
    return words_at_end([line.value for line in reversed(split_lines(data)) if line.value is not None])


def words_at_end(values: Sequence[Mapping[str, Any]]) -> str:
    """What a person said last on the branch that these entries, the newest first, are the end of. Pure.

    Where the branch leads out of them, the last words of any branch; empty when there are none.
    """
    off_branch, next_id = "", str(values[0].get("id")) if values else ""
    for entry in map(entry_from_json, values):
        words = message_text(entry.body) if isinstance(entry.body, UserMessage) else ""
        if entry.id != next_id:
            off_branch = off_branch or words
        elif words:
            return words
        else:
            next_id = entry.parent_id or ""
    return off_branch


def _current(index: SessionIndex, key: str, record: SessionRecord) -> StoredSession:
    try:
        path: Path | None = index.transcript_path(record)
    except SessionCorrupt:
        path = None
    return StoredSession(
        key=key,
        record=record,
        is_current=True,
        transcript=path.name if path is not None else "",
        place=str(path or ""),
        size_bytes=_size_bytes(path),
    )


def _earlier(index: SessionIndex, item: ScannedSession, named: Mapping[str, str]) -> StoredSession:
    record = item.record
    path = index.directory / (record.session_file or f"{record.session_id}.jsonl")
    return StoredSession(
        key=named.get(record.session_id, item.key),
        record=replace(record, previous_session_ids=()),
        is_current=False,
        transcript=path.name,
        place=str(path),
        size_bytes=_size_bytes(path),
    )


def _size_bytes(path: Path | None) -> int | None:
    try:
        return path.lstat().st_size if path is not None else None
    except OSError:
        return None
