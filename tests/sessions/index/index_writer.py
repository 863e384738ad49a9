"""A process that changes an index again and again; takes a folder, a name and a number `n`.

Says `ready`, waits for a line, then counts a shared record up and adds one of its own, `n` times. Each
number is printed once its change is on disk.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

from nacre.sessions.index.index import SessionIndex
from nacre.sessions.index.record import SessionRecord
from tests.sessions.talk import ticking_clock

SHARED = "agent:main:main"


def tell(line: str) -> None:
    """Says a line to the test at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def counted(present: SessionRecord | None) -> SessionRecord:
    """The shared record, counted up by one."""
    present = present or SessionRecord(session_id="shared", updated_at_ms=1)
    return replace(present, compaction_count=(present.compaction_count or 0) + 1)


async def write(folder: Path, name: str, count: int) -> None:
    """Makes the changes and tells of each."""
    index = SessionIndex(folder, now=ticking_clock())
    for number in range(count):
        await index.update(SHARED, counted)
        own = SessionRecord(session_id=f"{name}{number}", updated_at_ms=1)
        await index.update(f"agent:main:telegram:dm:{name}{number}", lambda _, own=own: own)
        tell(str(number))


if __name__ == "__main__":
    tell("ready")
    sys.stdin.readline()
    asyncio.run(write(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
