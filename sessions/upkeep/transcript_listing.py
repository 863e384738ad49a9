"""The transcripts of a folder with how many lines each has. Edge: lists and reads, writes nothing.

Of a file that grew only the growth is read, of one that did not, nothing.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nacre.sessions.contracts.errors import SessionCorrupt, SessionError
from nacre.sessions.contracts.messages import UserMessage, message_text
from nacre.sessions.disk.durable import open_plain, read_tail, reported
from nacre.sessions.disk.json_text import split_lines
from nacre.sessions.entries.entries import entry_from_json
from nacre.sessions.index.index import SessionIndex
from nacre.sessions.index.record import SessionRecord
from nacre.sessions.index.recovery import ScannedSession, scanned_records
from nacre.sessions.upkeep.stored_session import StoredSession, TranscriptFacts

log = logging.getLogger(__name__)

BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class _Counted:
    """How many lines a file had when it was `size_bytes` long."""

    identity: tuple[int, int]
    size_bytes: int
    lines: int


class TranscriptListing:
    """What one folder's transcripts are. For one thread at a time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._counted: dict[str, _Counted] = {}

    def listed(self) -> list[TranscriptFacts]:
        """All transcripts by name. Raises `SessionWriteFailed` when the folder cannot be read."""
        with reported("list", self._directory):
            found = [self._facts(name, stat) for name, stat in self._files()]
        self._counted = {each.name: self._counted[each.name] for each in found if each.name in self._counted}
        return found

    def _files(self) -> Iterator[tuple[str, os.stat_result]]:
        try:
            with os.scandir(self._directory) as entries:
                files = [entry for entry in entries if _is_transcript(entry)]
        except FileNotFoundError:
            return
        for entry in sorted(files, key=lambda entry: entry.name):
            try:
                yield entry.name, entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue

    def _facts(self, name: str, stat: os.stat_result) -> TranscriptFacts:
        return TranscriptFacts(
            name=name, size_bytes=stat.st_size, lines=self._lines(name, stat), modified_ns=stat.st_mtime_ns
        )

    def _lines(self, name: str, stat: os.stat_result) -> int:
        """The lines of a file, read from where the last count ended; the last count if it cannot be read."""
        identity = (stat.st_dev, stat.st_ino)
        known = self._counted.get(name)
        if known is None or known.identity != identity or known.size_bytes > stat.st_size:
            known = _Counted(identity, 0, 0)
        if known.size_bytes < stat.st_size:
            try:
                new = _line_feeds(self._directory / name, known.size_bytes, stat.st_size)
            except (OSError, SessionError) as error:
                log.warning("the lines of the transcript %s cannot be counted: %s", name, error)
                return known.lines
            known = _Counted(identity, stat.st_size, known.lines + new)
        self._counted[name] = known
        return known.lines


def _is_transcript(entry: os.DirEntry[str]) -> bool:
    return entry.name.endswith(".jsonl") and entry.name[0] != "." and entry.is_file(follow_symlinks=False)


def _line_feeds(path: Path, start: int, end: int) -> int:
    descriptor = open_plain(path, os.O_RDONLY)
    try:
        os.lseek(descriptor, start, os.SEEK_SET)
        count, left = 0, end - start
        while left > 0 and (block := os.read(descriptor, min(left, BLOCK_BYTES))):
            count += block.count(b"\n")
            left -= len(block)
        return count
    finally:
        os.close(descriptor)


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
