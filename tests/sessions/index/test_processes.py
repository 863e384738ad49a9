"""The index under several processes, and under processes that are killed or refused by the system."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from nacre.sessions.index.index import SessionIndex
from tests.sessions.index.index_writer import SHARED, counted
from tests.sessions.talk import set_aside_in, ticking_clock

ROOT = Path(__file__).parents[3]


def writer(folder: Path, name: str, count: int) -> subprocess.Popen[str]:
    """A process that has begun to write."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.sessions.index.index_writer", str(folder), name, str(count)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.stdin.write("go\n")
    process.stdin.flush()
    return process


def python(script: str, *arguments: object) -> str:
    """What a script prints that imports the house; it must end well."""
    run = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


@pytest.mark.parametrize("count", [40, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.covers("A4-5", "A4-6", "ASK-23")
async def test_two_processes_lose_no_update(tmp_path: Path, count: int) -> None:
    """Hundreds of changes of one record and of many by two processes at once are all there."""
    processes = [writer(tmp_path, name, count) for name in "ab"]
    readable = 0
    while any(process.poll() is None for process in processes):
        # A reader never takes a lock and never sees half a file.
        readable += bool(await SessionIndex(tmp_path, now=ticking_clock()).all())
        await asyncio.sleep(0)
    for process in processes:
        process.communicate(timeout=60)

    index = SessionIndex(tmp_path, now=ticking_clock())
    records = await index.all()

    assert readable
    assert records[SHARED].compaction_count == 2 * count
    assert len(records) == 2 * count + 1
    assert index.notices == ()
    assert set_aside_in(tmp_path) == []


async def test_one_folder_under_two_names_has_one_lock(tmp_path: Path) -> None:
    """Writers that reach it through a link and writers that do not wait for each other."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    writers = [SessionIndex(tmp_path / name, now=ticking_clock()) for name in ("real", "link")]

    await asyncio.gather(*(writers[number % 2].update(SHARED, counted) for number in range(30)))

    record = await writers[0].get(SHARED)
    assert record is not None
    assert record.compaction_count == 30


@pytest.mark.parametrize("lives", [2, pytest.param(15, marks=pytest.mark.slow)])
@pytest.mark.covers("W4-2", "A16-3")
async def test_a_killed_writer_leaves_a_whole_index(tmp_path: Path, lives: int) -> None:
    """After kill -9 at any moment the index reads, has every change that was reported, and can be written."""
    moments = random.Random(lives)
    reported: list[str] = []
    for life in range(lives):
        process = writer(tmp_path, f"{life}-", 1_000)
        assert process.stdout is not None
        reported += [
            f"agent:main:telegram:dm:{life}-{process.stdout.readline().strip()}"
            for _ in range(moments.randrange(1, 8))
        ]
        for _ in range(moments.randrange(40_000)):
            pass  # lets the writer get to another place in its work
        process.kill()
        process.communicate(timeout=60)

        index = SessionIndex(tmp_path, now=ticking_clock())
        assert set(reported) <= set(await index.all())
        assert index.notices == ()
    before = (await SessionIndex(tmp_path, now=ticking_clock()).all())[SHARED]
    after = await SessionIndex(tmp_path, now=ticking_clock()).update(SHARED, counted)
    assert after == counted(before)


@pytest.mark.covers("A16-3")
async def test_what_a_killed_writer_left_is_swept(tmp_path: Path) -> None:
    """The half-written files of killed writers go with the next change; nothing else does."""
    index = ("sessions.json", "sessions.json.bak", "sessions.json.changes", "sessions.json.changes.bak")
    for name in (*(f"{name}.77-1.tmp" for name in index), "notes.tmp", "s.jsonl.77-1.tmp"):
        (tmp_path / name).write_text("half")

    await SessionIndex(tmp_path, now=ticking_clock()).update(SHARED, counted)

    assert {path.name for path in tmp_path.iterdir()} - {"sessions.json.lock"} == {
        "sessions.json",
        "sessions.json.changes",
        "sessions.json.changes.bak",
        "notes.tmp",
        "s.jsonl.77-1.tmp",
    }


FULL_DISK = """
import asyncio, resource, sys
from pathlib import Path
from nacre.sessions.contracts.errors import SessionWriteFailed
from nacre.sessions.index.index import SessionIndex
from tests.sessions.index.index_writer import SHARED, counted
from tests.sessions.talk import ticking_clock

resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))
index = SessionIndex(Path(sys.argv[1]), now=ticking_clock())
try:
    asyncio.run(index.update("agent:main:telegram:dm:" + "x" * 400, counted))
except SessionWriteFailed as error:
    print(error)
"""


@pytest.mark.covers("W4-2")
async def test_a_full_disk_leaves_the_index_as_it_was(tmp_path: Path) -> None:
    """A change that does not fit is refused with a sentence; index, backup and folder are as before."""
    for _ in range(2):
        await SessionIndex(tmp_path, now=ticking_clock()).update(SHARED, counted)
        await SessionIndex(tmp_path, now=ticking_clock()).close()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    said = python(FULL_DISK, tmp_path)

    assert said.startswith(f"Could not write {tmp_path / 'sessions.json.changes'}: File too large.")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    await SessionIndex(tmp_path, now=ticking_clock()).update(SHARED, counted)
    await SessionIndex(tmp_path, now=ticking_clock()).close()
    assert json.loads((tmp_path / "sessions.json").read_text())[SHARED]["compactionCount"] == 3
    assert json.loads((tmp_path / "sessions.json.bak").read_text())[SHARED]["compactionCount"] == 2


READ_ONLY = """
import asyncio, ctypes, os, sys
from pathlib import Path

if os.getuid() == 0 and len(sys.argv) == 2:
    # Root ignores permissions; without CAP_DAC_OVERRIDE (1), dropped for the next program, it does not.
    ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)
    os.execv(sys.executable, [*sys.orig_argv, "again"])

from nacre.sessions.contracts.errors import SessionWriteFailed
from nacre.sessions.index.index import SessionIndex
from tests.sessions.index.index_writer import SHARED, counted
from tests.sessions.talk import ticking_clock

index = SessionIndex(Path(sys.argv[1]), now=ticking_clock())
print(sorted(asyncio.run(index.all())))
try:
    asyncio.run(index.update(SHARED, counted))
except SessionWriteFailed as error:
    print(error)
"""


async def test_a_read_only_folder_is_read_and_told(tmp_path: Path) -> None:
    """Where nothing can be written, sessions are listed all the same, and a change is refused."""
    folder = tmp_path / "sessions"
    await SessionIndex(folder, now=ticking_clock()).update(SHARED, counted)
    for path in folder.iterdir():
        path.chmod(0o400)
    folder.chmod(0o555)

    said = python(READ_ONLY, folder).splitlines()
    folder.chmod(0o755)

    assert said[0] == f"['{SHARED}']"
    assert said[1].startswith("Could not ")
    assert "Permission denied" in said[1]
    assert said[1].endswith("then try again.")
