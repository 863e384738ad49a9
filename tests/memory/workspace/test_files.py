"""Workspace files: appended or replaced whole, never half, never by two at once."""

from __future__ import annotations

import asyncio
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nacre.memory.workspace.files import (
    Appended,
    FolderEntry,
    append_to_file,
    change_file,
    folder_entries,
    list_folder,
    read_bytes,
)
from nacre.memory.workspace.paths import PathOutsideRoot

WRITER = """
import asyncio, sys
from pathlib import Path
from nacre.memory.workspace.files import append_to_file

root, locks, name = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]

async def main():
    for number in range(25):
        await append_to_file(root, "memory/log.md", f"- {name} {number}", lock_dir=locks)

asyncio.run(main())
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def locks(tmp_path: Path) -> Path:
    return tmp_path / "state" / "locks"


@pytest.mark.parametrize(
    ("before", "text", "after"),
    [
        (None, "- a", "- a\n"),
        ("", "- a", "- a\n"),
        ("- a\n", "- b\n", "- a\n- b\n"),
        ("- a", "- b", "- a\n- b\n"),
        ("text", "more", "text\n\nmore\n"),
        ("text\n\n", "more", "text\n\nmore\n"),
        ("- a\n", "## Names\n- b", "- a\n\n## Names\n- b\n"),
        ("torn li", "- b", "torn li\n\n- b\n"),
    ],
)
async def test_append_starts_on_a_fresh_line(
    root: Path, locks: Path, before: str | None, text: str, after: str
) -> None:
    """Blocks are parted by a blank line, a list goes on, and nothing is glued to a torn line."""
    if before is not None:
        (root / "n.md").write_text(before, encoding="utf-8")

    await append_to_file(root, "n.md", text, lock_dir=locks)

    assert (root / "n.md").read_text(encoding="utf-8") == after


async def test_append_keeps_bytes_that_are_no_text(root: Path, locks: Path) -> None:
    """Bytes that cannot be decoded stay as they are in front of what is added."""
    (root / "n.md").write_bytes(b"caf\xe9\r\n")

    await append_to_file(root, "n.md", "new", lock_dir=locks)

    assert (root / "n.md").read_bytes() == b"caf\xe9\r\n\nnew\n"


async def test_repeats_are_left_out_only_when_asked(root: Path, locks: Path) -> None:
    """The outcome tells what was written and how many parts were not."""
    await append_to_file(root, "n.md", "- a", lock_dir=locks)

    assert await append_to_file(root, "n.md", "- a\n- b", lock_dir=locks) == Appended(
        written="- b", skipped_parts=1
    )
    assert await append_to_file(root, "n.md", "- b", lock_dir=locks) == Appended(written="", skipped_parts=1)
    assert await append_to_file(root, "n.md", " \n", lock_dir=locks) == Appended(written="", skipped_parts=0)
    await append_to_file(root, "n.md", "- b", lock_dir=locks, skip_repeats=False)
    assert (root / "n.md").read_text(encoding="utf-8") == "- a\n- b\n- b\n"


async def test_appending_tasks_and_processes_lose_nothing(root: Path, locks: Path) -> None:
    """Two processes and two tasks that append at once leave every line whole and once."""
    processes = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", WRITER, root, locks, name)
        for name in ("p", "q")
    ]
    await asyncio.gather(
        *(
            append_to_file(root, "memory/log.md", f"- {name} {number}", lock_dir=locks)
            for name in ("t", "u")
            for number in range(25)
        )
    )

    assert [await process.wait() for process in processes] == [0, 0]
    lines = (root / "memory" / "log.md").read_text(encoding="utf-8").splitlines()
    assert sorted(lines) == sorted(f"- {name} {number}" for name in "pqtu" for number in range(25))


async def test_change_keeps_the_mode_and_leaves_nothing_behind(root: Path, locks: Path) -> None:
    """A replaced file has the old mode; no temporary and no lock file stands beside it."""
    file = root / "n.md"
    file.write_text("old", encoding="utf-8")
    file.chmod(0o640)

    await change_file(root, "n.md", lambda old: (old or b"") + b" new", lock_dir=locks)

    assert file.read_bytes() == b"old new"
    assert file.stat().st_mode & 0o777 == 0o640
    assert _names(root) == ["n.md"]


async def test_failing_change_leaves_the_file_alone(root: Path, locks: Path) -> None:
    """An exception while the new content is worked out changes nothing and frees the lock."""
    (root / "n.md").write_text("old", encoding="utf-8")

    def refuse(old: bytes | None) -> bytes:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await change_file(root, "n.md", refuse, lock_dir=locks)
    await change_file(root, "n.md", lambda old: old or b"", lock_dir=locks)

    assert (root / "n.md").read_text(encoding="utf-8") == "old"


async def test_change_survives_a_leftover_of_a_killed_writer(root: Path, locks: Path) -> None:
    """What a killed process left, or a link in its place, neither stops nor diverts the next one."""
    await change_file(root, "n.md", lambda old: b"1", lock_dir=locks)
    leftover = root / f".{hashlib.sha256(b'n.md').hexdigest()[:16]}.tmp"
    leftover.symlink_to("../outside")

    await change_file(root, "n.md", lambda old: b"2", lock_dir=locks)

    assert (root / "n.md").read_bytes() == b"2"
    assert not (root.parent / "outside").exists()


def test_full_disk_leaves_the_log_as_it_was(root: Path, locks: Path) -> None:
    """When the file may not grow, the note is refused with an error and no part of it stays."""
    script = f"""
import asyncio, resource, signal
from pathlib import Path
from nacre.memory.workspace.files import append_to_file
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
root, locks = Path({str(root)!r}), Path({str(locks)!r})
asyncio.run(append_to_file(root, "n.md", "first", lock_dir=locks))
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    asyncio.run(append_to_file(root, "n.md", "x" * 500, lock_dir=locks))
except OSError as error:
    print("refused")
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert run.stdout == "refused\n"
    assert (root / "n.md").read_text(encoding="utf-8") == "first\n"


async def test_reading_is_bounded_and_tells_the_size(root: Path) -> None:
    """A big file is read up to the bound, and the answer says that it goes on."""
    (root / "big.md").write_bytes(b"x" * 5000)

    content = await read_bytes(root, "big.md", max_bytes=1000)

    assert (len(content.data), content.size_bytes, content.is_cut, content.has_other_names) == (
        1000,
        5000,
        True,
        False,
    )


async def test_a_listing_of_some_names(root: Path) -> None:
    """Only those that begin as was asked; without a beginning all that are not hidden."""
    for name in ("2026-03-13.md", "2026-03-14.md", "2026-03-14-boat.md", ".2026-03-14.md"):
        (root / name).write_text("text", encoding="utf-8")

    some = await list_folder(root, ".", beginnings=("2026-03-14", "2026-03-15"))
    assert [entry.name for entry in some] == ["2026-03-14-boat.md", "2026-03-14.md"]
    assert len(await list_folder(root, ".")) == 3


def test_a_file_that_is_gone_by_now_costs_a_listing_only_itself(root: Path) -> None:
    """One that was removed between the scan and the look at it is left out; the others are there."""
    for name in ("a.md", "b.md", ".hidden", "c.md"):
        (root / name).write_text("text", encoding="utf-8")
        os.utime(root / name, ns=(5, 5))
    (root / "folder").mkdir()
    with os.scandir(root) as scan:
        found = list(scan)
    (root / "b.md").unlink()

    assert folder_entries(found) == (
        FolderEntry(name="a.md", is_folder=False, size_bytes=4, modified_ns=5),
        FolderEntry(name="c.md", is_folder=False, size_bytes=4, modified_ns=5),
        FolderEntry(name="folder", is_folder=True, size_bytes=0, modified_ns=0),
    )


async def test_links_out_are_refused_everywhere(root: Path, locks: Path) -> None:
    """Reading, appending, changing and listing refuse a link that leads out."""
    (root.parent / "secret.md").write_text("secret", encoding="utf-8")
    (root / "link.md").symlink_to("../secret.md")
    (root / "up").symlink_to("..")

    with pytest.raises(PathOutsideRoot):
        await read_bytes(root, "link.md")
    with pytest.raises(PathOutsideRoot):
        await append_to_file(root, "link.md", "x", lock_dir=locks)
    with pytest.raises(PathOutsideRoot):
        await change_file(root, "up/secret.md", lambda old: b"", lock_dir=locks)
    with pytest.raises(PathOutsideRoot):
        await list_folder(root, "up")
    assert (root.parent / "secret.md").read_text(encoding="utf-8") == "secret"


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
