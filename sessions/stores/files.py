"""The sessions of one agent in files: the index, transcripts, ended sessions and locks.

A transcript that is set aside becomes `<name>.deleted.<time>`: it is no longer listed, and one rename
restores it. Its full tool results move with it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path

from nacre.record import Record
from nacre.sessions.contracts.errors import SessionCorrupt, SessionError, SessionNotFound
from nacre.sessions.contracts.keys import (
    SYNTHETIC_KINDS,
    EndedSession,
    ended_from_json,
    ended_to_json,
    key_kind,
)
from nacre.sessions.disk.durable import (
    OrderedWorker,
    TurnLockFiles,
    make_folder,
    open_plain,
    read_plain,
    read_tail,
    replace_file,
    reported,
    set_aside,
    sync_folder,
)
from nacre.sessions.disk.json_text import line_value, split_lines, timestamp_ms
from nacre.sessions.entries.entries import KnownBody, StoredTranscript
from nacre.sessions.index.image import ScannedSession, scanned_records
from nacre.sessions.index.index import SessionIndex
from nacre.sessions.index.record import SessionRecord
from nacre.sessions.journal.journal import (
    FOLDER_SUFFIX,
    Journal,
    read_transcript,
    results_folder,
    transcript_bytes,
)
from nacre.sessions.stores.copying import refuse_another
from nacre.sessions.stores.rewriting import Rewrite, rewritten_files
from nacre.sessions.stores.store import LastMessage
from nacre.sessions.upkeep.maintenance import (
    MaintenanceLimits,
    StoredFile,
    UpkeepReport,
    aside_name,
    file_kind,
    files_to_remove,
    lines_to_prune,
    without_session,
)
from nacre.sessions.upkeep.stored_session import StoredSession, TranscriptFacts, last_message_text

log = logging.getLogger(__name__)

BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class _Counted:
    """The line count of a file when it had `size_bytes`."""

    identity: tuple[int, int]
    size_bytes: int
    lines: int


class TranscriptListing:
    """Lists one folder's transcripts and counts their lines, reading only what grew. Not thread-safe."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._counted: dict[str, _Counted] = {}

    def listed(self) -> list[TranscriptFacts]:
        """All transcripts by name. Raises `SessionWriteFailed` if the folder cannot be read."""
        with reported("list", self._directory):
            found = [
                TranscriptFacts(
                    name=name,
                    size_bytes=stat.st_size,
                    lines=self._lines(name, stat),
                    modified_ns=stat.st_mtime_ns,
                )
                for name, stat in self._files()
            ]
        self._counted = {each.name: self._counted[each.name] for each in found if each.name in self._counted}
        return found

    def _files(self) -> Iterator[tuple[str, os.stat_result]]:
        try:
            with os.scandir(self._directory) as entries:
                files = [
                    entry
                    for entry in entries
                    if entry.name.endswith(".jsonl")
                    and entry.name[0] != "."
                    and entry.is_file(follow_symlinks=False)
                ]
        except FileNotFoundError:
            return
        for entry in sorted(files, key=lambda entry: entry.name):
            try:
                yield entry.name, entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue

    def _lines(self, name: str, stat: os.stat_result) -> int:
        """A file's line count, which reads only new lines; the last count if the file cannot be read."""
        identity = (stat.st_dev, stat.st_ino)
        known = self._counted.get(name)
        if known is None or known.identity != identity or known.size_bytes > stat.st_size:
            known = _Counted(identity, 0, 0)
        if known.size_bytes < stat.st_size:
            try:
                new = _line_feeds(self._directory / name, known.size_bytes, stat.st_size)
            except (OSError, SessionError) as error:
                log.warning("could not count the lines of the transcript %s: %s", name, error)
                return known.lines
            known = _Counted(identity, stat.st_size, known.lines + new)
        self._counted[name] = known
        return known.lines


def _line_feeds(path: Path, start: int, end: int) -> int:
    descriptor = open_plain(path, os.O_RDONLY)
    try:
        os.lseek(descriptor, start, os.SEEK_SET)
        count, left = 0, end - start
        while left > 0 and (block := os.read(descriptor, min(left, BLOCK_BYTES))):
            count += block.count(b"\n")
            left -= len(block)
        return count
    finally:
        os.close(descriptor)


TAIL_BYTES = 65_536


async def stored_sessions(index: SessionIndex, *, with_earlier: bool = True) -> list[StoredSession]:
    """The sessions of an index, latest activity first.

    `with_earlier` reads the beginning of each transcript in the folder to which no key refers.

    Raises:
        SessionWriteFailed: the folder or the index cannot be read.
    """
    records = await index.all()
    current = {record.session_id for record in records.values()}
    named = {name: key for key, record in records.items() for name in record.previous_session_ids}
    folder = f"{index.directory}{os.sep}"
    found = [_current(index, folder, key, record) for key, record in records.items()]
    if with_earlier:
        names = {session.transcript for session in found}
        scanned = await asyncio.to_thread(scanned_records, index.directory, without=names)
        found += [_earlier(index, item, named) for item in scanned if item.record.session_id not in current]
    return sorted(found, key=lambda session: session.active_at_ms, reverse=True)


def last_message(path: Path | str) -> str:
    """The last message of a person on the current branch, read from the end of a transcript file."""
    try:
        data = read_tail(path, TAIL_BYTES)
    except (SessionError, FileNotFoundError):
        return ""
    values = map(line_value, reversed(data.split(b"\n")))
    return last_message_text(value for value in values if value is not None)


def _current(index: SessionIndex, folder: str, key: str, record: SessionRecord) -> StoredSession:
    try:
        name = index.transcript_name(record)
    except SessionCorrupt:
        name = ""
    place = folder + name if name else ""  # a `Path` for each of thousands takes longer
    return StoredSession(
        key=key,
        record=record,
        is_current=True,
        transcript=name,
        place=place,
        size_bytes=_size_bytes(place),
    )


def _earlier(index: SessionIndex, item: ScannedSession, named: Mapping[str, str]) -> StoredSession:
    record = item.record
    path = index.directory / (record.session_file or f"{record.session_id}.jsonl")
    return StoredSession(
        key=named.get(record.session_id, item.key),
        record=replace(record, previous_session_ids=()),
        is_current=False,
        transcript=path.name,
        place=str(path),
        size_bytes=_size_bytes(path),
    )


def _size_bytes(place: Path | str) -> int | None:
    try:
        return os.lstat(place).st_size if place else None
    except OSError:
        return None


async def maintain(
    index: SessionIndex,
    limits: MaintenanceLimits,
    *,
    now: Callable[[], datetime],
    main_key: str,
    active_keys: Collection[str] = (),
    dry_run: bool = False,
) -> UpkeepReport:
    """Applies the limits to the folder of sessions; with `dry_run`, only reports the changes.

    `active_keys` have a running or waiting turn.

    Raises:
        SessionWriteFailed: the system refused; earlier changes stay.
    """
    now_ms = int(now().timestamp() * 1000)
    pruned: dict[str, SessionRecord] = {}

    def without_pruned(records: Mapping[str, SessionRecord]) -> dict[str, SessionRecord | None]:
        keys = lines_to_prune(records, limits, now_ms=now_ms, main_key=main_key, active_keys=active_keys)
        pruned.clear()
        pruned.update({key: records[key] for key in keys})
        return {} if dry_run else dict.fromkeys(keys)

    # Most of the time there is nothing to do, and reading takes no lock.
    without_pruned(await index.all())
    if pruned and not dry_run:
        await index.edit(without_pruned)
        await index.close()
    paths: list[Path] = []
    for key, record in pruned.items():
        if key_kind(key) in SYNTHETIC_KINDS:
            with suppress(SessionCorrupt):
                paths.append(index.transcript_path(record))
    paths = [path for path in paths if path.exists()]
    if not dry_run:
        await asyncio.to_thread(lambda: [move_aside(path, now=now) for path in paths])
    removed = await _removable(index, limits, now_ms=now_ms)
    if removed and not dry_run:
        await asyncio.to_thread(_remove, index.directory, removed)
    return UpkeepReport(
        pruned_keys=tuple(pruned),
        moved_aside=tuple(path.name for path in paths),
        removed=tuple(file.name for file in removed),
        removed_bytes=sum(file.size_bytes for file in removed),
    )


async def delete_session(
    index: SessionIndex, session: StoredSession, *, now: Callable[[], datetime]
) -> Path | None:
    """Deletes a session: removes it from the index and sets its transcript aside. Returns the new path.

    Returns `None` if there was no transcript. The index changes first, so that after a crash in between the
    session is still listed and can be deleted again. The caller holds the session's turn lock.

    Raises:
        SessionWriteFailed: the system refused; earlier changes stay.
    """

    await index.edit(lambda records: without_session(records, session.session_id))
    return move_aside(index.directory / session.transcript, now=now) if session.transcript else None


def move_aside(path: Path, *, now: Callable[[], datetime]) -> Path | None:
    """Renames a transcript to `<name>.deleted.<time>`; returns `None` if it is missing."""
    with reported("move aside", path):
        aside = path.with_name(aside_name(path.name, now()))
        stamped = aside.name
        number = 1
        while aside.exists():
            number += 1
            aside = path.with_name(f"{stamped}-{number}")
        try:
            path.rename(aside)
        except FileNotFoundError:
            return None
        path.with_name(f"{path.name}.lock").unlink(missing_ok=True)
        results = results_folder(path)
        if results.is_dir():
            results.rename(aside.with_name(aside.name.replace(path.name, results.name, 1)))
        sync_folder(path.parent)
    return aside


async def _removable(index: SessionIndex, limits: MaintenanceLimits, *, now_ms: int) -> list[StoredFile]:
    if limits.most_bytes is None and limits.archive_retention_ms is None:
        return []
    ended = {
        session.transcript: session
        for session in await stored_sessions(index)
        if session.transcript and not session.is_current
    }
    files = await asyncio.to_thread(_files, index.directory, ended)
    return files_to_remove(files, limits, now_ms=now_ms)


def _files(directory: Path, ended: Mapping[str, StoredSession]) -> list[StoredFile]:
    found: list[StoredFile] = []
    with reported("list", directory):
        if not directory.is_dir():
            return []
        with os.scandir(directory) as entries:
            for entry in entries:
                if not entry.is_file(follow_symlinks=False):
                    continue
                facts = entry.stat(follow_symlinks=False)
                results = _results(Path(entry.path))
                found.append(
                    StoredFile(
                        name=entry.name,
                        kind=file_kind(entry.name, ended),
                        size_bytes=facts.st_size + sum(file.lstat().st_size for file in results),
                        modified_ms=facts.st_mtime_ns // 1_000_000,
                    )
                )
    return found


def _remove(directory: Path, files: list[StoredFile]) -> None:
    for file in files:
        path = directory / file.name
        with reported("remove", path):
            for result in _results(path):
                result.unlink(missing_ok=True)
            with suppress(FileNotFoundError):
                _results_folder(path).rmdir()
            path.unlink(missing_ok=True)
    sync_folder(directory)


def _results(path: Path) -> list[Path]:
    folder = _results_folder(path)
    return list(folder.iterdir()) if ".jsonl" in path.name and folder.is_dir() else []


def _results_folder(path: Path) -> Path:
    return path.with_name(path.name.replace(".jsonl", FOLDER_SUFFIX, 1))


class SessionPlaces(Record):
    """The path of the index, beside which transcripts are, and the folders for ended sessions and locks.

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
        self.transcript_name = self.index.transcript_name
        self.turn_lock = TurnLockFiles(places.lanes).turn_lock
        self.close = self.index.close
        self.sessions = partial(stored_sessions, self.index)
        self.maintain = partial(maintain, self.index, now=now)
        self._listing = TranscriptListing(places.index.parent)
        self._worker = OrderedWorker()
        self._now = now
        self._new_id = new_id

    @property
    def place(self) -> str:
        """The path of `sessions.json`."""
        return str(self.index.path)

    async def has_transcript(self, record: SessionRecord) -> bool:
        try:
            # One `stat` is faster than a thread.
            return self.index.transcript_path(record).is_file()
        except SessionCorrupt:
            return False

    async def transcript(self, record: SessionRecord, *, first: KnownBody | None = None) -> Journal:
        """The session's file, which is created if missing. Raises like `Journal.open`."""
        return await Journal.open(
            self.index.transcript_path(record),
            session_id=record.session_id,
            cwd=self._places.cwd,
            now=self._now,
            new_id=self._new_id,
            first=first,
        )

    async def last_messages(self, sessions: Iterable[StoredSession], *, most: int) -> list[LastMessage]:
        """Reads the ends of the files until `most` sessions with a user message are found."""

        def spoken() -> Iterator[LastMessage]:
            for session in sessions:
                if session.transcript and (words := last_message(session.place)):
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

    async def rewritten(
        self, change: Rewrite, *, but: Collection[str] = (), dry_run: bool
    ) -> tuple[str, ...]:
        """Implements `RewritableStore`."""
        folder = self.index.directory
        return await asyncio.to_thread(rewritten_files, folder, change, but=but, dry_run=dry_run)

    def fence(self, key: str) -> int | None:  # noqa: ARG002 - all keys are alike
        """Always `None`: the system releases a lock only when its process ends."""
        return None

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
    last = split_lines(data[-TAIL_BYTES:])[-1:]
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
        def put() -> None:
            make_folder(self._directory)
            data = json.dumps(ended_to_json(ended), indent=2).encode()
            replace_file(self._directory / ended_session_file(ended), data)

        await self._worker.run(put)

    async def remove(self, ended: EndedSession) -> None:
        await self._worker.run(lambda: self._remove(self._directory / ended_session_file(ended)))

    async def has(self, ended: EndedSession) -> bool:
        return await self._worker.run((self._directory / ended_session_file(ended)).is_file)

    async def all(self) -> tuple[EndedSession, ...]:
        return await self._worker.run(self._all)

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
