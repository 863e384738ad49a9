"""Context files are read again when they may have changed, and only then."""

from __future__ import annotations

import os
from pathlib import Path
from time import time_ns

import pytest

from nacre.memory.contracts.workspace import RACY_NS
from nacre.memory.workspace.folder import FolderWorkspace
from nacre.memory.workspace.workspace import ContextFiles
from tests.memory.workspace.opened_files import opened_files

NAMES = ("AGENTS.md", "SOUL.md", "MEMORY.md")


def folder(root: Path) -> FolderWorkspace:
    return FolderWorkspace(root, lock_dir=root.parent / "locks")


def later_ns() -> int:
    """A time at which a file that was just written has lain untouched for long."""
    return time_ns() + 2 * RACY_NS


def written(root: Path) -> Path:
    for name in NAMES:
        (root / name).write_text(f"text of {name}", encoding="utf-8")
    return root


async def texts(files: ContextFiles) -> list[str]:
    return [file.text for file in await files.read(NAMES)]


async def test_files_that_nobody_touched_are_not_opened_again(tmp_path: Path) -> None:
    """The first look opens each of them; the next ones open none and give the same objects."""
    files = ContextFiles(folder(written(tmp_path)), now_ns=later_ns)
    with opened_files(tmp_path) as opened:
        first = await files.read(NAMES)
    assert sorted(path.name for path in opened) == sorted(NAMES)
    with opened_files(tmp_path) as opened:
        again = [await files.read(NAMES) for _ in range(3)]
    assert opened == []
    assert all(known is file for read in again for known, file in zip(read, first, strict=True))


async def test_only_the_changed_file_is_opened(tmp_path: Path) -> None:
    """The others are still known."""
    files = ContextFiles(folder(written(tmp_path)), now_ns=later_ns)
    await files.read(NAMES)
    (tmp_path / "SOUL.md").write_text("another text", encoding="utf-8")
    with opened_files(tmp_path) as opened:
        assert await texts(files) == ["text of AGENTS.md", "another text", "text of MEMORY.md"]
    assert [path.name for path in opened] == ["SOUL.md"]


async def test_a_change_of_the_same_size_in_the_same_moment_is_seen(tmp_path: Path) -> None:
    """Right behind a write the stat values prove nothing, so the file is read each time."""
    files = ContextFiles(folder(written(tmp_path)), now_ns=time_ns)
    for number in range(200):
        text = f"TEXT OF {number:04}.."
        (tmp_path / "SOUL.md").write_text(text, encoding="utf-8")
        assert (await texts(files))[1] == text


async def test_files_that_are_read_again_and_are_the_same_come_back_as_the_same_tuple(tmp_path: Path) -> None:
    """So that what is made of a log that was just written is not made anew in each turn."""
    files = ContextFiles(folder(written(tmp_path)), now_ns=time_ns)
    first = await files.read(NAMES)
    with opened_files(tmp_path) as opened:
        assert await files.read(NAMES) is first
    assert opened


async def test_a_change_that_puts_the_time_back_is_seen(tmp_path: Path) -> None:
    """Also when size and time of change are those of before, as a program that restores files leaves them."""
    files = ContextFiles(folder(written(tmp_path)), now_ns=later_ns)
    await files.read(NAMES)
    path, before = tmp_path / "SOUL.md", (tmp_path / "SOUL.md").stat()
    path.write_text("TEXT OF SOUL.MD", encoding="utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    assert (await texts(files))[1] == "TEXT OF SOUL.MD"


async def test_a_file_that_comes_and_goes_is_seen(tmp_path: Path) -> None:
    """Removed, back again under its older name, replaced by a folder and by a link."""
    files = ContextFiles(folder(written(tmp_path)), now_ns=later_ns)
    memory, older = tmp_path / "MEMORY.md", tmp_path / "memory.md"
    await files.read(NAMES)
    memory.unlink()
    assert (await texts(files))[2].startswith("[MISSING]")
    older.write_text("older", encoding="utf-8")
    assert (await texts(files))[2] == "older"
    memory.write_text("newer", encoding="utf-8")
    assert (await texts(files))[2] == "newer"
    memory.unlink()
    memory.mkdir()
    assert (await texts(files))[2].startswith("[MISSING]")
    memory.rmdir()
    memory.symlink_to("SOUL.md")
    assert "symbolic link" in (await texts(files))[2]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_a_file_that_cannot_be_read_is_tried_again(tmp_path: Path) -> None:
    """A refusal may pass without a trace in the file."""
    files = ContextFiles(folder(written(tmp_path)), now_ns=later_ns)
    (tmp_path / "SOUL.md").chmod(0)
    assert "cannot be read" in (await texts(files))[1]
    with opened_files(tmp_path) as opened:
        await files.read(NAMES)
    assert [path.name for path in opened] == ["SOUL.md"]


async def test_another_limit_is_another_question(tmp_path: Path) -> None:
    """What is left of the total for a file decides how much of it is shown, each time."""
    (tmp_path / "AGENTS.md").write_text("a" * 1000, encoding="utf-8")
    files = ContextFiles(folder(tmp_path), now_ns=later_ns)
    [whole] = await files.read(["AGENTS.md"])
    [cut] = await files.read(["AGENTS.md"], total_chars=500)
    assert (whole.truncated, cut.truncated) == (False, True)
    assert await files.read(["AGENTS.md"]) == (whole,)
