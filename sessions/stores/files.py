"""The sessions of one agent in files: the index, transcripts, ended sessions and locks."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from itertools import islice
from pathlib import Path

from nacre.record import Record
from nacre.sessions.contracts.errors import SessionCorrupt, SessionNotFound
from nacre.sessions.contracts.keys import EndedSession, ended_from_json, ended_to_json
from nacre.sessions.disk.durable import (
    OrderedWorker,
    TurnLockFiles,
    make_folder,
    read_plain,
    replace_file,
    reported,
    set_aside,
)
from nacre.sessions.disk.json_text import split_lines, timestamp_ms
from nacre.sessions.entries.entries import StoredTranscript
from nacre.sessions.index.index import SessionIndex
from nacre.sessions.index.record import SessionRecord
from nacre.sessions.journal.journal import Journal, read_transcript, results_folder, transcript_bytes
from nacre.sessions.stores.copying import refuse_another
from nacre.sessions.stores.rewriting import Rewrite, rewritten_files
from nacre.sessions.stores.store import LastMessage
from nacre.sessions.upkeep.maintenance import MaintenanceLimits, UpkeepReport
from nacre.sessions.upkeep.session_folder import (
    TranscriptListing,
    delete_session,
    last_message,
    maintain,
    stored_sessions,
)
from nacre.sessions.upkeep.stored_session import StoredSession, TranscriptFacts

_TAIL_BYTES = 65_536

log = logging.getLogger(__name__)


class SessionPlaces(Record):
    """Where the files are: the index with the transcripts beside it, and the folders of ended sessions and
    locks.

    `cwd` is stored in the headers of new transcripts.
    """

    index: Path
    endings: Path
    lanes: Path
    cwd: Path


class FileSessionStore:
    """A `SessionStore` in files. Several processes may share them."""

    def __init__(
        self, places: SessionPlaces, *, now: Callable[[], datetime], new_id: Callable[[], str]
    ) -> None:
        self.index = SessionIndex(places.index.parent, name=places.index.name, now=now)
        """The index, `sessions.json`."""
        self.ended_sessions = EndedSessionFiles(places.endings, now=now)
        """The ended sessions whose hooks have not run yet."""
        self._places = places
        self._lanes = TurnLockFiles(places.lanes)
        self._listing = TranscriptListing(places.index.parent)
        self._worker = OrderedWorker()
        self._now = now
        self._new_id = new_id

    @property
    def place(self) -> str:
        """The path of `sessions.json`."""
        return str(self.index.path)

    def transcript_name(self, record: SessionRecord) -> str:
        """The name of the session's file. Raises `SessionCorrupt` if it cannot be in this folder."""
        return self.index.transcript_name(record)

    async def has_transcript(self, record: SessionRecord) -> bool:
        """Whether the session's file exists."""
        try:
            # One `stat` is faster than a thread.
            return self.index.transcript_path(record).is_file()
        except SessionCorrupt:
            return False

    async def transcript(self, record: SessionRecord) -> Journal:
        """The session's file, which is created if missing. Raises like `Journal.open`."""
        return await Journal.open(
            self.index.transcript_path(record),
            session_id=record.session_id,
            cwd=self._places.cwd,
            now=self._now,
            new_id=self._new_id,
        )

    async def sessions(self, *, with_earlier: bool) -> list[StoredSession]:
        """The sessions of the index, plus those that only have a file if `with_earlier` is true."""
        return await stored_sessions(self.index, with_earlier=with_earlier)

    async def last_messages(self, sessions: Iterable[StoredSession], *, most: int) -> list[LastMessage]:
        """Reads the ends of the files until `most` sessions with a user message are found."""

        def spoken() -> Iterator[LastMessage]:
            for session in sessions:
                if session.transcript and (words := last_message(self._path(session.transcript))):
                    yield session, words

        return await asyncio.to_thread(lambda: list(islice(spoken(), most)))

    async def transcripts(self) -> Sequence[TranscriptFacts]:
        """The transcripts of the folder. Raises `SessionWriteFailed` if it cannot be read."""
        return await self._worker.run(self._listing.listed)

    async def exported(self, name: str) -> bytes:
        """A file as stored, including newer formats and incomplete lines. Raises like `transcript_bytes`."""
        return await transcript_bytes(self._path(name), session_id=Path(name).stem)

    async def whole_results(self, name: str) -> Mapping[str, bytes]:
        folder = results_folder(self._path(name))

        def read() -> dict[str, bytes]:
            found = ((path.stem, read_plain(path)) for path in sorted(folder.glob("*.txt")))
            return {name: each[0] for name, each in found if each is not None}

        return await asyncio.to_thread(read)

    async def import_transcript(self, name: str, data: bytes, results: Mapping[str, bytes]) -> None:
        """Implements `CopyableStore`."""
        path = self._path(name)

        def write() -> None:
            there = read_plain(path)
            refuse_another(name, there[0] if there is not None else b"", data)
            make_folder(path.parent)
            for each, body in results.items():
                make_folder(results_folder(path))
                replace_file(results_folder(path) / f"{each}.txt", body)
            if there is None or len(there[0]) < len(data):
                replace_file(path, data)
                _date_back(path, data)

        await asyncio.to_thread(write)

    async def stored(self, session: StoredSession) -> StoredTranscript:
        """A session's transcript, read from a copy. Raises like `read_transcript`."""
        path = self._path(session.transcript)
        return await read_transcript(path, session_id=session.session_id, now=self._now)

    async def delete(self, session: StoredSession) -> str:
        """Moves the session's file aside and returns its new path. Raises like `delete_session`."""
        aside = await delete_session(self.index, session, now=self._now)
        return str(aside or "")

    async def maintain(
        self, limits: MaintenanceLimits, *, main_key: str, active_keys: Collection[str], dry_run: bool
    ) -> UpkeepReport:
        """Implements `SessionStore`. Raises like `upkeep.maintain`."""
        return await maintain(
            self.index,
            limits,
            now=self._now,
            main_key=main_key,
            active_keys=active_keys,
            dry_run=dry_run,
        )

    async def rewritten(
        self, change: Rewrite, *, but: Collection[str] = (), dry_run: bool
    ) -> tuple[str, ...]:
        """Implements `RewritableStore`."""
        folder = self.index.directory
        return await asyncio.to_thread(rewritten_files, folder, change, but=but, dry_run=dry_run)

    def fence(self, key: str) -> int | None:  # noqa: ARG002 - all keys are alike
        """Always `None`: the system releases a lock only when its process ends."""
        return None

    def turn_lock(self, key: str) -> AbstractAsyncContextManager[bool]:
        """Implements `SessionStore`."""
        return self._lanes.turn_lock(key)

    async def close(self) -> None:
        """Brings `sessions.json` up to date."""
        await self.index.close()

    def _path(self, name: str) -> Path:
        if not name:
            raise SessionNotFound(
                f"The session's transcript is outside of {self.index.directory}. "
                f"Move the file there, or remove the session from {self.index.path.name}."
            )
        if Path(name).name != name or not name.endswith(".jsonl"):
            raise SessionNotFound(f"There is no transcript {name!r} in {self.index.directory}.")
        return self.index.directory / name


def _date_back(path: Path, data: bytes) -> None:
    """Sets a file's time to that of its last entry, because listings and resets use it."""
    last = split_lines(data[-_TAIL_BYTES:])[-1:]
    value = last[0].value if last else None
    at_ms = timestamp_ms(str(value.get("timestamp") or "")) if value else 0
    if at_ms:
        os.utime(path, ns=(at_ms * 1_000_000, at_ms * 1_000_000))


class EndedSessionFiles:
    """The ended sessions of one agent whose hooks have not run. Several processes may share the folder."""

    def __init__(self, directory: Path, *, now: Callable[[], datetime]) -> None:
        self._directory = directory
        self._now = now
        self._worker = OrderedWorker()

    async def put(self, ended: EndedSession) -> None:
        """Stores an ended session, or its new number of attempts; durable on return.

        Raises:
            SessionWriteFailed: the system refused.
        """
        await self._worker.run(lambda: self._put(ended))

    async def remove(self, ended: EndedSession) -> None:
        """Removes an ended session, which may be gone already. Raises like `put`."""
        await self._worker.run(lambda: self._remove(self._directory / ended_session_file(ended)))

    async def has(self, ended: EndedSession) -> bool:
        """Whether an ended session is still pending; another process may have finished it."""
        return await self._worker.run((self._directory / ended_session_file(ended)).is_file)

    async def all(self) -> tuple[EndedSession, ...]:
        """The pending ended sessions, oldest first. A file that cannot be read is set aside.

        Raises:
            SessionError: the system refused.
        """
        return await self._worker.run(self._all)

    def _put(self, ended: EndedSession) -> None:
        make_folder(self._directory)
        replace_file(
            self._directory / ended_session_file(ended),
            json.dumps(ended_to_json(ended), indent=2).encode(),
        )

    def _remove(self, path: Path) -> None:
        with reported("remove", path):
            path.unlink(missing_ok=True)

    def _all(self) -> tuple[EndedSession, ...]:
        if not self._directory.is_dir():
            return ()
        with reported("list", self._directory):
            paths = sorted(path for path in self._directory.iterdir() if path.suffix == ".json")
        return tuple(ended for path in paths if (ended := self._read(path)) is not None)

    def _read(self, path: Path) -> EndedSession | None:
        found = read_plain(path)
        if found is None:
            return None
        ended = ended_from_json(found[0])
        if ended is None:
            aside = set_aside(path, found[0], now=self._now)
            self._remove(path)
            log.warning(
                "%s does not describe an ended session and was set aside as %s", path.name, aside.name
            )
        return ended


def ended_session_file(ended: EndedSession) -> str:
    """The file name of an ended session, unique per session and end time."""
    safe = re.sub(r"[^\w-]", "_", ended.session_id)[:100]
    return f"{ended.ended_at_ms:013d}-{safe}.json"
