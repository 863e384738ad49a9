"""Decides what is pruned from the index and removed from the folder of sessions.

Pruning an index record loses nothing: the transcript of a conversation keeps its name and remains listed,
searchable and resumable. Only transcripts of programs, in which no person spoke, are set aside. Files are
removed only for a limit that the owner set.

The limits are OpenClaw's (`session.maintenance`): 30 days, 500 records, a high-water mark of 80 %.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeAlias

from nacre.locks import try_lock
from nacre.record import Record
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.contracts.keys import SYNTHETIC_KINDS, key_kind
from nacre.sessions.disk.durable import reading, reported
from nacre.sessions.disk.json_text import read_lines
from nacre.sessions.entries.entries import FORMAT_VERSION, header_from_json
from nacre.sessions.index.record import SessionRecord
from nacre.sessions.journal.journal import FOLDER_SUFFIX
from nacre.sessions.upkeep.stored_session import StoredSession

PROTECTED_KINDS = ("main", "group", "thread", "global")

STRICT_BELOW_ENTRIES = 50
"""Below this limit, the number of records is exact; above it, a tenth more is allowed before pruning."""

LEAST_SLACK_ENTRIES = 25

HIGH_WATER_SHARE = 0.8

RECENT_MS = 24 * 3_600_000
"""Files changed within a day stay, because their notes may not be saved yet or they may be in use."""

FileKind: TypeAlias = Literal["archive", "synthetic", "ended", "kept"]
"""`archive`: set aside before. `synthetic` and `ended`: transcripts of programs and of conversations to which
no key refers. `kept`: everything else, which is never removed."""


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
    """The changes that were, or would be, made: pruned keys, and names of set-aside and removed files."""

    pruned_keys: tuple[str, ...] = ()
    moved_aside: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    removed_bytes: int = 0

    @property
    def is_empty(self) -> bool:
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
        key: max(record.last_interaction_at_ms or 0, record.updated_at_ms)
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
    """The files to remove: those set aside too long ago, and those above the size limit.

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
    """Where removal stops: the setting, or 80 % of the limit; at most the limit, and 0 without one."""
    most = limits.most_bytes or 0
    if limits.high_water_bytes is None:
        return int(most * HIGH_WATER_SHARE)
    return min(most, limits.high_water_bytes)


def _is_protected(key: str, record: SessionRecord, main_key: str) -> bool:
    chosen = any(record.extra.get(name) for name in ("pinned", "archived"))
    return chosen or key_kind(key, main_key=main_key) in PROTECTED_KINDS


def _total_bytes(files: Iterable[StoredFile]) -> int:
    return sum(file.size_bytes for file in files)


ARCHIVE_MARKS = (".jsonl.deleted.", ".jsonl.reset.")


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


def aside_name(name: str, at: datetime) -> str:
    """The name of a transcript set aside at that time."""
    return f"{name}.deleted.{at.astimezone(UTC).strftime('%Y-%m-%dT%H-%M-%S.%f')[:-3]}Z"


def file_kind(name: str, ended: Mapping[str, StoredSession]) -> FileKind:
    """The kind of a file; `ended` are the transcripts that no key refers to."""
    if any(mark in name for mark in ARCHIVE_MARKS):
        return "archive"
    if name not in ended:
        return "kept"
    return "synthetic" if key_kind(ended[name].key) in SYNTHETIC_KINDS else "ended"


_UNFINISHED = re.compile(r"\.(?P<process>\d+)-\d+\.tmp$")


class TranscriptProblem(Record):
    """The damage of one transcript.

    `unreadable_lines` are numbered from 1 and exclude an incomplete last line (`is_torn`). `problem` is set
    if the file as a whole cannot be read.
    """

    path: Path
    unreadable_lines: tuple[int, ...] = ()
    is_torn: bool = False
    problem: str = ""


def transcript_problems(directory: Path) -> Iterator[TranscriptProblem]:
    """The damaged transcripts of a folder by name. Raises `SessionWriteFailed`."""
    for path in _listed(directory):
        if path.suffix == ".jsonl" and path.is_file():
            found = _looked_at(path)
            if found.unreadable_lines or found.is_torn or found.problem:
                yield found


def orphaned_results(directory: Path) -> list[Path]:
    """Folders of full tool results without a transcript. Raises `SessionWriteFailed`."""
    names = {path.name for path in _listed(directory)}
    return [
        directory / name
        for name in sorted(names)
        if name.endswith(FOLDER_SUFFIX)
        and not any(each.startswith(f"{name.removesuffix(FOLDER_SUFFIX)}.jsonl") for each in names)
    ]


def unfinished_files(directories: Iterable[Path]) -> list[Path]:
    """Temporary files of killed processes; those of running processes are left out."""
    return sorted(
        path
        for directory in directories
        for path in _listed(directory)
        if (found := _UNFINISHED.search(path.name)) and not _is_running(int(found["process"]))
    )


def running_turns(folder: Path) -> int:
    """The number of running turns. The kernel frees a lock when its holder dies, so none is stale."""
    held = 0
    for path in folder.glob("*.lane"):
        release = try_lock(path)
        if release is None:
            held += 1
        else:
            release()
    return held


def _listed(directory: Path) -> list[Path]:
    with reported("list", directory):
        return sorted(directory.iterdir()) if directory.is_dir() else []


def _looked_at(path: Path) -> TranscriptProblem:
    unreadable: list[int] = []
    is_torn, is_first = False, True
    try:
        with reading(path) as file:
            for number, line in enumerate(read_lines(file), start=1):
                if line.value is None:
                    is_torn = not line.is_ended
                    unreadable += [] if is_torn else [number]
                elif is_first:
                    is_first = False
                    header = header_from_json(line.value)
                    if header is not None and header.version > FORMAT_VERSION:
                        return TranscriptProblem(path=path, problem=f"has the newer format {header.version}")
    except (SessionError, FileNotFoundError) as error:
        return TranscriptProblem(path=path, problem=str(error))
    return TranscriptProblem(path=path, unreadable_lines=tuple(unreadable), is_torn=is_torn)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # the process belongs to another user
        return True
    return True
