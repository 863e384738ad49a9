"""The sessions of one agent as rows: lines of the index, transcripts, whole results, and pending endings."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import count
from types import EllipsisType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from nacre.extensions.postgres import session_statements as statements
from nacre.extensions.postgres.server.connections import DatabaseError
from nacre.extensions.postgres.server.database import Database, TakenLane
from nacre.sessions.contracts.errors import (
    SessionCorrupt,
    SessionStoreRefused,
    SessionTakenOver,
    SessionVersionUnknown,
)
from nacre.sessions.contracts.keys import EndedSession, ended_from_json, ended_to_json
from nacre.sessions.contracts.messages import MAX_KEPT_CHARS, is_result_name
from nacre.sessions.disk.json_text import json_value, split_lines, timestamp_text, to_line
from nacre.sessions.entries.entries import (
    FORMAT_VERSION,
    CustomRecord,
    Entry,
    EntryLinker,
    EntryTree,
    KnownBody,
    SessionHeader,
    branch_copy,
    check_addable,
    entry_from_json,
    entry_to_json,
    header_from_json,
    rewind_body,
    session_owner,
)
from nacre.sessions.index.record import RecordChange, SessionRecord, record_from_json, record_to_json
from nacre.sessions.view.sent_view import BranchViews, SentView
from nacre.sessions.view.transcript import TranscriptItem

if TYPE_CHECKING:
    from nacre.extensions.postgres.server.connections import Connection


T = TypeVar("T")


class Moment:
    """One transaction over the rows of one agent."""

    def __init__(self, connection: Connection, agent: str, held: Mapping[str, int]) -> None:
        self._connection = connection
        self._agent = agent
        self._held = held

    def run(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        cursor = self._connection.execute(statement, {"agent": self._agent, **values})
        return cursor.fetchall() if cursor.description else []

    def run_many(self, statement: str, values: list[dict[str, Any]]) -> None:
        """Runs a statement without a result for several values."""
        with self._connection.cursor() as cursor:
            cursor.executemany(statement, [{"agent": self._agent, **each} for each in values])

    def fenced(self, statement: str, *, lane: str | None, **values: Any) -> list[tuple[Any, ...]]:
        """Runs a statement that checks this process's fence of the lane, if any, and returns its rows.

        Raises:
            SessionTakenOver: another process has taken the lane; nothing is written.
        """
        fence = self._held.get(lane) if lane is not None else None
        rows = self.run(statement, lane=lane, fence=fence, **values)
        if not rows and fence is not None and not self.run(statements.FENCE_HOLDS, lane=lane, fence=fence):
            raise SessionTakenOver(
                f"Another process has taken over the session {lane!r}, because this one sent no heartbeat "
                "for a while. Nothing was written."
            )
        return rows


class AgentRows:
    """The rows of one agent.

    `held` has the fences of the lanes that this process holds. `taken` has the rows that were read with a
    lane, until they are used or something is written.
    """

    def __init__(self, database: Database, agent: str) -> None:
        self.database = database
        self.agent = agent
        self.held: dict[str, int] = {}
        self.taken: dict[str, TakenLane] = {}
        self.lines: dict[str, str | None] = {}
        """The lines of held lanes as last read or written, so that a replacement needs no read."""

    @property
    def place(self) -> str:
        """The database and the agent, for people."""
        return f"{self.database.place}, agent {self.agent!r}"

    async def read(self, work: Callable[[Moment], T]) -> T:
        """Returns the result of `work`, which reads a consistent snapshot. Raises `SessionStoreRefused`."""
        return await self._run(self.database.read, work)

    async def write(self, work: Callable[[Moment], T]) -> T:
        """Commits `work` and returns its result. It may be called again, so it must only change rows.

        Raises:
            SessionStoreRefused: the database refused or cannot be reached.
        """
        return await self._run(self.database.write, work)

    async def single(self, work: Callable[[Moment], T]) -> T:
        """Like `write`, for `work` with a single idempotent statement."""
        return await self._run(self.database.single, work)

    async def _run(self, run: Callable[..., Any], work: Callable[[Moment], T]) -> T:
        try:
            result: T = await run(lambda db: work(Moment(db, self.agent, self.held)))
        except DatabaseError as error:
            raise SessionStoreRefused(str(error)) from error
        return result


class EndingRows:
    """The unfinished endings of sessions. All methods raise `SessionStoreRefused`."""

    def __init__(self, rows: AgentRows) -> None:
        self._rows = rows

    async def put(self, ended: EndedSession) -> None:
        body = json.dumps(ended_to_json(ended))
        await self._rows.write(lambda rows: rows.run(statements.PUT_ENDING, body=body, **_place(ended)))

    async def remove(self, ended: EndedSession) -> None:
        await self._rows.write(lambda rows: rows.run(statements.REMOVE_ENDING, **_place(ended)))

    async def has(self, ended: EndedSession) -> bool:
        return bool(await self._rows.single(lambda rows: rows.run(statements.HAS_ENDING, **_place(ended))))

    async def all(self) -> tuple[EndedSession, ...]:
        """The unfinished endings, oldest first, except those that a newer program wrote."""
        found = await self._rows.single(lambda rows: rows.run(statements.ENDINGS))
        return tuple(ended for (body,) in found if (ended := ended_from_json(body.encode())) is not None)


def _place(ended: EndedSession) -> dict[str, Any]:
    return {"ended_at_ms": ended.ended_at_ms, "session_id": ended.session_id}


class Head(NamedTuple):
    """A transcript's own row. `lane` is the session key whose lane it belongs to, if known."""

    id: Any
    lines: int
    size_bytes: int
    lane: str | None


def head_of(rows: Moment, name: str) -> Head | None:
    found = rows.run(statements.HEAD, name=name)
    return Head(*found[0]) if found else None


def lines_from(rows: Moment, head: Head, number: int = 0) -> list[bytes]:
    """The lines of a transcript, beginning at a number."""
    return [bytes(line) for (line,) in rows.run(statements.LINES_FROM, transcript=head.id, number=number)]


def create_transcript(rows: Moment, name: str, lines: Sequence[bytes], session_id: str, at: datetime) -> Any:
    """Creates a transcript from lines, the header first. Returns its id, or `None` if the name exists."""
    owner_key, chat_kind = next((owner for owner in map(owner_of, lines[1:]) if owner[0]), (None, None))
    made = rows.run(
        statements.BEGIN_TRANSCRIPT,
        name=name,
        session_id=session_id,
        owner_key=owner_key,
        chat_kind=chat_kind,
        lines=len(lines),
        size_bytes=sum(map(len, lines)),
        at=at,
    )
    if not made:
        return None
    each = [{"transcript": made[0][0], "number": number, "line": line} for number, line in enumerate(lines)]
    rows.run_many(statements.ADD_LINE, each)
    return made[0][0]


def owner_of(line: bytes) -> tuple[str | None, str | None]:
    """The session key and chat kind in a line, if it is an owner record."""
    values = [read.value for read in split_lines(line) if read.value is not None]
    owner = session_owner(entry_from_json(values[0])) if values else None
    return (owner.key or None, owner.chat_kind) if owner is not None else (None, None)


_Parent: TypeAlias = str | EllipsisType | None
Change: TypeAlias = Callable[[Mapping[str, SessionRecord]], Mapping[str, SessionRecord | None]]


class LineRows:
    """Implements `SessionRecords`, which documents the methods. All raise `SessionStoreRefused`."""

    notices: tuple[str, ...] = ()
    """Always empty, because a database needs no repairs."""

    def __init__(self, rows: AgentRows) -> None:
        self._rows = rows

    async def get(self, key: str) -> SessionRecord | None:
        taken = self._rows.taken.get(key)
        if taken is not None:
            return _record(taken.line)
        return _record(await self._rows.single(lambda rows: _line(rows, key)))

    async def all(self) -> dict[str, SessionRecord]:
        return await self._rows.single(all_lines)

    async def recover(self, key: str) -> SessionRecord | None:
        """The line of a key. There is nothing to recover: lines and transcripts are committed together."""
        return await self.get(key)

    async def update(
        self,
        key: str,
        change: Callable[[SessionRecord | None], SessionRecord | None],
        *,
        durable: bool = True,  # noqa: ARG002 - each commit is
    ) -> SessionRecord | None:
        """Replaces a line with `change(line)`, where `None` means no line, and returns the new one.

        Raises:
            SessionTakenOver: another process has taken the key's lane from this one.
        """

        known = self._rows.lines
        while True:
            is_known, old = key in known, known.pop(key, None)
            if not is_known:
                old = await self._rows.single(lambda rows: _line(rows, key))
            present = _record(old)
            record = change(present)
            if record == present:
                return record
            line = _text(record)
            replacing = partial(_replace_line, tries=count(), key=key, record=record, line=line, old=old)
            self._rows.taken.pop(key, None)
            if await self._rows.single(replacing):
                if key in self._rows.held:
                    known[key] = line
                return record

    async def flush(self) -> None:
        """Does nothing: each commit is durable."""

    async def mirror(self, key: str, change: RecordChange) -> SessionRecord | None:
        return await self.update(key, lambda record: None if record is None else change(record))

    async def edit(self, change: Change) -> Mapping[str, SessionRecord | None]:
        return await self._rows.write(lambda rows: edit_lines(rows, change))


def edit_lines(rows: Moment, change: Change) -> Mapping[str, SessionRecord | None]:
    """Applies `change` to all lines within a transaction and returns its result."""
    rows.run(statements.LOCK_LINES)
    there = dict(rows.run(statements.LINES))
    changed = change(_readable(there))
    for key, record in changed.items():
        _replace_line(rows, tries=count(), key=key, record=record, line=_text(record), old=there.get(key))
    return changed


def _replace_line(
    rows: Moment,
    *,
    tries: count[int],
    key: str,
    record: SessionRecord | None,
    line: str | None,
    old: str | None,
) -> bool:
    """Replaces a line that is still `old`. Returns whether this or an earlier, unanswered attempt did."""
    is_again = next(tries) > 0
    if record is None:
        done = rows.fenced(statements.REMOVE_LINE, lane=key, key=key, old=old)
    else:
        values = {"session_id": record.session_id, "line": line, "old": old}
        done = rows.fenced(statements.REPLACE_LINE, lane=key, key=key, **values)
    return bool(done) or (is_again and _line(rows, key) == line)


def _line(rows: Moment, key: str) -> str | None:
    found = rows.run(statements.LINE, key=key)
    return found[0][0] if found else None


def all_lines(rows: Moment) -> dict[str, SessionRecord]:
    return _readable(dict(rows.run(statements.LINES)))


def _readable(lines: Mapping[str, str]) -> dict[str, SessionRecord]:
    found = ((key, _record(line)) for key, line in lines.items())
    return {key: record for key, record in found if record is not None}


def _text(record: SessionRecord | None) -> str | None:
    return None if record is None else to_line(record_to_json(record)).decode().rstrip("\n")


def _record(line: str | None) -> SessionRecord | None:
    return None if line is None else record_from_json(json_value(line.encode()))


class ResultRows:
    """The whole results of one transcript."""

    def __init__(self, rows: AgentRows, head: Callable[[], Head]) -> None:
        self._rows = rows
        self._head = head

    async def keep(self, name: str, text: str) -> None:
        if not is_result_name(name):
            raise ValueError(f"{name!r} is not a valid name of a result")
        body, head = text[:MAX_KEPT_CHARS].encode("utf-8", "replace"), self._head()
        await self._rows.write(
            lambda rows: rows.fenced(
                statements.KEEP_RESULT, lane=head.lane, transcript=head.id, name=name, body=body
            )
        )

    async def read(self, name: str) -> str | None:
        if not is_result_name(name):
            return None
        found = await self._rows.read(
            lambda rows: rows.run(statements.RESULT, transcript=self._head().id, name=name)
        )
        return bytes(found[0][0]).decode("utf-8", "replace") if found else None


class TranscriptRows:
    """Implements `Transcript`, which documents the methods, for any number of objects and processes.

    Methods that query the database raise `SessionStoreRefused`, or `SessionCorrupt` if the transcript is
    gone. Methods that add something raise `SessionTakenOver` if another process has taken the session's lane.
    """

    def __init__(
        self,
        rows: AgentRows,
        name: str,
        head: Head,
        lines: Sequence[bytes],
        *,
        now: Callable[[], datetime],
        new_id: Callable[[], str],
    ) -> None:
        self.name = name
        self.place = f"{rows.place}, {name}"
        self.results = ResultRows(rows, lambda: self._head)
        self.header = _header(lines[0], self.place)
        self.size_bytes = 0
        self._rows = rows
        self._head = head
        self._now = now
        self._new_id = new_id
        self.views = BranchViews()
        self._linker = EntryLinker(self.header.id)
        self._known = 0
        self._in_order = asyncio.Lock()
        self.notices: tuple[str, ...] = ()
        self._take(lines)

    @property
    def tree(self) -> EntryTree:
        return self._linker.tree

    def transcript(self) -> tuple[TranscriptItem, ...]:
        return self.views.transcript(self.tree)

    def sent(self) -> SentView:
        return self.views.sent(self.tree)

    async def refresh(self) -> bool:
        async with self._in_order:
            return await self._caught_up()

    async def append(
        self,
        body: KnownBody,
        *,
        durable: bool = True,  # noqa: ARG002 - each is
        mirror: RecordChange | None = None,
    ) -> Entry:
        check_addable(body, self.tree)
        return await self._added(body, mirror=mirror)

    async def append_custom(self, custom_type: str, data: Any, *, durable: bool = True) -> Entry:
        return await self.append(CustomRecord(custom_type=custom_type, data=data), durable=durable)

    async def rewind(self, leaf_id: str | None, *, summary: str = "") -> Entry:
        return await self._added(rewind_body(self.tree, leaf_id, summary), parent_id=leaf_id)

    async def fork(self, name: str, *, session_id: str, leaf_id: str | None) -> None:
        await self.refresh()
        at = self._now()
        header = SessionHeader(
            id=session_id, timestamp=timestamp_text(at), cwd=self.header.cwd, parent_session=self.name
        )

        def work(rows: Moment) -> None:
            whole = b"".join(lines_from(rows, self._head)[: self._known])
            copy = branch_copy(
                split_lines(whole), self.tree, source_id=self.header.id, leaf_id=leaf_id, header=header
            )
            made = create_transcript(rows, name, list(map(to_line, copy)), session_id, at)
            if made is None:
                raise SessionCorrupt(f"A transcript {name!r} already exists, so nothing was copied to it.")
            rows.run(statements.COPY_RESULTS, transcript=self._head.id, copy=made)

        await self._rows.write(work)

    async def _added(
        self, body: KnownBody, parent_id: _Parent = ..., mirror: RecordChange | None = None
    ) -> Entry:
        """Appends an entry after those that others have added. Concurrent calls keep their order."""
        async with self._in_order:
            while True:
                entry = Entry(
                    id=self._linker.unused_id(self._new_id),
                    parent_id=self.tree.leaf_id if parent_id is ... else parent_id,
                    timestamp=timestamp_text(self._now()),
                    body=body,
                )
                line = to_line(entry_to_json(entry))
                if await self._is_added(line, mirror):
                    self._linker.add(entry)
                    self._known += 1
                    self.size_bytes += len(line)
                    return entry
                await self._caught_up()

    async def _caught_up(self) -> bool:
        """Reads entries that others added; returns whether there were any."""
        head = self._head_taken() or await self._rows.single(lambda rows: head_of(rows, self.name))
        if head is not None and head.id == self._head.id and head.lines <= self._known:
            self._head = head
            return False
        self._head, fresh = await self._rows.read(self._others)
        self._take(fresh)
        return bool(fresh)

    def _head_taken(self) -> Head | None:
        """The rows that were read with the lane, for their first use."""
        lane = self._head.lane or ""
        taken = self._rows.taken.get(lane)
        if taken is None or taken.name != self.name or taken.lines is None or taken.size_bytes is None:
            return None
        del self._rows.taken[lane]
        return Head(id=taken.id, lines=taken.lines, size_bytes=taken.size_bytes, lane=lane)

    async def _is_added(self, line: bytes, mirror: RecordChange | None) -> bool:
        owner_key, chat_kind = owner_of(line)
        number, head, at = self._known, self._head, self._now()
        lane, old, new = head.lane or "", None, None
        self._rows.taken.pop(lane, None)
        if mirror and (record := _record(old := self._rows.lines.pop(lane, None))):
            new = _text(mirror(record))

        def work(rows: Moment) -> bool:
            added = rows.fenced(
                statements.APPEND_LINE,
                lane=head.lane,
                name=self.name,
                transcript=head.id,
                number=number,
                line=line,
                at=at,
                owner_key=owner_key,
                chat_kind=chat_kind,
                old=old if new else None,
                new=new,
            )
            if added and added[0][1] and lane in self._rows.held:
                self._rows.lines[lane] = new
            # An earlier attempt whose answer was lost may have added it.
            found = added or rows.run(statements.LINE_AT, transcript=head.id, number=number)
            return bool(added) or (bool(found) and bytes(found[0][0]) == line)

        return await self._rows.single(work)

    def _others(self, rows: Moment) -> tuple[Head, list[bytes]]:
        head = head_of(rows, self.name)
        if head is None or head.id != self._head.id:
            raise SessionCorrupt(f"{self.place} no longer exists. Begin a new session.")
        return head, lines_from(rows, head, self._known) if head.lines > self._known else []

    def _take(self, lines: Iterable[bytes]) -> None:
        for data in lines:
            for line in split_lines(data, offset_bytes=self.size_bytes):
                if line.value is None:
                    self._linker.skip_unreadable()
                elif line.value["type"] != "session":
                    self._linker.read(line.value, offset_bytes=line.start)
            self.size_bytes += len(data)
            self._known += 1
        self.notices += tuple(self._linker.notices)
        self._linker.notices.clear()


def _header(line: bytes, place: str) -> SessionHeader:
    header = None
    with suppress(ValueError, RecursionError):
        raw = json_value(line)
        header = header_from_json(raw) if isinstance(raw, dict) else None
    if header is None:
        raise SessionCorrupt(f"{place} does not begin with a header; it was left as it is.")
    if header.version > FORMAT_VERSION:
        raise SessionVersionUnknown(
            f"{place} has format version {header.version}; this program reads up to {FORMAT_VERSION}. "
            "Use a newer Nacre for it. It was left as it is."
        )
    return header
