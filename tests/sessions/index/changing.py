"""Records, an index on a folder, and changes of a record, for the tests of the index's changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from nacre.sessions.index.index import SessionIndex
from nacre.sessions.index.record import SessionRecord
from tests.sessions.talk import ticking_clock

MAIN = "agent:main:main"
FIXTURES = Path(__file__).parents[2] / "fixtures" / "sessions"


def record(session_id: str = "s-1", **more: object) -> SessionRecord:
    return replace(SessionRecord(session_id=session_id, updated_at_ms=5), **more)


def index(folder: Path) -> SessionIndex:
    return SessionIndex(folder, now=ticking_clock())


def put(given: SessionRecord) -> Callable[[SessionRecord | None], SessionRecord]:
    return lambda _present: given


def change(**more: object) -> Callable[[SessionRecord | None], SessionRecord]:
    return lambda present: replace(present or record(), **more)
