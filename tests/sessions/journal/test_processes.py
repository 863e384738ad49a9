"""Transcripts under several writers, and under writers that are killed."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sessions.talk import opened, said, set_aside_in, user

ROOT = Path(__file__).parents[3]


def appender(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    """A process that is ready to append `count` messages, and begins when a line comes in."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.sessions.journal.appender", str(path), name, str(count)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


async def test_two_journals_on_one_file_see_each_other(tmp_path: Path) -> None:
    """Two owners of one file append in turns, and the chain stays one line without a gap."""
    path = tmp_path / "s.jsonl"
    one, two = await opened(path, ids="one"), await opened(path, ids="two")
    for number in range(10):
        await one.append(user(f"a{number}"))
        await two.append(user(f"b{number}"))

    assert await one.refresh() is True
    assert await one.refresh() is False
    assert one.tree.branch() == two.tree.branch() == (await opened(path)).tree.branch()
    assert said(one.tree.branch()) == [f"{name}{number}" for number in range(10) for name in "ab"]
    assert one.notices == two.notices == ()


async def test_two_journals_at_once_lose_nothing(tmp_path: Path) -> None:
    """Appends that run into each other all arrive, each owner's in its order, in one chain."""
    path = tmp_path / "s.jsonl"
    one, two = await opened(path, ids="one"), await opened(path, ids="two")
    await asyncio.gather(
        *(one.append(user(f"a{number}")) for number in range(20)),
        *(two.append(user(f"b{number}")) for number in range(20)),
    )
    texts = said((await opened(path)).tree.branch())
    assert [text for text in texts if text[0] == "a"] == [f"a{number}" for number in range(20)]
    assert [text for text in texts if text[0] == "b"] == [f"b{number}" for number in range(20)]


async def test_two_processes_lose_nothing(tmp_path: Path) -> None:
    """Two processes that append at the same time make one chain of all their messages."""
    path = tmp_path / "s.jsonl"
    processes = [appender(path, name, 40) for name in "ab"]
    for process in processes:
        go(process)
    for process in processes:
        process.communicate(timeout=60)

    journal = await opened(path)

    texts = [text.split()[0] for text in said(journal.tree.branch())]
    assert sorted(texts) == sorted(f"{name}{number}" for number in range(40) for name in "ab")
    assert [text for text in texts if text[0] == "b"] == [f"b{number}" for number in range(40)]
    assert journal.notices == ()


@pytest.mark.parametrize("lives", [2, pytest.param(12, marks=pytest.mark.slow)])
async def test_a_killed_writer_loses_nothing_that_it_reported(tmp_path: Path, lives: int) -> None:
    """After kill -9 at any moment the file opens, and every message whose append returned is there."""
    moments = random.Random(lives)
    path = tmp_path / "s.jsonl"
    reported: list[str] = []
    for life in range(lives):
        process = appender(path, f"{life}-", 1000)
        assert process.stdout is not None
        go(process)
        reported += [process.stdout.readline().strip() for _ in range(moments.randrange(1, 12))]
        for _ in range(moments.randrange(20_000)):
            pass  # lets the writer get to another place in its work
        process.kill()
        # Not `communicate`, which does not know of the lines that `readline` has taken from the pipe already.
        reported += process.stdout.read().split("\n")[:-1]
        process.communicate(timeout=60)

        journal = await opened(path, ids=f"life-{life}")
        texts = [text.split()[0] for text in said(journal.tree.branch())]
        assert [text for text in texts if text in set(reported)] == reported
        assert len(texts) <= len(reported) + life + 1


@pytest.mark.covers("A16-3", "W15-2", "ASK-23")
async def test_a_lock_dies_with_its_holder(tmp_path: Path) -> None:
    """A writer that was killed does not keep others out."""
    path = tmp_path / "s.jsonl"
    process = appender(path, "a", 1000)
    go(process)
    process.kill()
    process.communicate(timeout=60)
    journal = await asyncio.wait_for(opened(path), timeout=60)
    await asyncio.wait_for(journal.append(user("free")), timeout=60)
    assert said(journal.tree.branch())[-1] == "free"


async def test_a_torn_line_of_another_writer_is_repaired_in_passing(tmp_path: Path) -> None:
    """When another process dies in mid-line, the next append sets its torn line aside and goes on."""
    path = tmp_path / "s.jsonl"
    journal = await opened(path)
    await journal.append(user("one"))
    with path.open("ab") as file:
        file.write(b'{"type":"message","id":"zz","par')

    await journal.append(user("two"))

    assert said(journal.tree.branch()) == said((await opened(path)).tree.branch()) == ["one", "two"]
    assert set_aside_in(tmp_path) == [b'{"type":"message","id":"zz","par']
    assert "was incomplete" in journal.notices[0]


async def test_a_file_that_was_exchanged_is_read_anew(tmp_path: Path) -> None:
    """When another program puts a different file in the place, the journal goes on from that one."""
    path, other = tmp_path / "s.jsonl", tmp_path / "t.jsonl"
    journal, source = await opened(path), await opened(other)
    await journal.append(user("old"))
    await source.append(user("new"))
    other.replace(path)

    assert await journal.refresh() is True
    await journal.append(user("next"))
    assert said(journal.tree.branch()) == said((await opened(path)).tree.branch()) == ["new", "next"]
    assert journal.notices == ("s.jsonl was changed by another program and was read again.",)


async def test_a_file_that_was_written_over_is_read_anew(tmp_path: Path) -> None:
    """A longer text in the same file is not taken for lines that were appended to it."""
    path, other = tmp_path / "s.jsonl", tmp_path / "t.jsonl"
    journal, source = await opened(path), await opened(other)
    await journal.append(user("old"))
    for text in ("new", "and longer " * 50):
        await source.append(user(text))
    path.write_bytes(other.read_bytes())

    assert await journal.refresh() is True
    await journal.append(user("next"))
    assert said(journal.tree.branch()) == ["new", "and longer " * 50, "next"]
    assert journal.notices == ("s.jsonl was changed by another program and was read again.",)
    assert set_aside_in(tmp_path) == []
