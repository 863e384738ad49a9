"""The sessions of one agent in a PostgreSQL database, for any number of processes on any machines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from nacre.extensions.postgres import session_statements as statements
from nacre.extensions.postgres.server.connections import DatabaseError
from nacre.extensions.postgres.server.database import LEFT_LANES, Database, TakenLane
from nacre.extensions.postgres.session_rows import (
    AgentRows,
    EndingRows,
    Head,
    LineRows,
    Moment,
    TranscriptRows,
    all_lines,
    create_transcript,
    edit_lines,
    head_of,
    lines_from,
)
from nacre.sessions.contracts.errors import SessionCorrupt, SessionError, SessionNotFound, SessionStoreRefused
from nacre.sessions.contracts.keys import RECOVERED, SYNTHETIC_KINDS, key_kind
from nacre.sessions.disk.json_text import json_value, split_lines, timestamp_text, to_line
from nacre.sessions.entries.entries import KnownBody, SessionHeader, StoredTranscript, header_to_json
from nacre.sessions.index.index import is_transcript_name
from nacre.sessions.index.record import SessionRecord
from nacre.sessions.stores.copying import refuse_another
from nacre.sessions.stores.rewriting import Rewrite
from nacre.sessions.stores.store import LastMessage
from nacre.sessions.upkeep.maintenance import (
    MaintenanceLimits,
    StoredFile,
    UpkeepReport,
    aside_name,
    file_kind,
    files_to_remove,
    lines_to_prune,
    without_session,
)
from nacre.sessions.upkeep.stored_session import StoredSession, TranscriptFacts, last_message_text


class Lane:
    """An async context manager for the lane of one key. Entering raises `SessionStoreRefused`."""

    def __init__(self, rows: AgentRows, key: str, *, holder: str) -> None:
        self._rows = rows
        self._key = key
        self._holder = holder
        self._fence: int | None = None
        self._keeping: asyncio.Task[None] | None = None

    async def __aenter__(self) -> bool:
        """Returns whether this caller got the lane."""
        process = self._rows.database.process
        try:
            await process.beat()
        except DatabaseError as error:
            raise SessionStoreRefused(str(error)) from error
        left = LEFT_LANES.get()
        if left is not None and not left.is_closed:  # the same turn may take its lane again
            self._fence = left.fences.pop((self._rows.agent, self._key), None)
            await self._leave()
        found = process.taken_lanes.pop((self._rows.agent, self._key), None)
        if found is None:
            values = {"lane": self._key, "holder": self._holder, "process": process.number}
            taken = await self._rows.single(lambda rows: rows.run(statements.TAKE_LANE, **values))
            if not taken:
                return False
            found = TakenLane(*taken[0])
        self._rows.taken[self._key], self._rows.lines[self._key] = found, found.line
        self._fence = self._rows.held[self._key] = found.fence
        self._keeping = asyncio.create_task(process.keep(), name="session-lane")
        return True

    async def __aexit__(self, *_ended: object) -> None:
        """Releases the lane. If the server is unreachable, the lane is free when this process is silent."""
        if self._fence is None or self._keeping is None:
            return
        self._keeping.cancel()
        with suppress(asyncio.CancelledError):
            await self._keeping
        if self._rows.held.get(self._key) == self._fence:
            del self._rows.held[self._key]
            self._rows.taken.pop(self._key, None)
            self._rows.lines.pop(self._key, None)
        left = LEFT_LANES.get()
        if left is not None and not left.is_closed:
            left.fences[self._rows.agent, self._key] = self._fence
        else:
            await self._leave()

    async def _leave(self) -> None:
        if self._fence is None:
            return
        values = {"lane": self._key, "fence": self._fence}
        self._fence = None
        with suppress(SessionError):
            await self._rows.single(lambda rows: rows.run(statements.LEAVE_LANE, **values))


def results_of(rows: Moment, name: str) -> dict[str, bytes]:
    """The whole results of a transcript, by name."""
    head = head_of(rows, name)
    if head is None:
        return {}
    return {each: bytes(body) for each, body in rows.run(statements.RESULTS, transcript=head.id)}


def import_lines(rows: Moment, *, name: str, data: bytes, results: Mapping[str, bytes], at: datetime) -> None:
    """Imports a transcript from JSON lines with its results, or extends one that begins with the same lines.

    Raises:
        SessionCorrupt: a different transcript has this name.
    """
    head = head_of(rows, name)
    there = b"".join(lines_from(rows, head)) if head is not None else b""
    refuse_another(name, there, data)
    transcript = head.id if head is not None else None
    if len(there) < len(data):
        if head is not None:
            rows.run(statements.REMOVE_TRANSCRIPT, name=name)
        lines = [line + b"\n" for line in data.split(b"\n")[:-1]]
        header = json_value(lines[0])
        session_id = header.get("id") if isinstance(header, dict) else None
        session_id = session_id if isinstance(session_id, str) and session_id else name.removesuffix(".jsonl")
        transcript = create_transcript(rows, name, lines, session_id, at)
    for each, body in results.items():
        rows.fenced(statements.KEEP_RESULT, lane=None, transcript=transcript, name=each, body=body)


class TranscriptRow(NamedTuple):
    """A row of `statements.TRANSCRIPTS`."""

    name: str
    session_id: str
    owner_key: str | None
    chat_kind: str | None
    lines: int
    size_bytes: int
    begun_at: datetime
    grown_at: datetime
    is_aside: bool


def transcript_rows(rows: Moment) -> list[TranscriptRow]:
    """All transcripts by name, including deleted ones."""
    return [TranscriptRow(*row) for row in rows.run(statements.TRANSCRIPTS)]


def delete_session(rows: Moment, session: StoredSession, at: datetime) -> str:
    """Removes a session from all lists. Returns the new name of its transcript; empty if it has none."""
    edit_lines(rows, lambda records: without_session(records, session.session_id))
    return _move_aside(rows, session.transcript, at) if session.transcript else ""


def apply_limits(
    rows: Moment,
    limits: MaintenanceLimits,
    *,
    ended: Mapping[str, StoredSession],
    at: datetime,
    main_key: str,
    active_keys: Collection[str],
    dry_run: bool,
) -> UpkeepReport:
    """Applies the limits, or reports what that would change; the caller removes what is `removed`.

    `ended` are transcripts that no key names.
    """
    now_ms = int(at.timestamp() * 1000)
    pruned: dict[str, SessionRecord] = {}

    def without_pruned(records: Mapping[str, SessionRecord]) -> dict[str, SessionRecord | None]:
        keys = lines_to_prune(records, limits, now_ms=now_ms, main_key=main_key, active_keys=active_keys)
        pruned.update({key: records[key] for key in keys})
        return dict.fromkeys(keys)

    if dry_run:
        without_pruned(all_lines(rows))
    else:
        edit_lines(rows, without_pruned)
    there = {row.name: row for row in transcript_rows(rows)}
    programs = [record for key, record in pruned.items() if key_kind(key) in SYNTHETIC_KINDS]
    names = [record.session_file or f"{record.session_id}.jsonl" for record in programs]
    aside = tuple(name for name in names if name in there and not there[name].is_aside)
    for name in () if dry_run else aside:
        _move_aside(rows, name, at)
    removed = files_to_remove(_files(rows, limits, ended), limits, now_ms=now_ms)
    return UpkeepReport(
        pruned_keys=tuple(pruned),
        moved_aside=aside,
        removed=tuple(file.name for file in removed),
        removed_bytes=sum(file.size_bytes for file in removed),
    )


def _files(rows: Moment, limits: MaintenanceLimits, ended: Mapping[str, StoredSession]) -> list[StoredFile]:
    if limits.most_bytes is None and limits.archive_retention_ms is None:
        return []
    results: dict[str, int] = dict(rows.run(statements.RESULT_BYTES))
    return [
        StoredFile(
            name=row.name,
            kind=file_kind(row.name, ended),
            size_bytes=row.size_bytes + results.get(row.name, 0),
            modified_ms=int(row.grown_at.timestamp() * 1000),
        )
        for row in transcript_rows(rows)
    ]


def _move_aside(rows: Moment, name: str, at: datetime) -> str:
    moved = rows.run(statements.MOVE_ASIDE, name=name, aside=aside_name(name, at), at=at)
    return str(moved[0][0]) if moved else ""


def rewrite(rows: Moment, *, name: str, change: Rewrite, dry_run: bool) -> bool:
    """Rewrites the lines and whole results of a transcript; returns whether anything changed."""
    is_changed = False
    for (transcript,) in rows.run(statements.HAS_TRANSCRIPT, name=name):
        for number, line in rows.run(statements.NUMBERED_LINES, transcript=transcript):
            old = bytes(line).removesuffix(b"\n")
            if (new := change.line(old)) == old:
                continue
            is_changed = True
            if not dry_run:
                rows.run(statements.SET_LINE, transcript=transcript, number=number, line=new + b"\n")
        for result, body in rows.run(statements.RESULTS, transcript=transcript):
            if (new := change.result(bytes(body))) == bytes(body):
                continue
            is_changed = True
            if not dry_run:
                rows.fenced(statements.KEEP_RESULT, lane=None, transcript=transcript, name=result, body=new)
    return is_changed


TAIL_LINES = 200
"""The number of final lines in which a person's last message is searched."""


class PostgresSessionStore:
    """Implements `SessionStore`, which documents the methods. `cwd` goes into the headers of new transcripts.

    All methods raise `SessionStoreRefused` if the database refuses or cannot be reached. Closing the store
    closes the database.
    """

    def __init__(
        self,
        database: Database,
        *,
        agent: str,
        cwd: str,
        now: Callable[[], datetime],
        new_id: Callable[[], str],
    ) -> None:
        self._rows = AgentRows(database, agent)
        self.index = LineRows(self._rows)
        self.ended_sessions = EndingRows(self._rows)
        self._cwd = cwd
        self._now = now
        self._new_id = new_id

    @property
    def place(self) -> str:
        return self._rows.place

    def transcript_name(self, record: SessionRecord) -> str:
        name = record.session_file or f"{record.session_id}.jsonl"
        if not is_transcript_name(name):
            raise SessionCorrupt(
                f"The session {record.session_id!r} has the invalid transcript name {name!r}. Remove the "
                "session."
            )
        return name

    async def has_transcript(self, record: SessionRecord) -> bool:
        try:
            name = self.transcript_name(record)
        except SessionCorrupt:
            return False
        if any(taken.name == name for taken in self._rows.taken.values()):
            return True
        found = await self._rows.single(lambda rows: rows.run(statements.HAS_TRANSCRIPT, name=name))
        return bool(found)

    async def transcript(self, record: SessionRecord, *, first: KnownBody | None = None) -> TranscriptRows:
        name = self.transcript_name(record)
        found = await self._rows.read(lambda rows: _whole(rows, name))
        is_new = found is None
        if found is None:
            at = self._now()
            header = SessionHeader(id=record.session_id, timestamp=timestamp_text(at), cwd=self._cwd)
            line = to_line(header_to_json(header))
            # Another process was faster and has created it.
            await self._rows.write(lambda rows: create_transcript(rows, name, [line], record.session_id, at))
            found = await self._rows.read(lambda rows: _whole(rows, name))
        if found is None:
            raise SessionCorrupt(f"The transcript {name} was removed while it was opened. Try again.")
        opened = await self._opened(name, *found)
        if first is not None and is_new and not opened.tree.entries:
            await opened.append(first, durable=False)
        return opened

    async def sessions(self, *, with_earlier: bool) -> list[StoredSession]:
        return await self._rows.read(lambda rows: self._listed(rows, with_earlier))

    async def last_messages(self, sessions: Iterable[StoredSession], *, most: int) -> list[LastMessage]:
        found: list[LastMessage] = []
        for session in sessions:
            if len(found) >= most:
                break
            if words := await self._rows.read(partial(_last_words, name=session.transcript)):
                found.append((session, words))
        return found

    async def transcripts(self) -> Sequence[TranscriptFacts]:
        return [
            TranscriptFacts(
                name=row.name,
                size_bytes=row.size_bytes,
                lines=row.lines,
                modified_ns=int(row.grown_at.timestamp() * 1000) * 1_000_000,
            )
            for row in await self._rows.read(transcript_rows)
            if not row.is_aside
        ]

    async def exported(self, name: str) -> bytes:
        found = await self._rows.read(lambda rows: _whole(rows, name))
        if found is None or not is_transcript_name(name):
            raise SessionNotFound(f"There is no transcript {name!r} in {self.place}.")
        return b"".join(found[1])

    async def whole_results(self, name: str) -> Mapping[str, bytes]:
        return await self._rows.read(partial(results_of, name=name))

    async def import_transcript(self, name: str, data: bytes, results: Mapping[str, bytes]) -> None:
        if not is_transcript_name(name):
            raise SessionCorrupt(f"{name!r} is not a valid name of a transcript, so it is not copied.")
        work = partial(import_lines, name=name, data=data, results=results, at=self._now())
        await self._rows.write(work)

    async def stored(self, session: StoredSession) -> StoredTranscript:
        name = session.transcript
        found = await self._rows.read(lambda rows: _whole(rows, name))
        if found is None:
            raise SessionNotFound(f"The transcript {name!r} of the session {session.session_id!r} is gone.")
        there = await self._opened(name, *found)
        return StoredTranscript(
            header=there.header, entries=tuple(there.tree.entries), branch=tuple(there.tree.branch())
        )

    async def delete(self, session: StoredSession) -> str:
        at = self._now()
        aside = await self._rows.write(lambda rows: delete_session(rows, session, at))
        return f"{self.place}, {aside}" if aside else ""

    async def maintain(
        self, limits: MaintenanceLimits, *, main_key: str, active_keys: Collection[str], dry_run: bool
    ) -> UpkeepReport:
        at = self._now()

        def work(rows: Moment, *, is_dry: bool) -> UpkeepReport:
            ended = {each.transcript: each for each in self._listed(rows, True) if not each.is_current}
            return apply_limits(
                rows, limits, ended=ended, at=at, main_key=main_key, active_keys=active_keys, dry_run=is_dry
            )

        report = await self._rows.read(partial(work, is_dry=True))  # usually there is nothing to do
        if dry_run or report.is_empty:
            return report
        report = await self._rows.write(partial(work, is_dry=False))
        for name in report.removed:  # one transaction each, so that none takes long
            await self._rows.single(partial(Moment.run, statement=statements.REMOVE_TRANSCRIPT, name=name))
        return report

    async def rewritten(
        self, change: Rewrite, *, but: Collection[str] = (), dry_run: bool
    ) -> tuple[str, ...]:
        run = self._rows.read if dry_run else self._rows.write
        listed = await self._rows.read(transcript_rows)
        names = [row.name for row in listed if row.session_id not in but]
        each = partial(rewrite, change=change, dry_run=dry_run)
        return tuple([name for name in names if await run(partial(each, name=name))])

    def fence(self, key: str) -> int | None:
        return self._rows.held.get(key)

    def turn_lock(self, key: str) -> AbstractAsyncContextManager[bool]:
        return Lane(self._rows, key, holder=self._new_id())

    async def close(self) -> None:
        await self._rows.database.close()

    async def _opened(self, name: str, head: Head, lines: Sequence[bytes]) -> TranscriptRows:
        def read() -> TranscriptRows:
            opened = TranscriptRows(self._rows, name, head, lines, now=self._now, new_id=self._new_id)
            # Reading a long session takes a while and must not block other sessions.
            opened.transcript()
            opened.sent()
            return opened

        return await asyncio.to_thread(read)

    def _listed(self, rows: Moment, with_earlier: bool) -> list[StoredSession]:
        lines = all_lines(rows)
        there = {row.name: row for row in transcript_rows(rows) if not row.is_aside}
        current = {record.session_id for record in lines.values()}
        named = {name: key for key, record in lines.items() for name in record.previous_session_ids}
        found = []
        for key, record in lines.items():
            try:
                name = self.transcript_name(record)
            except SessionCorrupt:
                name = ""
            found.append(self._session(key, record, name, there.get(name), is_current=True))
        for row in there.values() if with_earlier else ():
            if row.session_id not in current:
                found.append(self._earlier(row, named))
        return sorted(found, key=lambda session: session.active_at_ms, reverse=True)

    def _earlier(self, row: TranscriptRow, named: Mapping[str, str]) -> StoredSession:
        record = SessionRecord(
            session_id=row.session_id,
            updated_at_ms=int(row.grown_at.timestamp() * 1000),
            session_file=None if row.name == f"{row.session_id}.jsonl" else row.name,
            chat_type=row.chat_kind,
            session_started_at_ms=int(row.begun_at.timestamp() * 1000),
        )
        key = named.get(row.session_id) or row.owner_key or f"{RECOVERED}{row.session_id.lower()}"
        return self._session(key, record, row.name, row, is_current=False)

    def _session(
        self, key: str, record: SessionRecord, name: str, row: Any, *, is_current: bool
    ) -> StoredSession:
        return StoredSession(
            key=key,
            record=record,
            is_current=is_current,
            transcript=name,
            place=f"{self.place}, {name}" if name else "",
            size_bytes=row.size_bytes if row is not None else None,
        )


def _whole(rows: Moment, name: str) -> tuple[Head, list[bytes]] | None:
    head = head_of(rows, name)
    return (head, lines_from(rows, head)) if head is not None else None


def _last_words(rows: Moment, name: str) -> str:
    head = head_of(rows, name)
    if head is None:
        return ""
    lines = rows.run(statements.LAST_LINES, transcript=head.id, most=TAIL_LINES)
    read = (line for (data,) in lines for line in split_lines(bytes(data)))
    return last_message_text([line.value for line in read if line.value is not None])
