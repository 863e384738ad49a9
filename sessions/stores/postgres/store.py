"""The sessions of one agent in a PostgreSQL database. Edge.

Any number of processes, on any number of machines, may serve the same agent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from functools import partial
from typing import Any

from nacre.postgres.database import Database
from nacre.sessions.contracts.errors import SessionCorrupt, SessionNotFound
from nacre.sessions.contracts.keys import RECOVERED
from nacre.sessions.disk.json_text import split_lines, timestamp_text, to_line
from nacre.sessions.entries.entries import SessionHeader, StoredTranscript, header_to_json
from nacre.sessions.index.index import is_transcript_name
from nacre.sessions.index.record import SessionRecord
from nacre.sessions.stores.postgres import keeping, statements
from nacre.sessions.stores.postgres.bringing import brought_in, results_of
from nacre.sessions.stores.postgres.heads import Head, begin, head_of, lines_from
from nacre.sessions.stores.postgres.leases import LEASE_SECONDS, Lease
from nacre.sessions.stores.postgres.lines import LineRows, all_lines
from nacre.sessions.stores.postgres.rows import AgentRows, EndingRows, Moment
from nacre.sessions.stores.postgres.transcript import TranscriptRows
from nacre.sessions.stores.rewriting import Rewrite
from nacre.sessions.stores.store import LastMessage
from nacre.sessions.upkeep.maintenance import MaintenanceLimits, UpkeepReport
from nacre.sessions.upkeep.stored_session import StoredSession, TranscriptFacts, last_message_text

TAIL_LINES = 200
"""Among so many lines somebody's last words are looked for."""


class PostgresSessionStore:
    """A member of `SessionStore`. `cwd` goes into the headers of new transcripts.

    Each method raises `SessionStoreRefused` when the database cannot be reached, or refuses. Closing the
    store closes the database.
    """

    def __init__(
        self,
        database: Database,
        *,
        agent: str,
        cwd: str,
        now: Callable[[], datetime],
        new_id: Callable[[], str],
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        self._rows = AgentRows(database, agent)
        self.index = LineRows(self._rows)
        """Which session a key names."""
        self.ended_sessions = EndingRows(self._rows)
        """What is due for sessions that are over."""
        self._cwd = cwd
        self._now = now
        self._new_id = new_id
        self._lease_seconds = lease_seconds

    @property
    def place(self) -> str:
        """Which database and which agent."""
        return self._rows.place

    def transcript_name(self, record: SessionRecord) -> str:
        """What the transcript of a line's session is called. Raises `SessionCorrupt` when it can be none."""
        name = record.session_file or f"{record.session_id}.jsonl"
        if not is_transcript_name(name):
            raise SessionCorrupt(
                f"The session {record.session_id!r} names the transcript {name!r}, which is no name of one. "
                "Remove the session."
            )
        return name

    async def has_transcript(self, record: SessionRecord) -> bool:
        """Whether anything was kept of a line's session."""
        try:
            name = self.transcript_name(record)
        except SessionCorrupt:
            return False
        found = await self._rows.single(lambda rows: rows.run(statements.HAS_TRANSCRIPT, name=name))
        return bool(found)

    async def transcript(self, record: SessionRecord) -> TranscriptRows:
        """The transcript of a line's session; begun when there is none.

        Raises:
            SessionCorrupt: the line names something that cannot be its transcript.
            SessionVersionUnknown: a newer program wrote it.
        """
        name = self.transcript_name(record)
        found = await self._rows.read(lambda rows: _whole(rows, name))
        if found is None:
            at = self._now()
            header = SessionHeader(id=record.session_id, timestamp=timestamp_text(at), cwd=self._cwd)
            line = to_line(header_to_json(header))
            # Who was quicker has begun it.
            await self._rows.write(lambda rows: begin(rows, name, [line], record.session_id, at))
            found = await self._rows.read(lambda rows: _whole(rows, name))
        if found is None:
            raise SessionCorrupt(f"The transcript {name} was removed while it was opened. Try again.")
        return await self._opened(name, *found)

    async def sessions(self, *, with_earlier: bool) -> list[StoredSession]:
        """The sessions that keys name, and `with_earlier` those that they named before."""
        return await self._rows.read(lambda rows: self._listed(rows, with_earlier))

    async def last_messages(self, sessions: Iterable[StoredSession], *, most: int) -> list[LastMessage]:
        """What a person said last, from the ends of the transcripts, until `most` of them are found."""
        found: list[LastMessage] = []
        for session in sessions:
            if len(found) >= most:
                break
            if words := await self._rows.read(partial(_last_words, name=session.transcript)):
                found.append((session, words))
        return found

    async def transcripts(self) -> Sequence[TranscriptFacts]:
        """All transcripts by name."""
        return [
            TranscriptFacts(
                name=row.name,
                size_bytes=row.size_bytes,
                lines=row.lines,
                modified_ns=int(row.grown_at.timestamp() * 1000) * 1_000_000,
            )
            for row in await self._rows.read(keeping.transcript_rows)
            if not row.is_aside
        ]

    async def exported(self, name: str) -> bytes:
        """A transcript as JSON lines, byte for byte. Raises `SessionNotFound`."""
        found = await self._rows.read(lambda rows: _whole(rows, name))
        if found is None or not is_transcript_name(name):
            raise SessionNotFound(f"There is no transcript {name!r} in {self.place}.")
        return b"".join(found[1])

    async def whole_results(self, name: str) -> Mapping[str, bytes]:
        """The results of a transcript that are kept whole, by their names."""
        return await self._rows.read(partial(results_of, name=name))

    async def import_transcript(self, name: str, data: bytes, results: Mapping[str, bytes]) -> None:
        """Makes rows of another store's transcript. Raises `SessionCorrupt`; see `CopyableStore`."""
        if not is_transcript_name(name):
            raise SessionCorrupt(f"{name!r} is no name of a transcript here; it is not copied.")
        work = partial(brought_in, name=name, data=data, results=results, at=self._now())
        await self._rows.write(work)

    async def stored(self, session: StoredSession) -> StoredTranscript:
        """What a session's transcript says. Raises `SessionNotFound`."""
        name = session.transcript
        found = await self._rows.read(lambda rows: _whole(rows, name))
        if found is None:
            raise SessionNotFound(f"The transcript {name!r} of the session {session.session_id!r} is gone.")
        there = await self._opened(name, *found)
        return StoredTranscript(
            header=there.header, entries=tuple(there.tree.entries), branch=tuple(there.branch())
        )

    async def delete(self, session: StoredSession) -> str:
        """Takes a session away; its transcript keeps its rows under another name, which comes back."""
        at = self._now()
        aside = await self._rows.write(lambda rows: keeping.deleted(rows, session, at))
        return f"{self.place}, {aside}" if aside else ""

    async def maintain(
        self, limits: MaintenanceLimits, *, main_key: str, active_keys: Collection[str], dry_run: bool
    ) -> UpkeepReport:
        """Keeps lines and transcripts within limits, or says what that would take."""

        at = self._now()

        def work(rows: Moment, *, is_dry: bool) -> UpkeepReport:
            ended = {each.transcript: each for each in self._listed(rows, True) if not each.is_current}
            return keeping.kept_up(
                rows,
                limits,
                ended=ended,
                at=at,
                main_key=main_key,
                active_keys=active_keys,
                dry_run=is_dry,
            )

        report = await self._rows.read(partial(work, is_dry=True))  # mostly there is nothing to do
        if dry_run or report.is_empty:
            return report
        return await self._rows.write(partial(work, is_dry=False))

    async def rewritten(
        self, change: Rewrite, *, but: Collection[str] = (), dry_run: bool
    ) -> tuple[str, ...]:
        """Changes the rows of all transcripts and results, a transcript at a time; see `RewritableStore`."""
        run = self._rows.read if dry_run else self._rows.write
        listed = await self._rows.read(keeping.transcript_rows)
        names = [row.name for row in listed if row.session_id not in but]
        each = partial(keeping.rewritten, change=change, dry_run=dry_run)
        return tuple([name for name in names if await run(partial(each, name=name))])

    def fence(self, key: str) -> int | None:
        """The fence of the lane of a key, as this process last took it; `None` where it does not have it."""
        return self._rows.held.get(key)

    def turn_lock(self, key: str) -> AbstractAsyncContextManager[bool]:
        """Whether this caller alone may have a turn of the key until the block ends; never waits."""
        return Lease(self._rows, key, holder=self._new_id(), lease_seconds=self._lease_seconds)

    async def close(self) -> None:
        """Finishes what was asked for and closes the database."""
        await self._rows.database.close()

    async def _opened(self, name: str, head: Head, lines: Sequence[bytes]) -> TranscriptRows:
        def read() -> TranscriptRows:
            opened = TranscriptRows(self._rows, name, head, lines, now=self._now, new_id=self._new_id)
            # The first look at a long session takes a while, in which other sessions want their turns.
            opened.transcript()
            opened.sent()
            return opened

        return await asyncio.to_thread(read)

    def _listed(self, rows: Moment, with_earlier: bool) -> list[StoredSession]:
        lines = all_lines(rows)
        there = {row.name: row for row in keeping.transcript_rows(rows) if not row.is_aside}
        current = {record.session_id for record in lines.values()}
        named = {name: key for key, record in lines.items() for name in record.previous_session_ids}
        found = [self._current(key, record, there) for key, record in lines.items()]
        for row in there.values() if with_earlier else ():
            if row.session_id not in current:
                found.append(self._earlier(row, named))
        return sorted(found, key=lambda session: session.active_at_ms, reverse=True)

    def _current(
        self, key: str, record: SessionRecord, there: Mapping[str, keeping.TranscriptRow]
    ) -> StoredSession:
        try:
            name = self.transcript_name(record)
        except SessionCorrupt:
            name = ""
        return self._session(key, record, name, there.get(name), is_current=True)

    def _earlier(self, row: keeping.TranscriptRow, named: Mapping[str, str]) -> StoredSession:
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
