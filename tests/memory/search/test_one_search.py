"""A search in a process of its own: it opens, answers, closes, and leaves the index as it was."""

from __future__ import annotations

import os
from pathlib import Path

from nacre.memory.stores.sqlite.connection import IndexLock, open_connection
from tests.memory.doubles import NOON, open_engine, workspace

NOTE = "# 2026-02-10\n\n- Lisa adopted a cat named Pepper.\n"


async def _search_once(root: Path) -> list[str]:
    engine = await open_engine(root)
    report = await engine.search("cat")
    await engine.close()
    return [hit.path for hit in report.hits]


async def test_a_search_that_finds_nothing_new_writes_nothing(tmp_path: Path) -> None:
    """For every other process the index is as it was, and the search waits for no lock."""
    root = workspace(tmp_path, {"memory/2026-02-10.md": NOTE})
    # what changed a moment before it was read may change again unseen, and is read again
    os.utime(root / "memory" / "2026-02-10.md", (1, 1))
    await _search_once(tmp_path)
    index = tmp_path / "state" / "main.sqlite"
    other = open_connection(index, read_only=True)
    before = other.pragma("data_version")

    with IndexLock(index).held():
        found = await _search_once(tmp_path)

    assert found == ["memory/2026-02-10.md"]
    assert other.pragma("data_version") == before
    other.close()


async def test_a_search_that_finds_a_new_note_says_when(tmp_path: Path) -> None:
    """What a search brought into the index counts as a sync, also for the status of another process."""
    root = workspace(tmp_path, {"memory/2026-02-10.md": NOTE})
    await _search_once(tmp_path)
    later = NOON.replace(hour=15)
    (root / "memory" / "2026-02-11.md").write_text("- Another cat.\n", encoding="utf-8")

    engine = await open_engine(tmp_path, now=lambda: later)
    await engine.search("cat")
    status = await engine.status()
    await engine.close()

    assert (status.files, status.last_sync_at_seconds) == (2, later.timestamp())
