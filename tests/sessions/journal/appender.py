"""A process that appends to a transcript and prints each text once it is on disk. Run by the tests."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from uuid import uuid4

from nacre.sessions.journal.journal import Journal
from tests.sessions.talk import ticking_clock, user


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def append(path: Path, name: str, count: int) -> None:
    journal = await Journal.open(
        path, session_id="s-1", cwd=path.parent, now=ticking_clock(), new_id=lambda: str(uuid4())
    )
    say("ready")
    sys.stdin.readline()
    for number in range(count):
        await journal.append(user(f"{name}{number} " + "x" * (number % 7) * 900))
        say(f"{name}{number}")


asyncio.run(append(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
