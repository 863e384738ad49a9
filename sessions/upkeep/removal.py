"""Takes sessions out of the index and their transcripts out of sight, without destroying them. Edge.

A transcript that is moved aside becomes `<name>.deleted.<time>`: no longer a transcript for anybody who
lists the folder, and one rename away from being one again. Its whole tool results go with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from nacre.sessions.disk.durable import reported, sync_folder
from nacre.sessions.disk.whole_results import results_folder
from nacre.sessions.index.index import SessionIndex
from nacre.sessions.index.record import SessionRecord
from nacre.sessions.upkeep.catalogue import StoredSession


async def delete_session(
    index: SessionIndex, session: StoredSession, *, now: Callable[[], datetime]
) -> Path | None:
    """Deletes a session: no key names it any more, and its transcript is moved aside; returns where to.

    `None` when there was no transcript. The index is first, so that a kill in between leaves a session
    that is still listed and can be deleted again. For the holder of the session's lane.

    Raises:
        SessionWriteFailed: the system refused; what was done so far stands.
    """

    def without(records: Mapping[str, SessionRecord]) -> dict[str, SessionRecord | None]:
        changed: dict[str, SessionRecord | None] = {}
        for key, record in records.items():
            if record.session_id == session.session_id:
                changed[key] = None
            elif session.session_id in record.previous_session_ids:
                rest = tuple(name for name in record.previous_session_ids if name != session.session_id)
                changed[key] = replace(record, previous_session_ids=rest)
        return changed

    await index.edit(without)
    return move_aside(session.path, now=now) if session.path is not None else None


def move_aside(path: Path, *, now: Callable[[], datetime]) -> Path | None:
    """Renames a transcript to `<name>.deleted.<time>`; `None` when it is gone already."""
    stamp = now().astimezone(UTC).strftime("%Y-%m-%dT%H-%M-%S.%f")[:-3] + "Z"
    with reported("move aside", path):
        aside = path.with_name(f"{path.name}.deleted.{stamp}")
        number = 1
        while aside.exists():
            number += 1
            aside = path.with_name(f"{path.name}.deleted.{stamp}-{number}")
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
