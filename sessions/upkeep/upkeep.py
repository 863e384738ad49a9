"""Does what `maintenance.py` or a person decides: lines out of the index, transcripts aside, files removed.

Edge. A transcript that is moved aside becomes `<name>.deleted.<time>`: no longer a transcript for anybody who
lists the folder, and one rename away from being one again. Its whole tool results go with it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from nacre.sessions.contracts.errors import SessionCorrupt
from nacre.sessions.contracts.keys import SYNTHETIC_KINDS, key_kind
from nacre.sessions.disk.durable import reported, sync_folder
from nacre.sessions.index.index import SessionIndex
from nacre.sessions.index.record import SessionRecord
from nacre.sessions.journal.journal import FOLDER_SUFFIX, results_folder
from nacre.sessions.upkeep.maintenance import (
    FileKind,
    MaintenanceLimits,
    StoredFile,
    UpkeepReport,
    files_to_remove,
    lines_to_prune,
)
from nacre.sessions.upkeep.stored_session import StoredSession
from nacre.sessions.upkeep.transcript_listing import stored_sessions

ARCHIVE_MARKS = (".jsonl.deleted.", ".jsonl.reset.")


async def keep_up(
    index: SessionIndex,
    limits: MaintenanceLimits,
    *,
    now: Callable[[], datetime],
    main_key: str,
    active_keys: Collection[str] = (),
    dry_run: bool = False,
) -> UpkeepReport:
    """Keeps the folder of sessions within its limits; with `dry_run` only says what that would take.

    `active_keys` are those with a turn running or waiting.

    Raises:
        SessionWriteFailed: the system refused; what was done so far stands.
    """
    now_ms = int(now().timestamp() * 1000)
    pruned: dict[str, SessionRecord] = {}

    def without_pruned(records: Mapping[str, SessionRecord]) -> dict[str, SessionRecord | None]:
        keys = lines_to_prune(records, limits, now_ms=now_ms, main_key=main_key, active_keys=active_keys)
        pruned.clear()
        pruned.update({key: records[key] for key in keys})
        return {} if dry_run else dict.fromkeys(keys)

    # Most of the time there is nothing to do, and a look takes no lock.
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
    """Deletes a session: no key names it any more, and its transcript is moved aside; returns where to.

    `None` when there was no transcript. The index is first, so that a kill in between leaves a session
    that is still listed and can be deleted again. For the holder of the session's lane.

    Raises:
        SessionWriteFailed: the system refused; what was done so far stands.
    """

    await index.edit(lambda records: without_session(records, session.session_id))
    return move_aside(index.directory / session.transcript, now=now) if session.transcript else None


def without_session(records: Mapping[str, SessionRecord], session_id: str) -> dict[str, SessionRecord | None]:
    """The lines that change when a session goes: none names it, and none named it before. Pure."""
    changed: dict[str, SessionRecord | None] = {}
    for key, record in records.items():
        if record.session_id == session_id:
            changed[key] = None
        elif session_id in record.previous_session_ids:
            rest = tuple(name for name in record.previous_session_ids if name != session_id)
            changed[key] = replace(record, previous_session_ids=rest)
    return changed


def move_aside(path: Path, *, now: Callable[[], datetime]) -> Path | None:
    """Renames a transcript to `<name>.deleted.<time>`; `None` when it is gone already."""
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
    """What a transcript is called that was moved aside at that moment. Pure."""
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
    """What a file, or a transcript of that name, is; `ended` are the transcripts that no key names. Pure."""
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
    """The whole tool results of a transcript, moved aside or not."""
    folder = _results_folder(path)
    return list(folder.iterdir()) if ".jsonl" in path.name and folder.is_dir() else []


def _results_folder(path: Path) -> Path:
    return path.with_name(path.name.replace(".jsonl", FOLDER_SUFFIX, 1))
