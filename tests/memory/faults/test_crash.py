"""kill -9 at any moment, and several processes on one index: nothing lost, nothing wrong, nothing locked."""

from __future__ import annotations

import asyncio
import random
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from nacre.memory.stores.sqlite.connection import open_connection, quick_check
from tests.memory.doubles import WordEmbedder, open_engine, workspace
from tests.memory.faults.crash_driver import start

INDEX = Path("state", "main.sqlite")
QUESTIONS = ("note 7 cats", "word31 word32", "note 390")


def _notes(folder: Path) -> None:
    random.seed(5)
    notes = {
        f"memory/{number}.md": f"# Note\n\nnote {number} about cats\n\n"
        + "\n".join(" ".join(f"word{random.randint(0, 400)}" for _ in range(20)) for _ in range(20))
        for number in range(400)
    }
    workspace(folder, notes)


def _content(index: Path) -> list[tuple[object, ...]]:
    """Everything an index says about files and chunks, without its ids."""
    connection = open_connection(index, read_only=True)
    try:
        assert quick_check(connection) == ""
        assert (
            connection.execute("SELECT count(*) FROM chunks_fts").get
            == connection.execute("SELECT count(*) FROM chunks").get
        )
        rows = connection.execute(
            "SELECT path, ordinal, start_line, end_line, text, count(vector_id) FROM chunks"
            " JOIN files ON files.id = file_id LEFT JOIN chunk_vectors ON chunk_id = chunks.id"
            " GROUP BY chunks.id ORDER BY path, ordinal"
        )
        return rows.fetchall()
    finally:
        connection.close()


async def _answers(folder: Path) -> list[list[tuple[str, int, float]]]:
    engine = await open_engine(folder, embedder=WordEmbedder())
    await engine.sync(reason="cli")
    answers = [
        [
            (hit.path, hit.start_line, round(hit.score, 6))
            for hit in (await engine.search(question, min_score=0)).hits
        ]
        for question in QUESTIONS
    ]
    await engine.close()
    return answers


@dataclass(frozen=True, kw_only=True)
class Before:
    """A folder `index` with notes only, a folder `rebuild` with an index of them, and what that says."""

    root: Path
    answers: list[list[tuple[str, int, float]]]
    content: list[tuple[object, ...]]


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Before:
    """Made once for all kills, each of which works on a copy."""
    root = tmp_path_factory.mktemp("before")
    for name in ("index", "rebuild"):
        (root / name).mkdir()
        _notes(root / name)
    answers = asyncio.run(_answers(root / "rebuild"))
    return Before(root=root, answers=answers, content=_content(root / "rebuild" / INDEX))


def _killed(before: Before, mode: str, moment: str, folder: Path) -> None:
    """A copy of what was before, as a kill at this moment leaves it."""
    shutil.copytree(before.root / mode, folder)
    process = start(mode, folder, moment)
    output = process.communicate(timeout=60)[0]
    assert process.returncode == -signal.SIGKILL, output


def _assert_whole(killed: Path, before: Before) -> None:
    """Whatever was done is sound; the next sync completes it, so that it equals a fresh index."""
    index = killed / INDEX
    if index.exists() and index.stat().st_size:
        _content(index)
    assert asyncio.run(_answers(killed)) == before.answers
    assert _content(index) == before.content
    assert not list(index.parent.glob("*.rebuild*"))
    assert not list(index.parent.glob("*.corrupt*"))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["index", "rebuild"])
@pytest.mark.covers("Q-23")
def test_a_kill_at_any_moment_leaves_a_sound_index(tmp_path: Path, before: Before, mode: str) -> None:
    """Killed at statements all over the work: what is there is sound, and the next sync completes it."""
    shutil.copytree(before.root / mode, tmp_path / "whole")
    output = start(mode, tmp_path / "whole").communicate(timeout=60)[0]
    statements = int(output.split("statements ")[1])

    for moment in (*(statements * part // 9 for part in range(1, 9)), statements - 3, statements - 1):
        folder = tmp_path / str(moment)
        _killed(before, mode, str(moment), folder)
        if mode == "rebuild":
            # The old index answers, or the new one: the notes are the same.
            assert _content(folder / INDEX) == before.content
        _assert_whole(folder, before)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.0, 0.001, 0.003, 0.006])
def test_a_kill_while_a_rebuild_is_published_leaves_one_index(
    tmp_path: Path, before: Before, seconds: float
) -> None:
    """In the middle of the copy readers have the old index, after it the new one, never a mixture."""
    folder = tmp_path / "killed"
    _killed(before, "rebuild", f"publish {seconds}", folder)

    assert _content(folder / INDEX) == before.content
    _assert_whole(folder, before)


@pytest.mark.slow
@pytest.mark.covers("IDX-12")
def test_two_processes_share_one_index(tmp_path: Path) -> None:
    """Both write, sync, rebuild and search for a minute: each finds its own newest note every time."""
    workspace(
        tmp_path,
        {"memory/fixed.md": "the fixed giraffe"} | {f"memory/{n}.md": f"note {n}" for n in range(40)},
    )
    started = time.monotonic()
    processes = [start("churn", tmp_path, "60") for _ in range(2)]
    outputs = [process.communicate(timeout=120)[0] for process in processes]

    assert time.monotonic() - started < 115
    for process, output in zip(processes, outputs, strict=True):
        assert process.returncode == 0, output
        assert "wrong" not in output, output
        assert "locked" not in output, output
        assert int(output.split("rounds ")[1]) > 3
    asyncio.run(_answers(tmp_path))
    _content(tmp_path / INDEX)
