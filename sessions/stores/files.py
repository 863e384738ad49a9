"""The sessions of one agent in files: the index, a transcript a session, endings, locks. Edge."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from nacre.sessions.contracts.errors import SessionCorrupt
from nacre.sessions.disk.durable import make_folder, reported
from nacre.sessions.disk.endings import EndingFolder
from nacre.sessions.disk.kernel_lock import try_lock
from nacre.sessions.index.index import SessionIndex
from nacre.sessions.index.record import SessionRecord
from nacre.sessions.journal.journal import Journal


@dataclass(frozen=True, kw_only=True)
class SessionPlaces:
    """Where the files lie: the index with the transcripts beside it, and the folders of endings and locks.

    `cwd` goes into the headers of new transcripts.
    """

    index: Path
    endings: Path
    lanes: Path
    cwd: Path


class FileSessionStore:
    """The first member of `SessionStore`. Several processes may share the files."""

    def __init__(
        self, places: SessionPlaces, *, now: Callable[[], datetime], new_id: Callable[[], str]
    ) -> None:
        self.index = SessionIndex(places.index.parent, name=places.index.name, now=now)
        """Which session a key names."""
        self.endings = EndingFolder(places.endings, now=now)
        """What is due for sessions that are over."""
        self._places = places
        self._now = now
        self._new_id = new_id

    async def has_transcript(self, record: SessionRecord) -> bool:
        """Whether the session's file is there."""
        try:
            path = self.index.transcript_path(record)
        except SessionCorrupt:
            return False
        return await asyncio.to_thread(path.is_file)

    async def transcript(self, record: SessionRecord) -> Journal:
        """The session's file, read, or begun when there is none. Raises as `Journal.open`."""
        return await Journal.open(
            self.index.transcript_path(record),
            session_id=record.session_id,
            cwd=self._places.cwd,
            now=self._now,
            new_id=self._new_id,
        )

    @asynccontextmanager
    async def lane(self, key: str) -> AsyncIterator[bool]:
        """Whether this caller alone may have a turn of the key until the block ends; never waits."""
        path = self._places.lanes / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.lane"
        with reported("lock", path):
            make_folder(path.parent)
            release = try_lock(path)
        try:
            yield release is not None
        finally:
            if release is not None:
                release()

    async def close(self) -> None:
        """Brings `sessions.json` up to its changes."""
        await self.index.close()
