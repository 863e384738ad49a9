"""One transcript as rows, a line each. Edge.

What is in memory follows what was committed: an object never knows more than the database.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from types import EllipsisType
from typing import Any, TypeVar

from nacre.sessions.contracts.errors import SessionCorrupt, SessionVersionUnknown
from nacre.sessions.disk.json_text import Line, json_value, split_lines, timestamp_text, to_line
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
    entry_to_json,
    header_from_json,
    rewind_body,
)
from nacre.sessions.stores.postgres import statements
from nacre.sessions.stores.postgres.heads import Head, begin, head_of, lines_from, owner_of
from nacre.sessions.stores.postgres.results import ResultRows
from nacre.sessions.stores.postgres.rows import AgentRows, Moment
from nacre.sessions.view.sent_view import BranchViews, SentView
from nacre.sessions.view.transcript import TranscriptItem

T = TypeVar("T")


class TranscriptRows:
    """One transcript. Any number of objects, in one process or many, may share it.

    Each method that asks the database raises `SessionStoreRefused`; each that adds something raises
    `SessionTakenOver` when this process had the session's lane and another has it by now.
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
        self._views = BranchViews()
        self._linker = EntryLinker(self.header.id)
        self._known = 0
        self._in_order = asyncio.Lock()
        self.notices: tuple[str, ...] = ()
        self._take(lines)

    @property
    def tree(self) -> EntryTree:
        """All entries."""
        return self._linker.tree

    def branch(self, leaf_id: str | None = None) -> Sequence[Entry]:
        """The entries from the root to the newest, or to `leaf_id`; `ValueError` if that is none."""
        return self.tree.branch(leaf_id)

    def transcript(self) -> tuple[TranscriptItem, ...]:
        """What a model is to see of the branch."""
        return self._views.transcript(self.tree)

    def sent(self) -> SentView:
        """What models are sent of that, brought up to the branch by this call."""
        return self._views.sent(self.tree)

    def cached(self, make: Callable[[], T]) -> T:
        """What `make` made for this object when it was first asked for."""
        return self._views.cached(make)

    async def refresh(self) -> bool:
        """Reads what others added; whether there was anything. Raises `SessionCorrupt` if it is gone."""
        async with self._in_order:
            return await self._caught_up()

    async def append(self, body: KnownBody) -> Entry:
        """Adds an entry behind the newest. Raises `ValueError` as `check_addable`."""
        check_addable(body, self.tree)
        return await self._added(body)

    async def append_custom(self, custom_type: str, data: Any) -> Entry:
        """Adds a program's own record."""
        return await self.append(CustomRecord(custom_type=custom_type, data=data))

    async def rewind(self, leaf_id: str | None, *, summary: str = "") -> Entry:
        """Goes back to an entry, or to the beginning. Raises `ValueError` if there is no such entry."""
        return await self._added(rewind_body(self.tree, leaf_id, summary), parent_id=leaf_id)

    async def fork(self, name: str, *, session_id: str, leaf_id: str | None) -> None:
        """Makes a transcript `name` of the branch to `leaf_id`, with the whole results that there are.

        Raises:
            ValueError: there is no entry of that id.
            SessionCorrupt: there is a transcript of that name already.
        """
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
            made = begin(rows, name, list(map(to_line, copy)), session_id, at)
            if made is None:
                raise SessionCorrupt(f"There is a transcript {name!r} already, so nothing was copied to it.")
            rows.run(statements.COPY_RESULTS, transcript=self._head.id, copy=made)

        await self._rows.write(work)

    async def _added(self, body: KnownBody, *, parent_id: str | EllipsisType | None = ...) -> Entry:
        """Adds an entry behind what others added meanwhile; several calls in their order."""
        async with self._in_order:
            while True:
                entry, line = self._next(body, parent_id)
                if await self._is_added(line):
                    self._linker.add(entry)
                    self._known += 1
                    self.size_bytes += len(line)
                    return entry
                await self._caught_up()

    def _next(self, body: KnownBody, parent_id: str | EllipsisType | None) -> tuple[Entry, bytes]:
        entry = Entry(
            id=self._linker.unused_id(self._new_id),
            parent_id=self.tree.leaf_id if parent_id is ... else parent_id,
            timestamp=timestamp_text(self._now()),
            body=body,
        )
        return entry, to_line(entry_to_json(entry))

    async def _caught_up(self) -> bool:
        """Reads what others added since; whether there was anything."""
        self._head, fresh = await self._rows.read(self._others)
        self._take(fresh)
        return bool(fresh)

    async def _is_added(self, line: bytes) -> bool:
        owner_key, chat_kind = owner_of(line)
        number, head, at = self._known, self._head, self._now()

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
            )
            return bool(added)

        return await self._rows.write(work)

    def _others(self, rows: Moment) -> tuple[Head, list[bytes]]:
        head = head_of(rows, self.name)
        if head is None or head.id != self._head.id:
            raise SessionCorrupt(f"{self.place} was there and cannot be found any more. Begin a new session.")
        return head, lines_from(rows, head, self._known) if head.lines > self._known else []

    def _take(self, lines: Iterable[bytes]) -> None:
        for data in lines:
            for line in split_lines(data, offset_bytes=self.size_bytes):
                self._read(line)
            self.size_bytes += len(data)
            self._known += 1
        self.notices += tuple(self._linker.notices)
        self._linker.notices.clear()

    def _read(self, line: Line) -> None:
        if line.value is None:
            self._linker.skip_unreadable()
        elif line.value["type"] != "session":
            self._linker.read(line.value, offset_bytes=line.start)


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
