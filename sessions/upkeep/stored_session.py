"""Lists the sessions and transcripts of a folder, and finds the session that a person names."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nacre.records.record import Record
from nacre.sessions.contracts.errors import SessionCorrupt, SessionError, SessionKeyInvalid, SessionNotFound
from nacre.sessions.contracts.keys import canonical_key, key_agent
from nacre.sessions.contracts.messages import UserMessage, message_text
from nacre.sessions.disk.durable import open_plain, read_tail, reported
from nacre.sessions.disk.json_text import split_lines
from nacre.sessions.entries.entries import entry_from_json
from nacre.sessions.index.index import SessionIndex
from nacre.sessions.index.record import SessionRecord
from nacre.sessions.index.recovery import ScannedSession, scanned_records

LEAST_ID_CHARS = 4
_SHOWN_MATCHES = 5


class StoredSession(Record):
    """A session in a store.

    If `is_current`, its key refers to it and `record` is its record in the index; otherwise `record` comes
    from its transcript. `transcript` is the store's name for it, or empty if the record's is invalid. `place`
    tells people where it is. `size_bytes` is `None` if there is no transcript.
    """

    key: str
    record: SessionRecord
    is_current: bool
    transcript: str
    place: str
    size_bytes: int | None

    @property
    def session_id(self) -> str:
        return self.record.session_id

    @property
    def active_at_ms(self) -> int:
        """Milliseconds since the epoch of the last message, or otherwise of the last change."""
        return self.record.last_interaction_at_ms or self.record.updated_at_ms


class TranscriptFacts(Record):
    """A transcript in a store: its name, its size as JSON lines, and when it last grew."""

    name: str
    size_bytes: int
    lines: int
    modified_ns: int


def find_session(
    sessions: Sequence[StoredSession], name: str, *, agent_id: str, main_key: str = "main"
) -> StoredSession:
    """Finds a session by its key, its id, or the first characters of its id.

    Raises:
        SessionNotFound: there is none, or there are several.
    """
    wanted = name.strip().lower()
    key = _key(wanted, agent_id, main_key)
    by_key = [item for item in sessions if item.is_current and item.key == key]
    by_id = [item for item in sessions if item.session_id.lower() == wanted]
    by_start = [
        item
        for item in sessions
        if len(wanted) >= LEAST_ID_CHARS and item.session_id.lower().startswith(wanted)
    ]
    ended = [item for item in sessions if item.key == key and not by_key]
    for matches in (by_key, by_id, by_start, ended):
        if len(matches) == 1:
            return matches[0]
        if matches:
            ids = ", ".join(item.session_id for item in matches[:_SHOWN_MATCHES])
            more = ", …" if len(matches) > _SHOWN_MATCHES else ""
            raise SessionNotFound(f"{name!r} matches {ids}{more}. Give more characters of the id.")
    if (named := key_agent(key)) not in ("", agent_id):
        raise SessionNotFound(
            f"{name!r} is a session of agent {named!r}, but these are the sessions of agent {agent_id!r}. "
            f"Select the agent with --agent {named}."
        )
    raise SessionNotFound(
        f"There is no session {name!r}. `nacre sessions list --all` shows keys and ids; "
        f"the first {LEAST_ID_CHARS} characters of an id are enough."
    )


def _key(text: str, agent_id: str, main_key: str) -> str:
    with suppress(SessionKeyInvalid):
        return canonical_key(text, agent_id=agent_id, main_key=main_key)
    return ""


log = logging.getLogger(__name__)

BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class _Counted:
    """The line count of a file when it had `size_bytes`."""

    identity: tuple[int, int]
    size_bytes: int
    lines: int


class TranscriptListing:
    """Lists one folder's transcripts and counts their lines, reading only what grew. Not thread-safe."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._counted: dict[str, _Counted] = {}

    def listed(self) -> list[TranscriptFacts]:
        """All transcripts by name. Raises `SessionWriteFailed` if the folder cannot be read."""
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
        """A file's line count, counted from where the last count ended; the last count if it cannot be
        read."""
        identity = (stat.st_dev, stat.st_ino)
        known = self._counted.get(name)
        if known is None or known.identity != identity or known.size_bytes > stat.st_size:
            known = _Counted(identity, 0, 0)
        if known.size_bytes < stat.st_size:
            try:
                new = _line_feeds(self._directory / name, known.size_bytes, stat.st_size)
            except (OSError, SessionError) as error:
                log.warning("could not count the lines of the transcript %s: %s", name, error)
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
    """The sessions of an index, latest activity first.

    `with_earlier` reads the beginning of each transcript in the folder to find those that no key refers to.

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


def last_message(path: Path) -> str:
    """The last message of a person on the current branch, read from the end of a transcript file."""
    try:
        data = read_tail(path, TAIL_BYTES)
    except (SessionError, FileNotFoundError):
        return ""
    return last_message_text([line.value for line in reversed(split_lines(data)) if line.value is not None])


def last_message_text(values: Sequence[Mapping[str, Any]]) -> str:
    """The last message of a person on the branch that ends with these entries, newest first.

    If the branch leads out of the entries, the last message on any branch; empty if there is none.
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
