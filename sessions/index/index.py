"""`sessions.json`: which session a key names now. A contract and an edge.

The transcripts are the truth. An index that cannot be read is set aside, taken from its last backup
and completed from the transcripts' first lines; it is never taken for an empty one.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

import aiofiles

from nacre.sessions.contracts.errors import SessionCorrupt
from nacre.sessions.disk.durable import (
    locked,
    read_plain,
    remove_unfinished,
    replace_file,
    reported,
    set_aside,
)
from nacre.sessions.disk.worker import OrderedWorker
from nacre.sessions.index.record import SessionRecord as SessionRecord, record_from_json, record_to_json
from nacre.sessions.index.recovery import has_transcripts, scanned_records, with_scanned

INDEX_NAME = "sessions.json"

Change: TypeAlias = Callable[[Mapping[str, SessionRecord]], Mapping[str, SessionRecord | None]]


class SessionIndex:
    """The sessions of one agent. Several processes may share the folder.

    `get` and `all` read without a lock and without a cache, since the file is only ever replaced whole.
    `update` and `edit` hold a lock across processes from reading to writing, so that no change of
    another writer is lost.
    """

    def __init__(self, directory: Path, *, now: Callable[[], datetime], name: str = INDEX_NAME) -> None:
        self.directory = directory
        """The folder of the index and the transcripts."""
        self.path = directory / name
        """The index file."""
        self._backup = directory / f"{name}.bak"
        self._now = now
        self._is_swept = False
        self._worker = OrderedWorker()
        self._busy = threading.Lock()
        self.notices: tuple[str, ...] = ()
        """Sentences about what was set aside or rebuilt since this object was made."""

    async def get(self, key: str) -> SessionRecord | None:
        """The record of a key. Raises `SessionWriteFailed` when the system refuses to read."""
        return record_from_json((await self._read()).get(key))

    async def all(self) -> dict[str, SessionRecord]:
        """All records by key; lines that are no records are left out, and left in the file."""
        return dict(_Records(await self._read()))

    async def update(
        self, key: str, change: Callable[[SessionRecord | None], SessionRecord | None]
    ) -> SessionRecord | None:
        """Replaces a key's record by what `change` makes of it; returns the new one.

        `change` gets the record that is on disk now, or `None`; returning `None` removes the key and
        leaves the transcript. It is run on a thread, under the lock, and must be quick. Nothing is
        written when it changes nothing; what it raises is passed on and nothing is written either.
        When the call returns, the disk has the change.

        Raises:
            SessionWriteFailed: the system refused; the index is as it was.
        """

        def one(records: Mapping[str, SessionRecord]) -> Mapping[str, SessionRecord | None]:
            return {key: change(records.get(key))}

        return (await self.edit(one))[key]

    async def edit(self, change: Change) -> Mapping[str, SessionRecord | None]:
        """Replaces several records at once; returns what `change` returned.

        `change` gets all records that are on disk now and returns those that shall be others, `None`
        for a key that shall go. Everything that `update` promises holds here as well.

        Raises:
            SessionWriteFailed: the system refused; the index is as it was.
        """
        return await self._worker.run(lambda: self._edit(change))

    def transcript_path(self, record: SessionRecord) -> Path:
        """Where a record's transcript lies: always directly in this folder.

        A record brought along from elsewhere may name a file of another folder; the file of the same
        name here stands in for it.

        Raises:
            SessionCorrupt: the record names a file that is not here.
        """
        name = record.session_file or f"{record.session_id}.jsonl"
        folder = self.directory.resolve()
        if "\0" not in name:
            path = Path(name) if Path(name).is_absolute() else folder / name
            plain = re.fullmatch(r"[\w%@+=,.~ -]{1,250}\.jsonl", path.name) and not path.name.startswith(".")
            if plain and (path.parent.resolve() == folder or (folder / path.name).is_file()):
                return self.directory / path.name
        raise SessionCorrupt(
            f"The session {record.session_id!r} names the transcript {name!r}, which is not a .jsonl file in "
            f"{self.directory}. Move the file there or remove the session from {self.path.name}."
        )

    async def _read(self) -> Mapping[str, Any]:
        data: bytes | None = None
        with reported("read", self.path), suppress(FileNotFoundError):
            async with aiofiles.open(self.path, "rb") as file:
                data = await file.read()
        raw = parsed_index(data) if data is not None else None
        if raw is None:
            return await self._worker.run(self._recovered)
        return raw

    def _recovered(self) -> Mapping[str, Any]:
        if not self.directory.exists():
            return {}
        with self._busy, locked(self.path):
            return self._current()

    def _edit(self, change: Change) -> Mapping[str, SessionRecord | None]:
        with self._busy, locked(self.path):
            if not self._is_swept:
                # Under the lock, so that nobody is writing: what writers left that were killed.
                remove_unfinished(self.path)
                self._is_swept = True
            raw = self._current()
            before = _Records(raw)
            after = change(before)
            changed = {key: record for key, record in after.items() if record != before.get(key)}
            for key, record in changed.items():
                if record is None:
                    del raw[key]
                else:
                    raw[key] = record_to_json(record)
            if changed:
                replace_file(self.path, _bytes(raw), backup=self._backup)
            return after

    def _current(self) -> dict[str, Any]:
        """Under the lock: the index on disk, recovered and written when it cannot be read."""
        found = read_plain(self.path)
        raw = parsed_index(found[0]) if found else None
        if raw is not None:
            return raw
        backup = read_plain(self._backup)
        old = parsed_index(backup[0]) if backup else None
        if found is None and old is None and not has_transcripts(self.directory):
            return {}
        aside = set_aside(self.path, found[0], now=self._now) if found else None
        scanned = scanned_records(self.directory)
        rebuilt = with_scanned(old or {}, scanned)
        problem = f"could not be read and was set aside as {aside.name}" if aside else "was missing"
        source = "its backup and the transcripts" if old is not None else "the transcripts"
        self.notices += (f"{self.path.name} {problem}; {len(rebuilt)} sessions were restored from {source}.",)
        replace_file(self.path, _bytes(rebuilt))
        return rebuilt


class _Records(Mapping[str, SessionRecord]):
    """The lines of an index that are records, each read when it is asked for: most changes are of one."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        # The lines as they are now: the change that is made to them must not show in what it is made of.
        self._raw = dict(raw)
        self._read: dict[str, SessionRecord | None] = {}

    def __getitem__(self, key: str) -> SessionRecord:
        if key not in self._read:
            self._read[key] = record_from_json(self._raw[key])
        record = self._read[key]
        if record is None:
            raise KeyError(key)
        return record

    def __iter__(self) -> Iterator[str]:
        return (key for key in self._raw if self.get(key) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def parsed_index(data: bytes) -> dict[str, Any] | None:
    """The object of an index file, JSON or JSON5; `None` when it holds none."""
    try:
        text = data.decode("utf-8-sig")
    except ValueError:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = _json5(text)
    return value if isinstance(value, dict) else None


def _json5(text: str) -> object:
    import pyjson5

    try:
        return pyjson5.decode(text, maxdepth=100)
    except pyjson5.Json5Exception:
        return None


def _bytes(raw: Mapping[str, Any]) -> bytes:
    text = json.dumps(raw, indent=2, ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace") + b"\n"
