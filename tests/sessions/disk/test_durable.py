"""What is reported as written is on the disk before the next step."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import pytest

from nacre.sessions.disk.durable import replace_file, set_aside, write_all
from tests.sessions.talk import START, HeldDisk, opened, user


class Watched:
    """A disk whose every sync is written down: the synced folder or file, and what the target then held."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.synced: list[tuple[str, bytes]] = []

    def sync(self, descriptor: int) -> None:
        facts = os.fstat(descriptor)
        what = "folder" if stat.S_ISDIR(facts.st_mode) else f"{facts.st_size} bytes"
        self.synced.append((what, self.target.read_bytes() if self.target.exists() else b""))
        os.fsync(descriptor)


def test_all_is_written_before_it_is_synced(tmp_path: Path) -> None:
    """One sync, and the file has every byte by then."""
    path = tmp_path / "a"
    disk = Watched(path)
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY)
    write_all(descriptor, b"words", sync=disk.sync)
    os.close(descriptor)
    assert disk.synced == [("5 bytes", b"words")]


@pytest.mark.covers("ATT-18")
def test_a_replacement_is_synced_then_named_then_its_folder_is_synced(tmp_path: Path) -> None:
    """A power cut at any moment leaves the old bytes or all of the new ones under the name."""
    path = tmp_path / "a"
    path.write_bytes(b"old")
    disk = Watched(path)
    replace_file(path, b"newer", sync=disk.sync)
    assert disk.synced == [("5 bytes", b"old"), ("folder", b"newer")]
    assert path.read_bytes() == b"newer"


def test_what_is_set_aside_is_synced_with_its_name(tmp_path: Path) -> None:
    """The copy is on the disk before the caller touches the original."""
    path = tmp_path / "a"
    path.write_bytes(b"torn")
    disk = Watched(path)
    aside = set_aside(path, b"torn end", now=lambda: START, sync=disk.sync)
    assert disk.synced == [("8 bytes", b"torn"), ("folder", b"torn")]
    assert aside.read_bytes() == b"torn end"


async def test_an_append_returns_once_the_disk_has_the_entry(tmp_path: Path) -> None:
    """One sync of the whole file, after its last byte."""
    path = tmp_path / "s.jsonl"
    disk = Watched(path)
    journal = await opened(path, sync=disk.sync)
    await journal.append(user("hi"))
    disk.synced.clear()
    await journal.append(user("again"))
    written = path.read_bytes()
    assert disk.synced == [(f"{len(written)} bytes", written)]


@pytest.mark.parametrize("is_opened_again", [False, True])
async def test_a_new_transcript_is_synced_with_its_folder_by_the_first_message(
    tmp_path: Path, is_opened_again: bool
) -> None:
    """Header and records before it cost no step of their own, also if whoever began it was killed."""
    path = tmp_path / "s.jsonl"
    disk = Watched(path)
    journal = await opened(path, sync=disk.sync)
    await journal.append_custom("record", {}, durable=False)
    assert not path.exists()
    if is_opened_again:
        journal = await opened(path, sync=disk.sync)
    await journal.append(user("hi"))
    written = path.read_bytes()
    assert len(written.splitlines()) == (2 if is_opened_again else 3)
    assert disk.synced == [(f"{len(written)} bytes", written), ("folder", written)]


async def test_an_append_waits_for_the_disk(tmp_path: Path) -> None:
    """While the disk is busy, nobody is told that a message is safe, and nobody sees it."""
    disk = HeldDisk()
    journal = await opened(tmp_path / "s.jsonl", sync=disk.sync)
    with disk.held():
        append = asyncio.create_task(journal.append(user("hi")))
        await asyncio.wait({append}, timeout=0.05)
        assert (append.done(), len(journal.tree)) == (False, 0)
    entry = await append
    assert journal.tree.branch() == (entry,)


async def test_a_torn_end_is_cut_off_once_its_copy_is_on_the_disk(tmp_path: Path) -> None:
    """The copy, its name, and only then the shorter transcript."""
    path = tmp_path / "s.jsonl"
    await (await opened(path)).append(user("hi"))
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"torn')
    disk = Watched(path)
    await opened(path, sync=disk.sync)
    torn = whole + b'{"torn'
    assert disk.synced == [("6 bytes", torn), ("folder", torn), (f"{len(whole)} bytes", whole)]


async def test_a_fork_is_on_the_disk_with_its_name(tmp_path: Path) -> None:
    """A new transcript appears whole, and its folder is synced behind it."""
    fork = tmp_path / "fork.jsonl"
    disk = Watched(fork)
    journal = await opened(tmp_path / "s.jsonl", sync=disk.sync)
    entry = await journal.append(user("hi"))
    disk.synced.clear()
    await journal.fork(fork.name, session_id="fork", leaf_id=entry.id)
    copied = fork.read_bytes()
    assert disk.synced == [(f"{len(copied)} bytes", b""), ("folder", copied)]
