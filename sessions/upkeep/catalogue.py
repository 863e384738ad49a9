"""Every session that there is: those that keys name now, and those they named before. Edge: reads only.

What the index tells of a session goes before what its transcript tells; a transcript that the index does
not know is listed all the same, so that nothing that was said is out of reach.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from nacre.sessions.contracts.errors import SessionCorrupt, SessionError, SessionKeyInvalid, SessionNotFound
from nacre.sessions.contracts.keys import canonical_key, key_agent
from nacre.sessions.contracts.messages import UserMessage, message_text
from nacre.sessions.disk.durable import read_tail
from nacre.sessions.disk.lines import split_lines
from nacre.sessions.entries.entries import entry_from_json
from nacre.sessions.index.index import SessionIndex
from nacre.sessions.index.record import SessionRecord
from nacre.sessions.index.recovery import ScannedSession, scanned_records

TAIL_BYTES = 65_536
LEAST_ID_CHARS = 4
_SHOWN_MATCHES = 5


@dataclass(frozen=True, kw_only=True)
class StoredSession:
    """A session on disk.

    `is_current`: its key names it now, and `record` is its line in the index; else `record` is what its
    transcript tells. `path` is `None` when the index names a file that cannot be its transcript, and
    `size_bytes` when there is no file.
    """

    key: str
    record: SessionRecord
    is_current: bool
    path: Path | None
    size_bytes: int | None

    @property
    def session_id(self) -> str:
        """The id that names the transcript."""
        return self.record.session_id

    @property
    def active_at_ms(self) -> int:
        """When somebody last spoke, or else when anything last changed, in milliseconds since the epoch."""
        return self.record.last_interaction_at_ms or self.record.updated_at_ms


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


def find_session(
    sessions: Sequence[StoredSession], name: str, *, agent_id: str, main_key: str = "main"
) -> StoredSession:
    """The session that a person means: by its key, its id, or the first characters of its id.

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
            raise SessionNotFound(f"{name!r} could be any of {ids}{more}. Write more of the id.")
    if (named := key_agent(key)) not in ("", agent_id):
        raise SessionNotFound(
            f"{name!r} is a session of agent {named!r}, and these are the sessions of agent {agent_id!r}. "
            f"Ask for it with --agent {named}."
        )
    raise SessionNotFound(
        f"There is no session {name!r}. `nacre sessions list --all` shows keys and ids; "
        f"of an id, the first {LEAST_ID_CHARS} characters are enough."
    )


def last_words(path: Path) -> str:
    """What a person said last on the present branch of a transcript, from the end of its file.

    Where the branch leads out of that end, the last words of any branch; empty when there are none.
    """
    try:
        data = read_tail(path, TAIL_BYTES)
    except (SessionError, FileNotFoundError):
        return ""
    values = [line.value for line in reversed(split_lines(data)) if line.value is not None]
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
    return StoredSession(key=key, record=record, is_current=True, path=path, size_bytes=_size_bytes(path))


def _earlier(index: SessionIndex, item: ScannedSession, named: Mapping[str, str]) -> StoredSession:
    record = item.record
    path = index.directory / (record.session_file or f"{record.session_id}.jsonl")
    return StoredSession(
        key=named.get(record.session_id, item.key),
        record=replace(record, previous_session_ids=()),
        is_current=False,
        path=path,
        size_bytes=_size_bytes(path),
    )


def _size_bytes(path: Path | None) -> int | None:
    try:
        return path.lstat().st_size if path is not None else None
    except OSError:
        return None


def _key(text: str, agent_id: str, main_key: str) -> str:
    with suppress(SessionKeyInvalid):
        return canonical_key(text, agent_id=agent_id, main_key=main_key)
    return ""
