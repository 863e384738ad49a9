"""kill -9 at any moment, and several processes on one index: nothing lost, nothing wrong, nothing locked."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from nacre.memory.sqlite_connection import open_connection, quick_check
from tests.memory.crash_driver import start
from tests.memory.doubles import WordEmbedder, open_engine, workspace

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


def _kill_after(process: subprocess.Popen[str], lines: int, seconds: float) -> None:
    """Kills a driver when it has told `lines` steps, and `seconds` more."""
    assert process.stdout is not None
    for _ in range(lines):
        if not process.stdout.readline():
            break
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
    process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["index", "rebuild"])
def test_a_kill_at_any_moment_leaves_a_sound_index(tmp_path: Path, mode: str) -> None:
    """After each of several kills the index opens and answers; in the end it equals a fresh one."""
    killed, fresh = tmp_path / "killed", tmp_path / "fresh"
    for folder in (killed, fresh):
        folder.mkdir()
        _notes(folder)
    expected = asyncio.run(_answers(fresh))
    if mode == "rebuild":
        asyncio.run(_answers(killed))
    for lines, seconds in ((1, 0.02), (2, 0.0), (5, 0.01), (8, 0.05), (12, 0.1), (20, 0.15)):
        _kill_after(start(mode, killed), lines, seconds)
        if (killed / "state" / "main.sqlite").exists():
            _content(killed / "state" / "main.sqlite")
        if mode == "rebuild":
            assert asyncio.run(_answers(killed)) == expected

    assert asyncio.run(_answers(killed)) == expected
    assert _content(killed / "state" / "main.sqlite") == _content(fresh / "state" / "main.sqlite")
    assert not list((killed / "state").glob("*.rebuild*"))
    assert not list((killed / "state").glob("*.corrupt*"))


@pytest.mark.slow
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
    _content(tmp_path / "state" / "main.sqlite")
