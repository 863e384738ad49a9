"""Decides and applies what is pruned from the index and removed from the folder of sessions.

Pruning an index record loses nothing: the transcript of a conversation keeps its name and remains listed,
searchable and resumable. Only transcripts of programs, in which no person spoke, are set aside, as
`<name>.deleted.<time>`: no longer listed as a transcript, and restored by one rename. Full tool results move
with their transcript. Files are removed only for a limit that the owner set.

The limits are OpenClaw's (`session.maintenance`): 30 days, 500 records, a high-water mark of 80 %.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeAlias

from nacre.records.record import Record
from nacre.sessions.contracts.errors import SessionCorrupt
from nacre.sessions.contracts.keys import SYNTHETIC_KINDS, key_kind
from nacre.sessions.disk.durable import reported, sync_folder
from nacre.sessions.index.index import SessionIndex
from nacre.sessions.index.record import SessionRecord
from nacre.sessions.journal.journal import FOLDER_SUFFIX, results_folder
from nacre.sessions.upkeep.stored_session import StoredSession, stored_sessions

PROTECTED_KINDS = ("main", "group", "thread", "global")
STRICT_BELOW_ENTRIES = 50
"""Up to this limit, the number of records is exact; above it, it may be exceeded by a tenth before any are
pruned."""
LEAST_SLACK_ENTRIES = 25
HIGH_WATER_SHARE = 0.8
RECENT_MS = 24 * 3_600_000
"""Files changed within a day stay: their notes may not be saved yet, or somebody may be reading them."""

FileKind: TypeAlias = Literal["archive", "synthetic", "ended", "kept"]
"""`archive`: set aside already. `synthetic` and `ended`: transcripts that no key refers to, of programs
and of conversations. `kept`: everything else, which is never removed."""


class MaintenanceLimits(Record):
    """The owner's limits; `None` means no limit. Removal stops at `high_water_bytes`."""

    prune_after_ms: int | None
    most_entries: int
    archive_retention_ms: int | None
    most_bytes: int | None
    high_water_bytes: int | None


class StoredFile(Record):
    """A file in the folder of sessions."""

    name: str
    kind: FileKind
    size_bytes: int
    modified_ms: int


class UpkeepReport(Record):
    """What was done, or would be: keys pruned, files set aside and removed, by name."""

    pruned_keys: tuple[str, ...] = ()
    moved_aside: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    removed_bytes: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether there was nothing to do."""
        return not (self.pruned_keys or self.moved_aside or self.removed)


def lines_to_prune(
    records: Mapping[str, SessionRecord],
    limits: MaintenanceLimits,
    *,
    now_ms: int,
    main_key: str,
    active_keys: Collection[str] = (),
) -> list[str]:
    """The keys to prune: those idle for too long, then the longest idle beyond the limit, programs' first.

    The main session, groups, threads, and sessions that are pinned, archived or in a turn always stay, and so
    does a record without a time or with a future time.
    """
    free = {
        key: _active_at_ms(record)
        for key, record in records.items()
        if key not in active_keys and not _is_protected(key, record, main_key)
    }
    stale = [
        key
        for key, at_ms in free.items()
        if limits.prune_after_ms is not None and 0 < at_ms < now_ms - limits.prune_after_ms
    ]
    left = len(records) - len(stale)
    most = limits.most_entries
    slack = 0 if most < STRICT_BELOW_ENTRIES else max(LEAST_SLACK_ENTRIES, most // 10)
    if left <= most + slack:
        return stale
    order = sorted(
        (key for key in free if key not in set(stale)),
        key=lambda key: (key_kind(key) not in SYNTHETIC_KINDS, free[key]),
    )
    return stale + order[: left - most]


def files_to_remove(
    files: Sequence[StoredFile], limits: MaintenanceLimits, *, now_ms: int
) -> list[StoredFile]:
    """The files to remove: those set aside too long ago, and those beyond the size limit.

    Above `most_bytes`, files are removed until `high_water_bytes` are left: files set aside, then programs'
    transcripts, then those of ended conversations, oldest first. Files that a key refers to and files changed
    within a day stay.
    """
    gone = [
        file
        for file in files
        if file.kind == "archive"
        and limits.archive_retention_ms is not None
        and file.modified_ms < now_ms - limits.archive_retention_ms
    ]
    if limits.most_bytes is None:
        return gone
    left_bytes = _total_bytes(files) - _total_bytes(gone)
    if left_bytes <= limits.most_bytes:
        return gone
    order: tuple[FileKind, ...] = ("archive", "synthetic", "ended")
    target_bytes = high_water_bytes(limits)
    rest = [
        file
        for file in files
        if file.kind in order and file not in gone and file.modified_ms < now_ms - RECENT_MS
    ]
    for file in sorted(rest, key=lambda file: (order.index(file.kind), file.modified_ms, file.name)):
        if left_bytes <= target_bytes:
            break
        gone.append(file)
        left_bytes -= file.size_bytes
    return gone


def high_water_bytes(limits: MaintenanceLimits) -> int:
    """Where removal stops: the setting, at most the limit; 80 % of the limit by default; 0 without a
    limit."""
    most = limits.most_bytes or 0
    if limits.high_water_bytes is None:
        return int(most * HIGH_WATER_SHARE)
    return min(most, limits.high_water_bytes)


def _is_protected(key: str, record: SessionRecord, main_key: str) -> bool:
    chosen = any(record.extra.get(name) for name in ("pinned", "archived"))
    return chosen or key_kind(key, main_key=main_key) in PROTECTED_KINDS


def _active_at_ms(record: SessionRecord) -> int:
    return max(record.last_interaction_at_ms or 0, record.updated_at_ms)


def _total_bytes(files: Iterable[StoredFile]) -> int:
    return sum(file.size_bytes for file in files)


ARCHIVE_MARKS = (".jsonl.deleted.", ".jsonl.reset.")


async def maintain(
    index: SessionIndex,
    limits: MaintenanceLimits,
    *,
    now: Callable[[], datetime],
    main_key: str,
    active_keys: Collection[str] = (),
    dry_run: bool = False,
) -> UpkeepReport:
    """Applies the limits to the folder of sessions; with `dry_run`, only says what that would do.

    `active_keys` have a turn running or waiting.

    Raises:
        SessionWriteFailed: the system refused; what was done so far stays.
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
    aside = [key for key in pruned if key_kind(key) in SYNTHETIC_KINDS]
    paths = [path for key in aside if (path := _transcript(index, pruned[key])) is not None]
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
        SessionWriteFailed: the system refused; what was done so far stays.
    """

    await index.edit(lambda records: without_session(records, session.session_id))
    return move_aside(index.directory / session.transcript, now=now) if session.transcript else None


def without_session(records: Mapping[str, SessionRecord], session_id: str) -> dict[str, SessionRecord | None]:
    """The records that change when a session is deleted."""
    changed: dict[str, SessionRecord | None] = {}
    for key, record in records.items():
        if record.session_id == session_id:
            changed[key] = None
        elif session_id in record.previous_session_ids:
            rest = tuple(name for name in record.previous_session_ids if name != session_id)
            changed[key] = replace(record, previous_session_ids=rest)
    return changed


def move_aside(path: Path, *, now: Callable[[], datetime]) -> Path | None:
    """Renames a transcript to `<name>.deleted.<time>`; returns `None` if it is gone already."""
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


def aside_name(name: str, at: datetime) -> str:
    """The name of a transcript set aside at that time."""
    return f"{name}.deleted.{at.astimezone(UTC).strftime('%Y-%m-%dT%H-%M-%S.%f')[:-3]}Z"


def _transcript(index: SessionIndex, record: SessionRecord) -> Path | None:
    try:
        path = index.transcript_path(record)
    except SessionCorrupt:
        return None
    return path if path.exists() else None


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


def file_kind(name: str, ended: Mapping[str, StoredSession]) -> FileKind:
    """The kind of a file; `ended` are the transcripts that no key refers to."""
    if any(mark in name for mark in ARCHIVE_MARKS):
        return "archive"
    if name not in ended:
        return "kept"
    return "synthetic" if key_kind(ended[name].key) in SYNTHETIC_KINDS else "ended"


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
    """The files with a transcript's full results, set aside or not."""
    folder = _results_folder(path)
    return list(folder.iterdir()) if ".jsonl" in path.name and folder.is_dir() else []


def _results_folder(path: Path) -> Path:
    return path.with_name(path.name.replace(".jsonl", FOLDER_SUFFIX, 1))
