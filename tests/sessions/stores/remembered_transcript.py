"""Transcripts without a file, and what all open stores share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeVar

from nacre.sessions.contracts.errors import SessionCorrupt
from nacre.sessions.contracts.keys import EndedSession
from nacre.sessions.contracts.messages import MAX_KEPT_CHARS, is_result_name
from nacre.sessions.disk.json_text import timestamp_text, to_line
from nacre.sessions.entries.entries import (
    BranchSummary,
    CustomRecord,
    Entry,
    EntryTree,
    KnownBody,
    SessionHeader,
    entry_to_json,
    header_to_json,
)
from nacre.sessions.index.record import SessionRecord
from nacre.sessions.view.sent_view import BranchViews, SentView
from nacre.sessions.view.transcript import TranscriptItem

T = TypeVar("T")


@dataclass
class Kept:
    """One transcript: what a database would hold in rows."""

    header: SessionHeader
    entries: list[Entry] = field(default_factory=list)
    results: dict[str, str] = field(default_factory=dict)


@dataclass
class Everything:
    """What all open stores see; `now` and `new_id` are the database's own."""

    now: Callable[[], datetime]
    new_id: Callable[[], str]
    lines: dict[str, SessionRecord] = field(default_factory=dict)
    transcripts: dict[str, Kept] = field(default_factory=dict)
    endings: dict[tuple[int, str], EndedSession] = field(default_factory=dict)
    lanes: set[str] = field(default_factory=set)


class RememberedResults:
    """The whole results of one transcript."""

    def __init__(self, results: dict[str, str]) -> None:
        self._results = results

    async def keep(self, name: str, text: str) -> None:
        if not is_result_name(name):
            raise ValueError(f"{name!r} is no name for a result")
        self._results[name] = text[:MAX_KEPT_CHARS]

    async def read(self, name: str) -> str | None:
        return self._results.get(name)


class RememberedTranscript:
    """One transcript, open: its tree follows the rows."""

    notices: tuple[str, ...] = ()

    def __init__(self, everything: Everything, name: str) -> None:
        self.name = name
        self.place = f"memory:{name}"
        self._everything = everything
        self._kept = everything.transcripts[name]
        self.views = BranchViews()
        self.tree = EntryTree()
        self.header = self._kept.header
        self.results = RememberedResults(self._kept.results)
        self._follow()

    @property
    def size_bytes(self) -> int:
        return len(json_lines(self._kept))

    def transcript(self) -> tuple[TranscriptItem, ...]:
        return self.views.transcript(self.tree)

    def sent(self) -> SentView:
        return self.views.sent(self.tree)

    async def refresh(self) -> bool:
        return self._follow()

    async def append(self, body: KnownBody, *, durable: bool = True, mirror: object = None) -> Entry:
        self._follow()
        return self._added(body, self.tree.leaf_id)

    async def append_custom(self, custom_type: str, data: Any, *, durable: bool = True) -> Entry:
        return await self.append(CustomRecord(custom_type=custom_type, data=data), durable=durable)

    async def rewind(self, leaf_id: str | None, *, summary: str = "") -> Entry:
        self.tree.branch(leaf_id)
        body: KnownBody = CustomRecord(custom_type="nacre.rewind", data={"leftAt": self.tree.leaf_id})
        if summary.strip():
            body = BranchSummary(from_id=leaf_id or "root", summary=summary)
        return self._added(body, leaf_id)

    async def fork(self, name: str, *, session_id: str, leaf_id: str | None) -> None:
        entries = list(self.tree.branch(leaf_id)) if leaf_id is not None else []
        if name in self._everything.transcripts:
            raise SessionCorrupt(f"There is a transcript {name!r} already.")
        header = replace(self.header, id=session_id, parent_session=self.name)
        self._everything.transcripts[name] = Kept(header, entries, dict(self._kept.results))

    def _added(self, body: KnownBody, parent_id: str | None) -> Entry:
        stamp = timestamp_text(self._everything.now())
        entry = Entry(id=self._everything.new_id(), parent_id=parent_id, timestamp=stamp, body=body)
        self._kept.entries.append(entry)
        self._follow()
        return entry

    def _follow(self) -> bool:
        fresh = self._kept.entries[len(self.tree) :]
        for entry in fresh:
            self.tree.add(entry)
        return bool(fresh)


def json_lines(kept: Kept) -> bytes:
    """A transcript in pi's session format."""
    rows = [header_to_json(kept.header), *map(entry_to_json, kept.entries)]
    return b"".join(to_line(row) for row in rows)
