"""The sessions of one agent in files: the index, a transcript a session, endings, locks. Edge."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from itertools import islice
from pathlib import Path

from nacre.record import Record
from nacre.sessions.contracts.errors import SessionCorrupt, SessionNotFound
from nacre.sessions.disk.durable import EndingFolder, OrderedWorker, make_folder, read_plain, replace_file
from nacre.sessions.disk.json_text import split_lines, timestamp_ms
from nacre.sessions.disk.locks import LaneFiles
from nacre.sessions.entries.entries import StoredTranscript
from nacre.sessions.index.index import SessionIndex
from nacre.sessions.index.record import SessionRecord
from nacre.sessions.journal.journal import Journal, read_transcript, results_folder, transcript_bytes
from nacre.sessions.stores.copying import refuse_another
from nacre.sessions.stores.rewriting import Rewrite, rewritten_files
from nacre.sessions.stores.store import LastWords
from nacre.sessions.upkeep.maintenance import MaintenanceLimits, UpkeepReport
from nacre.sessions.upkeep.stored_session import StoredSession, TranscriptFacts
from nacre.sessions.upkeep.transcript_listing import TranscriptListing, last_words, stored_sessions
from nacre.sessions.upkeep.upkeep import delete_session, keep_up

_TAIL_BYTES = 65_536


class SessionPlaces(Record):
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
        self._lanes = LaneFiles(places.lanes)
        self._listing = TranscriptListing(places.index.parent)
        self._worker = OrderedWorker()
        self._now = now
        self._new_id = new_id

    @property
    def place(self) -> str:
        """The path of `sessions.json`."""
        return str(self.index.path)

    def transcript_name(self, record: SessionRecord) -> str:
        """The name of the session's file. Raises `SessionCorrupt` when it cannot be here."""
        return self.index.transcript_name(record)

    async def has_transcript(self, record: SessionRecord) -> bool:
        """Whether the session's file is there."""
        try:
            # A look at one file is quicker than a thread.
            return self.index.transcript_path(record).is_file()
        except SessionCorrupt:
            return False

    async def transcript(self, record: SessionRecord) -> Journal:
        """The session's file, read, or begun when there is none. Raises as `Journal.open`."""
        return await Journal.open(
            self.index.transcript_path(record),
            session_id=record.session_id,
            cwd=self._places.cwd,
            now=self._now,
            new_id=self._new_id,
        )

    async def sessions(self, *, with_earlier: bool) -> list[StoredSession]:
        """The sessions of the index, and `with_earlier` those that only their files tell of."""
        return await stored_sessions(self.index, with_earlier=with_earlier)

    async def last_words(self, sessions: Iterable[StoredSession], *, most: int) -> list[LastWords]:
        """What a person said last, from the ends of the files, until `most` of them are found."""

        def spoken() -> Iterator[LastWords]:
            for session in sessions:
                if session.transcript and (words := last_words(self._path(session.transcript))):
                    yield session, words

        return await asyncio.to_thread(lambda: list(islice(spoken(), most)))

    async def transcripts(self) -> Sequence[TranscriptFacts]:
        """The transcripts of the folder. Raises `SessionWriteFailed` when it cannot be read."""
        return await self._worker.run(self._listing.listed)

    async def exported(self, name: str) -> bytes:
        """A file as it is, also of a newer format, with whatever is torn. Raises as `transcript_bytes`."""
        return await transcript_bytes(self._path(name), session_id=Path(name).stem)

    async def whole_results(self, name: str) -> Mapping[str, bytes]:
        """The files of a transcript's results, by their names."""
        folder = results_folder(self._path(name))

        def read() -> dict[str, bytes]:
            found = ((path.stem, read_plain(path)) for path in sorted(folder.glob("*.txt")))
            return {name: each[0] for name, each in found if each is not None}

        return await asyncio.to_thread(read)

    async def bring_in(self, name: str, data: bytes, results: Mapping[str, bytes]) -> None:
        """Makes a file of another store's transcript. Raises `SessionCorrupt`; see `CopyableStore`."""
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
        """A session's file, read from a copy. Raises as `read_transcript`."""
        path = self._path(session.transcript)
        return await read_transcript(path, session_id=session.session_id, now=self._now)

    async def delete(self, session: StoredSession) -> str:
        """Moves the session's file aside; its new path. Raises as `delete_session`."""
        aside = await delete_session(self.index, session, now=self._now)
        return str(aside or "")

    async def keep_up(
        self, limits: MaintenanceLimits, *, main_key: str, active_keys: Collection[str], dry_run: bool
    ) -> UpkeepReport:
        """Keeps index and folder within limits. Raises as `upkeep.keep_up`."""
        return await keep_up(
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
        """Changes the files of all transcripts and results; see `RewritableStore`."""
        folder = self.index.directory
        return await asyncio.to_thread(rewritten_files, folder, change, but=but, dry_run=dry_run)

    def fence(self, key: str) -> int | None:  # noqa: ARG002 - all keys are alike
        """`None`: the system lets go of a lane when its process ends, and no sooner."""
        return None

    def lane(self, key: str) -> AbstractAsyncContextManager[bool]:
        """Whether this caller alone may have a turn of the key until the block ends; never waits."""
        return self._lanes.lane(key)

    async def close(self) -> None:
        """Brings `sessions.json` up to its changes."""
        await self.index.close()

    def _path(self, name: str) -> Path:
        if not name:
            raise SessionNotFound(
                f"The session's line names a file outside of {self.index.directory}. "
                f"Move it there, or remove the session from {self.index.path.name}."
            )
        if Path(name).name != name or not name.endswith(".jsonl"):
            raise SessionNotFound(f"There is no transcript {name!r} in {self.index.directory}.")
        return self.index.directory / name


def _date_back(path: Path, data: bytes) -> None:
    """Makes a file as old as its last entry: by its time a session is listed, and found as old or new."""
    last = split_lines(data[-_TAIL_BYTES:])[-1:]
    value = last[0].value if last else None
    at_ms = timestamp_ms(str(value.get("timestamp") or "")) if value else 0
    if at_ms:
        os.utime(path, ns=(at_ms * 1_000_000, at_ms * 1_000_000))
