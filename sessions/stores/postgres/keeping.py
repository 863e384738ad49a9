"""Upkeep within a transaction: lines go, transcripts are moved aside, removed and forget words. Edge."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import NamedTuple

from nacre.sessions.contracts.keys import SYNTHETIC_KINDS, key_kind
from nacre.sessions.index.record import SessionRecord
from nacre.sessions.stores.postgres import statements
from nacre.sessions.stores.postgres.lines import all_lines, edited
from nacre.sessions.stores.postgres.rows import Moment
from nacre.sessions.stores.rewriting import Rewrite
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
from nacre.sessions.upkeep.stored_session import StoredSession


class TranscriptRow(NamedTuple):
    """What a listing knows of a transcript, in the order of `statements.TRANSCRIPTS`."""

    name: str
    session_id: str
    owner_key: str | None
    chat_kind: str | None
    lines: int
    size_bytes: int
    begun_at: datetime
    grown_at: datetime
    is_aside: bool


def transcript_rows(rows: Moment) -> list[TranscriptRow]:
    """All transcripts by name, those that were moved aside too."""
    return [TranscriptRow(*row) for row in rows.run(statements.TRANSCRIPTS)]


def deleted(rows: Moment, session: StoredSession, at: datetime) -> str:
    """Takes a session out of all lists; what its transcript is called now, empty if there is none."""
    edited(rows, lambda records: without_session(records, session.session_id))
    return _moved_aside(rows, session.transcript, at) if session.transcript else ""


def kept_up(
    rows: Moment,
    limits: MaintenanceLimits,
    *,
    ended: Mapping[str, StoredSession],
    at: datetime,
    main_key: str,
    active_keys: Collection[str],
    dry_run: bool,
) -> UpkeepReport:
    """Keeps all within limits, or says what that would take. `ended` are transcripts that no key names."""
    now_ms = int(at.timestamp() * 1000)
    pruned: dict[str, SessionRecord] = {}

    def without_pruned(records: Mapping[str, SessionRecord]) -> dict[str, SessionRecord | None]:
        keys = lines_to_prune(records, limits, now_ms=now_ms, main_key=main_key, active_keys=active_keys)
        pruned.update({key: records[key] for key in keys})
        return dict.fromkeys(keys)

    if dry_run:
        without_pruned(all_lines(rows))
    else:
        edited(rows, without_pruned)
    there = {row.name: row for row in transcript_rows(rows)}
    programs = [record for key, record in pruned.items() if key_kind(key) in SYNTHETIC_KINDS]
    names = [record.session_file or f"{record.session_id}.jsonl" for record in programs]
    aside = tuple(name for name in names if name in there and not there[name].is_aside)
    for name in () if dry_run else aside:
        _moved_aside(rows, name, at)
    removed = files_to_remove(_files(rows, limits, ended), limits, now_ms=now_ms)
    for file in () if dry_run else removed:
        rows.run(statements.REMOVE_TRANSCRIPT, name=file.name)
    return UpkeepReport(
        pruned_keys=tuple(pruned),
        moved_aside=aside,
        removed=tuple(file.name for file in removed),
        removed_bytes=sum(file.size_bytes for file in removed),
    )


def _files(rows: Moment, limits: MaintenanceLimits, ended: Mapping[str, StoredSession]) -> list[StoredFile]:
    if limits.most_bytes is None and limits.archive_retention_ms is None:
        return []
    results: dict[str, int] = dict(rows.run(statements.RESULT_BYTES))
    return [
        StoredFile(
            name=row.name,
            kind=file_kind(row.name, ended),
            size_bytes=row.size_bytes + results.get(row.name, 0),
            modified_ms=int(row.grown_at.timestamp() * 1000),
        )
        for row in transcript_rows(rows)
    ]


def _moved_aside(rows: Moment, name: str, at: datetime) -> str:
    moved = rows.run(statements.MOVE_ASIDE, name=name, aside=aside_name(name, at), at=at)
    return str(moved[0][0]) if moved else ""


def rewritten(rows: Moment, *, name: str, change: Rewrite, dry_run: bool) -> bool:
    """Changes the lines and whole results of a transcript; whether there was anything to change."""
    is_changed = False
    for (transcript,) in rows.run(statements.HAS_TRANSCRIPT, name=name):
        for number, line in rows.run(statements.NUMBERED_LINES, transcript=transcript):
            old = bytes(line).removesuffix(b"\n")
            if (new := change.line(old)) == old:
                continue
            is_changed = True
            if not dry_run:
                rows.run(statements.SET_LINE, transcript=transcript, number=number, line=new + b"\n")
        for result, body in rows.run(statements.RESULTS, transcript=transcript):
            if (new := change.result(bytes(body))) == bytes(body):
                continue
            is_changed = True
            if not dry_run:
                rows.fenced(statements.KEEP_RESULT, lane=None, transcript=transcript, name=result, body=new)
    return is_changed
