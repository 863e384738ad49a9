"""What a transcript's own row says, and how a transcript comes to be. Edge: within a transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from nacre.sessions.disk.json_text import split_lines
from nacre.sessions.entries.entries import entry_from_json, session_owner
from nacre.sessions.stores.postgres import statements
from nacre.sessions.stores.postgres.rows import Moment


@dataclass(frozen=True, kw_only=True)
class Head:
    """What a transcript's own row says. `lane` is the key whose lane it belongs to, if that is known."""

    id: Any
    lines: int
    size_bytes: int
    lane: str | None


def head_of(rows: Moment, name: str) -> Head | None:
    """The row of a transcript, if there is one."""
    found = rows.run(statements.HEAD, name=name)
    return Head(**dict(zip(("id", "lines", "size_bytes", "lane"), found[0], strict=True))) if found else None


def lines_from(rows: Moment, head: Head, number: int = 0) -> list[bytes]:
    """The lines of a transcript from one on."""
    return [bytes(line) for (line,) in rows.run(statements.LINES_FROM, transcript=head.id, number=number)]


def begin(rows: Moment, name: str, lines: Sequence[bytes], session_id: str, at: datetime) -> Any:
    """Makes a transcript of lines, the header first; its id, or `None` where there is one of that name."""
    owner_key, chat_kind = next((owner for owner in map(owner_of, lines[1:]) if owner[0]), (None, None))
    made = rows.run(
        statements.BEGIN_TRANSCRIPT,
        name=name,
        session_id=session_id,
        owner_key=owner_key,
        chat_kind=chat_kind,
        lines=len(lines),
        size_bytes=sum(map(len, lines)),
        at=at,
    )
    if not made:
        return None
    each = [{"transcript": made[0][0], "number": number, "line": line} for number, line in enumerate(lines)]
    rows.run_many(statements.ADD_LINE, each)
    return made[0][0]


def owner_of(line: bytes) -> tuple[str | None, str | None]:
    """The key and the kind of chat that a line tells, if it is an owner's record."""
    values = [read.value for read in split_lines(line) if read.value is not None]
    owner = session_owner(entry_from_json(values[0])) if values else None
    return (owner.key or None, owner.chat_kind) if owner is not None else (None, None)
