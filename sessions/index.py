"""`sessions.json`: which session a key names now. A contract and an edge.

The transcripts are the truth. An index that cannot be read is set aside, taken from its last backup
and completed from the transcripts' first lines; it is never taken for an empty one.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import aiofiles

from nacre.sessions.durable import locked, read_plain, replace_file, reported, set_aside
from nacre.sessions.errors import SessionCorrupt
from nacre.sessions.record import SessionRecord as SessionRecord
from nacre.sessions.record import record_from_json, record_to_json
from nacre.sessions.recovery import has_transcripts, scanned_records, with_scanned
from nacre.sessions.worker import OrderedWorker

INDEX_NAME = "sessions.json"


class SessionIndex:
    """The sessions of one agent. Several processes may share the folder.

    `get` and `all` read without a lock, since the file is only ever replaced whole. `update` holds a
    lock across processes from reading to writing, so that no change of another writer is lost.
    """

    def __init__(self, directory: Path, *, now: Callable[[], datetime]) -> None:
        self._directory = directory
        self._path = directory / INDEX_NAME
        self._backup = directory / f"{INDEX_NAME}.bak"
        self._now = now
        self._worker = OrderedWorker()
        self._busy = threading.Lock()
        self._notices: tuple[str, ...] = ()

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences about what was set aside or rebuilt since this object was made."""
        return self._notices

    async def get(self, key: str) -> SessionRecord | None:
        """The record of a key. Raises `SessionWriteFailed` when the system refuses to read."""
        return record_from_json((await self._read()).get(key))

    async def all(self) -> dict[str, SessionRecord]:
        """All records by key; lines that are no records are left out, and left in the file."""
        records = ((key, record_from_json(raw)) for key, raw in (await self._read()).items())
        return {key: record for key, record in records if record is not None}

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
        return await self._worker.run(lambda: self._update(key, change))

    def transcript_path(self, record: SessionRecord) -> Path:
        """Where a record's transcript lies: always directly in this folder.

        A record brought along from elsewhere may name a file of another folder; the file of the same
        name here stands in for it.

        Raises:
            SessionCorrupt: the record names a file that is not here.
        """
        name = record.session_file or f"{record.session_id}.jsonl"
        folder = self._directory.resolve()
        if "\0" not in name:
            path = Path(name) if Path(name).is_absolute() else folder / name
            plain = re.fullmatch(r"[\w%@+=,.~ -]{1,250}\.jsonl", path.name) and not path.name.startswith(".")
            if plain and (path.parent.resolve() == folder or (folder / path.name).is_file()):
                return self._directory / path.name
        raise SessionCorrupt(
            f"The session {record.session_id!r} names the transcript {name!r}, which is not a .jsonl file in "
            f"{self._directory}. Move the file there or remove the session from {INDEX_NAME}."
        )

    async def _read(self) -> Mapping[str, Any]:
        data: bytes | None = None
        with reported("read", self._path), suppress(FileNotFoundError):
            async with aiofiles.open(self._path, "rb") as file:
                data = await file.read()
        raw = parsed_index(data) if data is not None else None
        if raw is None:
            return await self._worker.run(self._recovered)
        return raw

    def _recovered(self) -> Mapping[str, Any]:
        if not self._directory.exists():
            return {}
        with self._busy, locked(self._path):
            return self._current()

    def _update(
        self, key: str, change: Callable[[SessionRecord | None], SessionRecord | None]
    ) -> SessionRecord | None:
        with self._busy, locked(self._path):
            raw = self._current()
            before = record_from_json(raw.get(key))
            after = change(before)
            if after == before:
                return after
            if after is None:
                raw.pop(key, None)
            else:
                raw[key] = record_to_json(after)
            self._write(raw)
            return after

    def _current(self) -> dict[str, Any]:
        """Under the lock: the index on disk, recovered and written when it cannot be read."""
        found = read_plain(self._path)
        raw = parsed_index(found[0]) if found else None
        if raw is not None:
            return raw
        backup = read_plain(self._backup)
        old = parsed_index(backup[0]) if backup else None
        if found is None and old is None and not has_transcripts(self._directory):
            return {}
        aside = set_aside(self._path, found[0], now=self._now) if found else None
        scanned = scanned_records(self._directory)
        rebuilt = with_scanned(old or {}, scanned)
        problem = f"could not be read and was set aside as {aside.name}" if aside else "was missing"
        source = "its backup and the transcripts" if old is not None else "the transcripts"
        self._notices += (f"{INDEX_NAME} {problem}; {len(rebuilt)} sessions were restored from {source}.",)
        replace_file(self._path, _bytes(rebuilt))
        return rebuilt

    def _write(self, raw: Mapping[str, Any]) -> None:
        present = read_plain(self._path)
        if present is not None:
            replace_file(self._backup, present[0])
        replace_file(self._path, _bytes(raw))


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
