"""A store without a file: what keeps the suite, and the contract, from asking for what only files have."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from nacre.sessions.contracts.errors import SessionCorrupt, SessionNotFound
from nacre.sessions.contracts.keys import EndedSession
from nacre.sessions.contracts.messages import UserMessage, message_text
from nacre.sessions.disk.json_text import timestamp_text
from nacre.sessions.entries.entries import KnownBody, SessionHeader, StoredTranscript, session_owner
from nacre.sessions.index.record import SessionRecord
from nacre.sessions.stores.store import LastMessage
from nacre.sessions.upkeep.maintenance import MaintenanceLimits, UpkeepReport, lines_to_prune
from nacre.sessions.upkeep.stored_session import StoredSession, TranscriptFacts
from tests.sessions.stores.remembered_transcript import Everything, Kept, RememberedTranscript, json_lines

Change = Callable[[Mapping[str, SessionRecord]], Mapping[str, SessionRecord | None]]


class RememberedLines:
    """The lines of an `Everything`."""

    notices: tuple[str, ...] = ()

    def __init__(self, everything: Everything) -> None:
        self._everything = everything

    async def get(self, key: str) -> SessionRecord | None:
        return self._everything.lines.get(key)

    async def all(self) -> dict[str, SessionRecord]:
        return dict(self._everything.lines)

    async def recover(self, key: str) -> SessionRecord | None:
        return self._everything.lines.get(key)

    async def update(
        self,
        key: str,
        change: Callable[[SessionRecord | None], SessionRecord | None],
        *,
        durable: bool = True,
    ) -> SessionRecord | None:
        return (await self.edit(lambda lines: {key: change(lines.get(key))}))[key]

    async def flush(self) -> None:
        """Does nothing."""

    async def mirror(
        self, key: str, change: Callable[[SessionRecord], SessionRecord]
    ) -> SessionRecord | None:
        return await self.update(key, lambda record: None if record is None else change(record))

    async def edit(self, change: Change) -> Mapping[str, SessionRecord | None]:
        changed = change(dict(self._everything.lines))
        for key, record in changed.items():
            if record is None:
                self._everything.lines.pop(key, None)
            else:
                self._everything.lines[key] = record
        return changed


class RememberedEndings:
    """The endings of an `Everything`."""

    def __init__(self, everything: Everything) -> None:
        self._due = everything.endings

    async def put(self, ended: EndedSession) -> None:
        self._due[ended.ended_at_ms, ended.session_id] = ended

    async def remove(self, ended: EndedSession) -> None:
        self._due.pop((ended.ended_at_ms, ended.session_id), None)

    async def has(self, ended: EndedSession) -> bool:
        return (ended.ended_at_ms, ended.session_id) in self._due

    async def all(self) -> tuple[EndedSession, ...]:
        return tuple(self._due[at] for at in sorted(self._due))


class RememberedStore:
    """A `SessionStore` over an `Everything`."""

    def __init__(self, everything: Everything) -> None:
        self._everything = everything
        self.index = RememberedLines(everything)
        self.ended_sessions = RememberedEndings(everything)
        self.place = "memory"

    def transcript_name(self, record: SessionRecord) -> str:
        name = record.session_file or record.session_id
        if "/" in name:
            raise SessionCorrupt(f"The line names {name!r}, which is no transcript.")
        return name

    async def has_transcript(self, record: SessionRecord) -> bool:
        return (record.session_file or record.session_id) in self._everything.transcripts

    async def transcript(
        self, record: SessionRecord, *, first: KnownBody | None = None
    ) -> RememberedTranscript:
        name = self.transcript_name(record)
        if name not in self._everything.transcripts:
            stamp = timestamp_text(self._everything.now())
            header = SessionHeader(id=record.session_id, timestamp=stamp, cwd="")
            self._everything.transcripts[name] = Kept(header)
            if first is not None:
                await RememberedTranscript(self._everything, name).append(first, durable=False)
        return RememberedTranscript(self._everything, name)

    async def sessions(self, *, with_earlier: bool) -> list[StoredSession]:
        lines, found = self._everything.lines, []
        named = {old: key for key, record in lines.items() for old in record.previous_session_ids}
        current = {record.session_id for record in lines.values()}
        for key, record in lines.items():
            found.append(self._listed(key, record, is_current=True))
        for name, kept in self._everything.transcripts.items() if with_earlier else ():
            if kept.header.id not in current:
                owner = next(filter(None, map(session_owner, kept.entries)), None)
                key = named.get(kept.header.id) or (owner and owner.key) or f"recovered:{kept.header.id}"
                record = SessionRecord(session_id=kept.header.id, updated_at_ms=0, session_file=name)
                found.append(self._listed(key, record, is_current=False))
        return sorted(found, key=lambda session: session.active_at_ms, reverse=True)

    async def last_messages(self, sessions: Iterable[StoredSession], *, most: int) -> list[LastMessage]:
        found = []
        for session in sessions:
            kept = self._everything.transcripts.get(session.transcript)
            said = [entry.body for entry in kept.entries] if kept is not None else []
            words = [message_text(body) for body in said if isinstance(body, UserMessage)]
            if words:
                found.append((session, words[-1]))
        return found[:most]

    async def transcripts(self) -> Sequence[TranscriptFacts]:
        return [
            TranscriptFacts(name=name, size_bytes=len(data), lines=data.count(b"\n"), modified_ns=0)
            for name, kept in sorted(self._everything.transcripts.items())
            for data in [json_lines(kept)]
        ]

    async def exported(self, name: str) -> bytes:
        if name not in self._everything.transcripts:
            raise SessionNotFound(f"There is no transcript {name!r}.")
        return json_lines(self._everything.transcripts[name])

    async def stored(self, session: StoredSession) -> StoredTranscript:
        open_one = await self.transcript(session.record)
        entries = tuple(open_one.tree.entries)
        return StoredTranscript(header=open_one.header, entries=entries, branch=tuple(open_one.tree.branch()))

    async def delete(self, session: StoredSession) -> str:
        for key, record in dict(self._everything.lines).items():
            left = tuple(old for old in record.previous_session_ids if old != session.session_id)
            self._everything.lines[key] = replace(record, previous_session_ids=left)
            if record.session_id == session.session_id:
                del self._everything.lines[key]
        gone = self._everything.transcripts.pop(session.transcript, None)
        return f"memory:deleted:{session.transcript}" if gone is not None else ""

    async def maintain(
        self, limits: MaintenanceLimits, *, main_key: str, active_keys: Collection[str], dry_run: bool
    ) -> UpkeepReport:
        now_ms = int(self._everything.now().timestamp() * 1000)
        lines = self._everything.lines
        keys = lines_to_prune(lines, limits, now_ms=now_ms, main_key=main_key, active_keys=active_keys)
        for key in () if dry_run else keys:
            del lines[key]
        return UpkeepReport(pruned_keys=tuple(keys))

    @asynccontextmanager
    async def turn_lock(self, key: str) -> AsyncIterator[bool]:
        if key in self._everything.lanes:
            yield False
            return
        self._everything.lanes.add(key)
        try:
            yield True
        finally:
            self._everything.lanes.discard(key)

    async def close(self) -> None:
        await asyncio.sleep(0)

    def _listed(self, key: str, record: SessionRecord, *, is_current: bool) -> StoredSession:
        name = self.transcript_name(record)
        kept = self._everything.transcripts.get(name)
        return StoredSession(
            key=key,
            record=record,
            is_current=is_current,
            transcript=name,
            place=f"memory:{name}",
            size_bytes=len(json_lines(kept)) if kept is not None else None,
        )
