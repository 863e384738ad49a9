"""`sessions.json`: which session a key names now. A contract.

The transcripts are the truth. An index that cannot be read is set aside, taken from its last backup
and completed from the transcripts' first lines; it is never taken for an empty one.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path

from nacre.sessions.contracts.errors import SessionCorrupt, SessionError
from nacre.sessions.disk.durable import OrderedWorker, Sync, to_its_end
from nacre.sessions.index.index_files import Change, IndexFiles
from nacre.sessions.index.record import SessionRecord as SessionRecord

log = logging.getLogger(__name__)

INDEX_NAME = "sessions.json"
CHECKPOINT_EVERY = timedelta(minutes=1)
"""How far `sessions.json` may lag behind while sessions are talked in."""


class SessionIndex:
    """The sessions of one agent. Several processes may share the folder.

    An edit is a line appended to `sessions.json.changes`, under a lock across processes, so that no change
    of another writer is lost. `sessions.json` itself is written beside the edits: every minute in which
    there are any, and by `close`. What another program writes into it counts from the next look on, and
    where both changed the same, that program is right.

    A look at an unchanged index reads no file.
    """

    def __init__(
        self,
        directory: Path,
        *,
        now: Callable[[], datetime],
        name: str = INDEX_NAME,
        sync: Sync = os.fsync,
    ) -> None:
        self.directory = directory
        """The folder of the index and the transcripts."""
        self.path = directory / name
        """The index file."""
        self._now = now
        self._files = IndexFiles(self.path, now=now, sync=sync)
        self._worker = OrderedWorker()
        self._waiting: _JoinedEdits | None = None
        self._checkpoint: asyncio.Task[None] | None = None
        self._due_at: datetime | None = None

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences about what was set aside or rebuilt since this object was made."""
        return self._files.notices

    async def get(self, key: str) -> SessionRecord | None:
        """The record of a key. Raises `SessionError` when the index cannot be read."""
        seen = self._files.glance(key)
        if seen is not None:
            return seen[0]
        return await asyncio.to_thread(self._files.read, lambda image: image.get(key))

    async def all(self) -> dict[str, SessionRecord]:
        """All records by key; lines that are no records are left out, and left in the file."""
        return await asyncio.to_thread(self._files.read, dict)

    async def found_again(self, key: str) -> SessionRecord | None:
        """The record of a key whose line is none or leads to no transcript, from the backup or transcripts.

        The file with the strange line is set aside, and `notices` says what it was and what took its place.
        Without anything better the record is what it was; a line that is no record is removed then. A key
        without a line stays without.

        Raises:
            SessionWriteFailed: the system refused.
        """

        def has_transcript(record: SessionRecord) -> bool:
            try:
                return self.transcript_path(record).is_file()
            except SessionCorrupt:
                return False

        seen = self._files.glance(key)
        if seen is not None and not seen[1]:
            return None
        return await self._worker.run(lambda: self._files.found_again(key, has_transcript))

    async def update(
        self, key: str, change: Callable[[SessionRecord | None], SessionRecord | None]
    ) -> SessionRecord | None:
        """Replaces a key's record by what `change` makes of it; returns the new one.

        `change` gets the record that is on disk now, or `None`; returning `None` removes the key and
        leaves the transcript. It is run on a thread, under the lock, and must be quick. Nothing is
        written when it changes nothing; what it raises is passed on and nothing is written either.
        When the call returns, the change is there for every process and outlives this one. A change of
        what no transcript tells, such as which session the key names, the disk has as well; the rest
        (`MIRRORED` in `record.py`) follows within seconds, or with the next change that the disk waits for.

        Raises:
            SessionWriteFailed: the system refused; the index is as it was.
        """

        def one(records: Mapping[str, SessionRecord]) -> Mapping[str, SessionRecord | None]:
            return {key: change(records.get(key))}

        return (await self.edit(one))[key]

    async def mirror(
        self, key: str, change: Callable[[SessionRecord], SessionRecord]
    ) -> SessionRecord | None:
        """`update` of a line that there is, by what its transcript tells as well.

        Where nobody else writes, it is done at once and on no thread: it costs less than handing it to one.
        `change` may be called more than once.

        Raises:
            SessionWriteFailed: the system refused; the index is as it was.
        """

        def one(records: Mapping[str, SessionRecord]) -> Mapping[str, SessionRecord | None]:
            record = records.get(key)
            return {key: None if record is None else change(record)}

        after = self._files.edit_at_once(one) if self._worker.is_idle else None
        if after is None:
            return (await self.edit(one))[key]
        self._checkpoint_if_due()
        return after[key]

    async def edit(self, change: Change) -> Mapping[str, SessionRecord | None]:
        """Replaces several records at once; returns what `change` returned.

        `change` gets all records that are on disk now and returns those that shall be others, `None`
        for a key that shall go. Everything that `update` promises holds here as well. Edits that wait for
        another one are written together, so that many sessions that begin at once wait for the disk once.

        Raises:
            SessionWriteFailed: the system refused; the index is as it was.
        """
        edit = _Edit(change)
        if self._waiting is None or not self._waiting.takes(edit):
            joined = self._waiting = _JoinedEdits(edit)
            joined.written = asyncio.ensure_future(self._worker.run(lambda: joined.write(self._files)))
        await to_its_end(self._waiting.written)
        self._checkpoint_if_due()
        if edit.error is not None:
            raise edit.error
        return edit.after

    async def close(self) -> None:
        """Brings `sessions.json` up to the last change. The index may be used again afterwards.

        If the system refuses, that is logged: nothing is lost, the changes stand beside it.
        """
        if self._checkpoint is not None:
            await asyncio.wait({self._checkpoint})
        await self._write_index()

    def transcript_path(self, record: SessionRecord) -> Path:
        """Where a record's transcript lies. Raises as `transcript_name`."""
        return self.directory / self.transcript_name(record)

    def transcript_name(self, record: SessionRecord) -> str:
        """What a record's transcript is called, which lies always directly in this folder.

        A record brought along from elsewhere may name a file of another folder; the file of the same
        name here stands in for it.

        Raises:
            SessionCorrupt: the record names a file that is not here.
        """
        name = record.session_file or f"{record.session_id}.jsonl"
        if is_transcript_name(name):
            return name
        if "\0" not in name:
            folder = self.directory.resolve()
            path = Path(name) if Path(name).is_absolute() else folder / name
            is_here = path.parent.resolve() == folder or (folder / path.name).is_file()
            if is_transcript_name(path.name) and is_here:
                return path.name
        raise SessionCorrupt(
            f"The session {record.session_id!r} names the transcript {name!r}, which is not a .jsonl file in "
            f"{self.directory}. Move the file there or remove the session from {self.path.name}."
        )

    def _checkpoint_if_due(self) -> None:
        now = self._now()
        if self._due_at is None:
            self._due_at = now + CHECKPOINT_EVERY
        if self._checkpoint is not None or (now < self._due_at and not self._files.is_log_long):
            return
        self._due_at = now + CHECKPOINT_EVERY
        self._checkpoint = asyncio.create_task(self._write_index(), name="sessions-index")
        self._checkpoint.add_done_callback(self._is_written)

    def _is_written(self, _task: asyncio.Task[None]) -> None:
        self._checkpoint = None

    async def _write_index(self) -> None:
        try:
            await asyncio.to_thread(self._files.checkpoint)
        except SessionError as error:
            log.warning("%s is not up to date: %s", self.path.name, error)


class _Edit:
    """One change, and what came of it."""

    def __init__(self, change: Change) -> None:
        self.change = change
        self.after: Mapping[str, SessionRecord | None] = {}
        self.error: Exception | None = None


class _JoinedEdits:
    """Edits that are written at once, each as if it came behind the one before it."""

    written: asyncio.Future[None]

    def __init__(self, first: _Edit) -> None:
        self._edits = [first]
        self._is_begun = False
        self._lock = threading.Lock()

    def takes(self, edit: _Edit) -> bool:
        """Whether it is written with these, which have not been begun."""
        with self._lock:
            if not self._is_begun:
                self._edits.append(edit)
            return not self._is_begun

    def write(self, files: IndexFiles) -> None:
        """Puts them on disk. Raises as `IndexFiles.edit`; what one's change raises is its own `error`."""
        with self._lock:
            self._is_begun = True
        files.edit(self._change)

    def _change(self, records: Mapping[str, SessionRecord]) -> Mapping[str, SessionRecord | None]:
        ahead = _Ahead(records)
        for edit in self._edits:
            try:
                edit.after = edit.change(ahead if ahead.changed else records)
            except Exception as error:  # noqa: BLE001 - passed on to whoever asked for this change
                edit.error = error
            else:
                ahead.changed.update(edit.after)
        return ahead.changed


class _Ahead(Mapping[str, SessionRecord]):
    """Records as they will be once `changed` is written."""

    def __init__(self, records: Mapping[str, SessionRecord]) -> None:
        self.changed: dict[str, SessionRecord | None] = {}
        self._records = records

    def __getitem__(self, key: str) -> SessionRecord:
        if key not in self.changed:
            return self._records[key]
        record = self.changed[key]
        if record is None:
            raise KeyError(key)
        return record

    def __iter__(self) -> Iterator[str]:
        yield from (key for key, record in self.changed.items() if record is not None)
        yield from (key for key in self._records if key not in self.changed)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def is_transcript_name(name: str) -> bool:
    """Whether a name leads nowhere but to a transcript in the folder where it is looked for."""
    return re.fullmatch(r"[\w%@+=,.~ -]{1,250}\.jsonl", name) is not None and not name.startswith(".")
