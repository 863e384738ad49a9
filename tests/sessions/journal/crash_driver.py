"""Run by `tests/faults/test_crash.py`: forks a child for every write to a few transcripts, kills it there.

The transcripts are of an older format, without a header, torn, and sound; the child opens them, appends
to each, and goes back, names a place and forks in the sound one. The parent then opens all of them as the
next program would, and says what is wrong. One JSON line an attempt on stdout.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from nacre.sessions.entries.entries import Label
from tests.faults.crash_driver import at_each_write, count_writes
from tests.faults.drivers import forked
from tests.sessions.talk import FIXTURES, opened, said, user

SOUND = "v3-pi.jsonl"


def prepared(folder: Path) -> dict[str, bytes]:
    """The transcripts before anything happens to them, by name."""
    folder.mkdir()
    texts = {
        "v1.jsonl": (FIXTURES / "v1.jsonl").read_bytes(),
        "v2.jsonl": (FIXTURES / "v2.jsonl").read_bytes(),
        SOUND: (FIXTURES / SOUND).read_bytes(),
        "torn.jsonl": (FIXTURES / "torn.jsonl").read_bytes(),
        "headless.jsonl": (FIXTURES / SOUND).read_bytes().split(b"\n", 1)[1],
    }
    for name, data in texts.items():
        (folder / name).write_bytes(data)
    return texts


async def change(folder: Path, names: list[str], kill_before: int, tell: Callable[[list[str]], None]) -> None:
    """The steps that are killed; `tell` takes what must be on disk from then on."""
    count_writes(kill_before, folder)
    for name in names:
        journal = await opened(folder / name, ids=name)
        await journal.append(user(f"to {name}"))
        tell([name, f"to {name}"])
    journal = await opened(folder / SOUND, ids="more")
    first = journal.tree.branch()[0].id
    await journal.append(Label(target_id=first, label="begin"))
    await journal.fork("fork.jsonl", session_id="fork", leaf_id=journal.tree.leaf_id)
    await journal.rewind(first, summary="What was left.")
    await journal.append(user("elsewhere"))
    tell([SOUND, "elsewhere"])


async def problem(folder: Path, before: dict[str, bytes], told: list[list[str]]) -> str:
    """What the next program finds wrong; empty when all is well."""
    for name, data in before.items():
        journal = await opened(folder / name, ids="after")
        await journal.append(user("after"))
        entries = said((await opened(folder / name, ids="again")).tree.entries)
        lost = [text for there, text in told if there == name and text not in entries]
        if lost or entries[-1] != "after":
            return f"{name} lost {lost} and ends in {entries[-1]!r}"
        files = [file for file in folder.glob(f"{name}*") if file.is_file()]
        kept = {line for file in files for line in file.read_bytes().split(b"\n")}
        if missing := set(data.split(b"\n")) - kept - {b""}:
            return f"{name} misses {missing}"
    if (folder / "fork.jsonl").exists():
        fork = await opened(folder / "fork.jsonl")
        if fork.notices or said(fork.tree.branch())[-1] != f"to {SOUND}" or not fork.tree.labeled("begin"):
            return f"the fork is not whole: {said(fork.tree.branch())}, {fork.notices}"
    return ""


def attempt(folder: Path, kill_before: int) -> dict[str, object]:
    """One child, killed before one write, and what became of its transcripts."""
    before = prepared(folder)
    told, status = forked(lambda tell: change(folder, list(before), kill_before, tell))
    found = asyncio.run(problem(folder, before, told))
    return {"killed": os.WIFSIGNALED(status), "status": status, "problem": found}


if __name__ == "__main__":
    at_each_write(Path(sys.argv[1]), attempt)
