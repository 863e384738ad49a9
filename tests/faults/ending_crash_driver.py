"""Run by `test_crash.py`: kills a child before every write of `/new` and of what follows it.

The parent then opens the state folder again, says something, ends that session too, and compares each
transcript with the notes that stand for it. One JSON line an attempt on stdout.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.faults.crash_driver import at_each_write, count_writes
from tests.faults.drivers import forked
from tests.runtime.agents import kinds, opened, said, user_texts, write_settings


async def talk(state_dir: Path, kill_before: int) -> None:
    """A session that ends while its process is killed."""
    async with opened(state_dir, None) as agent:
        await agent.respond(said("Remember that we sail at nine."))
        count_writes(kill_before, state_dir)
        await agent.respond(said("/new Remember that the boat needs paint."))


async def gone_on(state_dir: Path) -> str:
    """Starts again and ends the session that is there; a sentence when anything is wrong."""
    async with opened(state_dir, None, ids="after-") as agent:
        await agent.respond(said("Remember that the dog is called Rex."))
        await agent.respond(said("/new"))
    if left := list((state_dir / "agents/main/endings").glob("*.json")):
        return f"{len(left)} endings are left"
    notes = [path.read_text(encoding="utf-8") for path in (state_dir / "workspace/memory").glob("*-*-*-*.md")]
    ended = 0
    for file in sorted((state_dir / "agents/main/sessions").glob("*.jsonl")):
        own = [note for note in notes if f"**Session ID**: {file.stem}\n" in note]
        texts = user_texts(file)
        ended += bool(texts)
        if len(own) != bool(texts) or any(text not in own[0] for text in texts):
            return f"{len(own)} notes for the session {file.stem} with {texts}"
        if texts and "nacre.flush" not in kinds(file):
            return f"the session {file.stem} with {texts} was left without a flush"
    if ended not in (1, 2) or len(notes) != ended:
        return f"{len(notes)} notes for {ended} sessions"
    return ""


def attempt(state_dir: Path, kill_before: int) -> dict[str, object]:
    """One child, killed before one write, and what became of its sessions.

    Notes are not committed to git: that has as many writes again, and `crash_driver.py` kills before each.
    """
    write_settings(state_dir, {"memory": {"history": {"commits": "off"}}})
    _, status = forked(lambda _tell: talk(state_dir, kill_before))
    return {
        "kill_before": kill_before,
        "killed": os.WIFSIGNALED(status),
        "status": status,
        "problem": asyncio.run(gone_on(state_dir)),
    }


if __name__ == "__main__":
    at_each_write(Path(sys.argv[1]), attempt)
