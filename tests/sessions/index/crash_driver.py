"""Run by `tests/faults/test_crash.py`: forks a child for every write of a few changes of an index, kills it.

The parent then reads the folder as the next program would, and says what is wrong with it. One JSON line
an attempt on stdout.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from nacre.sessions.contracts.errors import SessionNotFound
from nacre.sessions.index.index import SessionIndex
from nacre.sessions.index.record import SessionRecord, next_session, resumed_session
from nacre.sessions.stores.files import delete_session, stored_sessions
from nacre.sessions.upkeep.stored_session import find_session
from tests.faults.crash_driver import at_each_write, count_writes
from tests.faults.drivers import forked
from tests.sessions.talk import ticking_clock

MAIN = "agent:main:main"
PEER = "agent:main:telegram:dm:9"


def transcript(folder: Path, session_id: str, key: str) -> None:
    """A transcript that tells its key."""
    header = {"type": "session", "version": 3, "id": session_id, "timestamp": "", "cwd": ""}
    own = {"type": "custom", "id": "a", "customType": "nacre.session", "data": {"key": key}}
    (folder / f"{session_id}.jsonl").write_text(f"{json.dumps(header)}\n{json.dumps(own)}\n")


def prepared(folder: Path) -> SessionIndex:
    """Two sessions of the main key and one of a peer."""
    index = SessionIndex(folder, now=ticking_clock())
    folder.mkdir()
    for session_id, key in (("old", MAIN), ("new", MAIN), ("peer", PEER)):
        transcript(folder, session_id, key)
    main = SessionRecord(session_id="new", updated_at_ms=1, previous_session_ids=("old",), label="kept")
    asyncio.run(index.edit(lambda _: {MAIN: main, PEER: SessionRecord(session_id="peer", updated_at_ms=1)}))
    return index


async def change(index: SessionIndex, folder: Path, kill_before: int) -> None:
    """A fresh session, going back to the oldest, a deletion, and the index written anew, up to the kill."""
    count_writes(kill_before, folder)
    main = await index.update(MAIN, lambda old: next_session(_there(old), session_id="third", at_ms=2))
    await index.update(MAIN, lambda old: resumed_session(_there(old), _old(), at_ms=3))
    sessions = await stored_sessions(index)
    await delete_session(index, find_session(sessions, "peer", agent_id="main"), now=ticking_clock())
    await index.update(MAIN, lambda _: main)
    await index.close()


def _old() -> SessionRecord:
    return SessionRecord(session_id="old", updated_at_ms=1)


def _there(record: SessionRecord | None) -> SessionRecord:
    assert record is not None
    return record


async def problem(folder: Path) -> str:
    """What the next program finds wrong; empty when all is well."""
    index = SessionIndex(folder, now=ticking_clock())
    main = await index.get(MAIN)
    if index.notices:
        return f"the index had to be rebuilt: {index.notices}"
    if main is None or main.session_id not in ("new", "third", "old") or main.label != "kept":
        return f"the main session is {main}"
    ids = {main.session_id, *main.previous_session_ids}
    if not {"new", "old"} <= ids:
        return f"of the main sessions there are only {ids}"
    files = {path.name.split(".deleted")[0] for path in folder.glob("*.jsonl*")}
    if not {"old.jsonl", "new.jsonl", "peer.jsonl"} <= files:
        return f"transcripts are missing: {files}"
    try:
        find_session(await stored_sessions(index), "peer", agent_id="main")
    except SessionNotFound:
        if not list(folder.glob("peer.jsonl.deleted.*")):
            return "the peer's session is neither listed nor deleted"
    await index.update(MAIN, lambda old: next_session(_there(old), session_id="last", at_ms=9))
    left = [path.name for path in folder.iterdir() if path.name.endswith(".tmp")]
    return f"left behind: {left}" if left else ""


def attempt(folder: Path, kill_before: int) -> dict[str, object]:
    """One child, killed before one write, and what became of its index."""
    index = prepared(folder)
    _, status = forked(lambda _tell: change(index, folder, kill_before))
    return {"killed": os.WIFSIGNALED(status), "status": status, "problem": asyncio.run(problem(folder))}


if __name__ == "__main__":
    at_each_write(Path(sys.argv[1]), attempt)
