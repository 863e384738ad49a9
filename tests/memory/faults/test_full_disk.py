"""No room for the index: told as such, what was indexed still answers, and nothing has to be mended later."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.memory.doubles import open_engine, workspace
from tests.memory.faults.crash_driver import start

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no limit on the size of files")

MANY = {f"memory/{number}.md": f"note {number} " + "many words " * 400 for number in range(300)}


@pytest.mark.parametrize("how", ["changes", "rebuild"])
async def test_a_full_disk_is_told_and_the_old_index_answers(tmp_path: Path, how: str) -> None:
    """The sentence says that there is no room and what to do; with room again the next sync does the rest."""
    root = workspace(tmp_path, {"memory/old.md": "the giraffe"})
    engine = await open_engine(tmp_path)
    await engine.sync(reason="cli")
    await engine.close()
    workspace(tmp_path, MANY)

    process = start("limited", tmp_path, "600000", *(["force"] if how == "rebuild" else []))
    output = process.communicate(timeout=60)[0]

    assert process.returncode == 0, output
    (refusal,) = [line for line in output.splitlines() if line.startswith("refused:")]
    assert "main.sqlite" in refusal
    assert "the disk is full" in refusal
    assert "make room" in refusal
    assert "found: memory/old.md" in output
    engine = await open_engine(tmp_path)
    await engine.sync(reason="cli")
    status = await engine.status(deep=True)
    assert (status.files, status.dirty, status.quarantined) == (len(MANY) + 1, False, ())
    assert (await engine.search("note 77 words", min_score=0)).hits
    await engine.close()
    assert len(list(root.rglob("*.md"))) == len(MANY) + 1
    assert not list((tmp_path / "state").glob("*.rebuild*"))


def test_an_index_for_which_there_is_no_room_at_all_is_a_sentence(tmp_path: Path) -> None:
    """Opening says which index, and that the disk is full."""
    workspace(tmp_path, {"memory/old.md": "the giraffe"})

    process = start("limited", tmp_path, "1000")
    output = process.communicate(timeout=60)[0]

    assert process.returncode == 1
    assert "IndexUnusable: The memory index" in output
    assert "the disk is full" in output
