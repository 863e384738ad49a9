"""Which lines of the index and which files of the folder are let go, and in which order. Pure.

A line that is let go costs nobody a word: the transcript of a conversation keeps its name and stays
listed, searchable and there to go back to. Only transcripts of programs, in which no person spoke, are
moved aside. Files are removed for one reason alone, a limit that the owner set.

The limits are OpenClaw's (`session.maintenance`): 30 days, 500 lines, a high-water mark of 80 %.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from nacre.record import Record
from nacre.sessions.contracts.keys import SYNTHETIC_KINDS, key_kind
from nacre.sessions.index.record import SessionRecord

PROTECTED_KINDS = ("main", "group", "thread", "global")
STRICT_BELOW_ENTRIES = 50
"""Up to so many lines a limit is kept to the line; above it may be passed by a tenth before lines go."""
LEAST_SLACK_ENTRIES = 25
HIGH_WATER_SHARE = 0.8
RECENT_MS = 24 * 3_600_000
"""What changed within a day stays on disk: its notes may not be saved yet, or somebody is looking at it."""

FileKind: TypeAlias = Literal["archive", "synthetic", "ended", "kept"]
"""`archive`: moved aside already. `synthetic`, `ended`: transcripts that no key names now, of programs and
of conversations. `kept`: everything else, which is never removed."""


class MaintenanceLimits(Record):
    """What the owner allows; `None` is no limit. `high_water_bytes` is where removing stops."""

    prune_after_ms: int | None
    most_entries: int
    archive_retention_ms: int | None
    most_bytes: int | None
    high_water_bytes: int | None


class StoredFile(Record):
    """A file of the folder of sessions."""

    name: str
    kind: FileKind
    size_bytes: int
    modified_ms: int


class UpkeepReport(Record):
    """What was done, or would be: keys pruned, files moved aside and removed, by name."""

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
    """The keys whose lines go: idle for too long, and then the idlest beyond the limit, programs' first.

    The main session, groups, threads, sessions that are pinned, archived or in a turn stay whatever the
    limits say; so does a line without a time, or with one that is still to come.
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
    """What goes: what was moved aside too long ago, and what the limit of bytes asks for.

    Above `most_bytes` files go until `high_water_bytes` are left: what was moved aside, then programs'
    transcripts, then those of conversations that ended, the oldest first. What a key names stays, and
    what changed within a day.
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
    """Where removing stops: as set, at most the limit, else four fifths of it; 0 without a limit."""
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
