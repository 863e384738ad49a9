"""`sessions.json`: which session a key currently refers to.

The transcripts are the source of truth. An unreadable index is set aside, restored from its last backup and
completed from the first lines of the transcripts. It is never treated as empty.
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
from nacre.sessions.disk.durable import OrderedWorker, Sync, wait_until_done
from nacre.sessions.index.image import IndexImage
from nacre.sessions.index.index_files import Change, IndexFiles
from nacre.sessions.index.record import RecordChange, SessionRecord

log = logging.getLogger(__name__)

INDEX_NAME = "sessions.json"
CHECKPOINT_EVERY = timedelta(minutes=1)
"""How far `sessions.json` may lag behind its change log while sessions are in use."""


class SessionIndex:
    """The sessions of one agent. Several processes may share the folder.

    An edit appends one line to `sessions.json.changes` under a lock across processes, so that no change of
    another writer is lost. `sessions.json` itself is rewritten once a minute if there are edits, and by
    `close`. Changes of another program in it take effect at the next read, and take precedence over
    conflicting edits here.

    Reading an unchanged index reads no file.
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
        self._now = now
        self._files = IndexFiles(self.path, now=now, sync=sync)
        self._worker = OrderedWorker()
        self._pending_edits: _JoinedEdits | None = None
        self._flushing: asyncio.Future[None] | None = None
        self._checkpoint: asyncio.Task[None] | None = None
        self._due_at: datetime | None = None

    @property
    def notices(self) -> tuple[str, ...]:
        return self._files.notices

    async def get(self, key: str) -> SessionRecord | None:
        """The record of a key. Raises `SessionError` if the index cannot be read."""
        seen = self._files.peek(key)
        if seen is not None:
            return seen[0]
        return await asyncio.to_thread(self._files.read, lambda image: image.get(key))

    async def all(self) -> dict[str, SessionRecord]:
        """All records by key. Lines that are not records are left out, but stay in the file."""
        return await asyncio.to_thread(self._files.read, IndexImage.records)

    async def recover(self, key: str) -> SessionRecord | None:
        """Recovers a record that is invalid or has no transcript, from the backup or transcripts.

        The file with the invalid line is set aside, and `notices` describes the line and its replacement. If
        nothing better is found, a record stays unchanged, and a line that is not a record is removed. A key
        without a line stays without one.

        Raises:
            SessionWriteFailed: the system refused.
        """

        def has_transcript(record: SessionRecord) -> bool:
            try:
                return self.transcript_path(record).is_file()
            except SessionCorrupt:
                return False

        seen = self._files.peek(key)
        if seen is not None and not seen[1]:
            return None
        return await self._worker.run(lambda: self._files.recover(key, has_transcript))

    async def update(
        self,
        key: str,
        change: Callable[[SessionRecord | None], SessionRecord | None],
        *,
        durable: bool = True,
    ) -> SessionRecord | None:
        """Replaces a key's record with the result of `change` and returns it.

        `change` receives the record now on disk, or `None`. If it returns `None`, the key is removed; the
        transcript stays. It runs on a thread under the lock and must be quick. If it changes nothing or
        raises, nothing is written, and its exception is passed on. On return, the change is visible to every
        process and outlives this one. A change that no transcript records, such as which session the key
        refers to, has also been flushed to disk. Other changes (`MIRRORED` in `record.py`) reach the disk
        within seconds, or with the next flushed change. So does any change that is not `durable`, at the
        latest with the next `flush`.

        Raises:
            SessionWriteFailed: the system refused; the index is unchanged.
        """

        def one(records: Mapping[str, SessionRecord]) -> Mapping[str, SessionRecord | None]:
            return {key: change(records.get(key))}

        after = None if durable else self._edit_now(one, durable=False)
        return (after or await self.edit(one))[key]

    async def flush(self) -> None:
        """Flushes changes to disk that were not `durable`. Raises `SessionWriteFailed`."""
        if self._files.is_flush_due:
            self._flushing = asyncio.get_running_loop().run_in_executor(None, self._files.flush)
        if self._flushing is not None:  # another caller's flush may include this caller's change
            await wait_until_done(self._flushing)

    async def mirror(self, key: str, change: RecordChange) -> SessionRecord | None:
        """Like `update`, for an existing line and values that the transcript also records.

        If nobody else is writing, it runs immediately and not on a thread, which costs less than the
        handover. `change` may be called more than once.

        Raises:
            SessionWriteFailed: the system refused; the index is unchanged.
        """

        def one(records: Mapping[str, SessionRecord]) -> Mapping[str, SessionRecord | None]:
            record = records.get(key)
            return {key: None if record is None else change(record)}

        return (self._edit_now(one, durable=True) or await self.edit(one))[key]

    def _edit_now(self, change: Change, *, durable: bool) -> Mapping[str, SessionRecord | None] | None:
        is_queued = self._pending_edits is not None and not self._pending_edits.written.done()
        if is_queued or not self._worker.is_idle:
            return None
        after = self._files.try_edit(change, durable=durable)
        if after is not None:
            self._checkpoint_if_due()
        return after

    async def edit(self, change: Change) -> Mapping[str, SessionRecord | None]:
        """Replaces several records at once and returns what `change` returned.

        `change` receives all records now on disk and returns those to replace, with `None` for a key to
        remove. The guarantees of `update` apply. Edits that wait for another edit are written together, so
        that many sessions that start at once wait for the disk once.

        Raises:
            SessionWriteFailed: the system refused; the index is unchanged.
        """
        edit = _Edit(change)
        if self._pending_edits is None or not self._pending_edits.add(edit):
            joined = self._pending_edits = _JoinedEdits(edit)
            joined.written = asyncio.ensure_future(self._worker.run(lambda: joined.write(self._files)))
        await wait_until_done(self._pending_edits.written)
        self._checkpoint_if_due()
        if edit.error is not None:
            raise edit.error
        return edit.after

    async def close(self) -> None:
        """Brings `sessions.json` up to date. The index may be used again afterwards.

        A failure is logged only: nothing is lost, because the changes are in the change log.
        """
        if self._checkpoint is not None:
            await asyncio.wait({self._checkpoint})
        await self._write_index()

    def transcript_path(self, record: SessionRecord) -> Path:
        """The path of a record's transcript. Raises like `transcript_name`."""
        return self.directory / self.transcript_name(record)

    def transcript_name(self, record: SessionRecord) -> str:
        """The file name of a record's transcript, which is always directly in this folder.

        A record from elsewhere may name a file in another folder; a file of the same name here replaces it.

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
            f"The session {record.session_id!r} has the transcript {name!r}, which is not a .jsonl file in "
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
    """One change and its result."""

    def __init__(self, change: Change) -> None:
        self.change = change
        self.after: Mapping[str, SessionRecord | None] = {}
        self.error: Exception | None = None


class _JoinedEdits:
    """Edits that are written together, each applied after the previous one."""

    written: asyncio.Future[None]

    def __init__(self, first: _Edit) -> None:
        self._edits = [first]
        self._is_started = False
        self._lock = threading.Lock()

    def add(self, edit: _Edit) -> bool:
        """Adds the edit unless writing has started; whether it was added."""
        with self._lock:
            if not self._is_started:
                self._edits.append(edit)
            return not self._is_started

    def write(self, files: IndexFiles) -> None:
        """Writes the edits. Raises like `IndexFiles.edit`; an exception of a change becomes its edit's
        `error`."""
        with self._lock:
            self._is_started = True
        files.edit(self._change)

    def _change(self, records: Mapping[str, SessionRecord]) -> Mapping[str, SessionRecord | None]:
        pending = _PendingRecords(records)
        for edit in self._edits:
            try:
                edit.after = edit.change(pending if pending.changed else records)
            except Exception as error:  # noqa: BLE001 - raised to the caller of `edit`
                edit.error = error
            else:
                pending.changed.update(edit.after)
        return pending.changed


class _PendingRecords(Mapping[str, SessionRecord]):
    """The records as they will be once `changed` is written."""

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


_TRANSCRIPT_NAME = re.compile(r"(?!\.)[\w%@+=,.~ -]{1,250}\.jsonl")


def is_transcript_name(name: str) -> bool:
    """Whether a name is a plain transcript file name, without any folder."""
    return _TRANSCRIPT_NAME.fullmatch(name) is not None
