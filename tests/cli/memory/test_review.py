"""`nacre memory review`: what waits, shown and answered without an agent."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from nacre.memory.files.proposals import ReviewQueue
from nacre.memory.files.sources.proposed_write import ProposedWrite
from nacre.memory.files.sources.source import PRIVATE, Source
from tests.cli.program import run_nacre


async def test_listed_accepted_rejected_and_named_wrongly(tmp_path: Path) -> None:
    """A diff for people, JSON for scripts; one is written, one is not, and a name that is none is told."""
    state = tmp_path / ".nacre"
    queue = ReviewQueue(state / "agents/main/proposals", lock_dir=state / "locks")
    source = Source(
        written_by="flush", audience=PRIVATE, chat="terminal direct chat", at="2026-01-20T10:00:00Z"
    )
    for text in ("- Buy sugar.", "- Sell the hive."):
        await queue.propose(
            ProposedWrite(path="memory/2026-01-20.md", text=text, source=source, is_append=True)
        )

    def run(*arguments: str) -> tuple[str, int]:
        done = run_nacre(tmp_path, "memory", "review", *arguments)
        return done.stdout + done.stderr, done.returncode

    listed, _ = await asyncio.to_thread(run)
    first, second = json.loads((await asyncio.to_thread(run, "list", "--json"))[0])
    accepted, code = await asyncio.to_thread(run, "accept", first["id"])
    rejected, _ = await asyncio.to_thread(run, "reject", "all")
    _, unknown_code = await asyncio.to_thread(run, "accept", second["id"])
    unnamed, unnamed_code = await asyncio.to_thread(run, "accept")

    assert "+- Buy sugar." in listed
    assert "flush in terminal direct chat" in listed
    assert (accepted, code) == (f"Accepted {first['id']}: written into memory/2026-01-20.md.\n", 0)
    assert rejected.startswith(f"Rejected {second['id']}")
    assert (state / "workspace/memory/2026-01-20.md").read_text() == f"{first['text']}\n"
    assert unknown_code == 1
    assert (unnamed_code, "or `all`" in unnamed) == (2, True)
