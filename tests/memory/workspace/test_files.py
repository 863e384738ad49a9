"""Workspace files: appended or replaced whole, never half, never by two at once."""

from __future__ import annotations

import asyncio
import hashlib
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from nacre.memory.contracts.workspace import Appended, FolderEntry, PathOutsideRoot
from nacre.memory.workspace.folder import FolderWorkspace, folder_entries

WRITER = """
import asyncio, sys
from pathlib import Path
from nacre.memory.workspace.folder import FolderWorkspace

root, locks, name = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]

async def main():
    for number in range(25):
        await FolderWorkspace(root, lock_dir=locks).append("memory/log.md", f"- {name} {number}")

asyncio.run(main())
"""


def at(root: Path, locks: Path) -> FolderWorkspace:
    return FolderWorkspace(root, lock_dir=locks)


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

    await at(root, locks).append("n.md", text)

    assert (root / "n.md").read_text(encoding="utf-8") == after


async def test_append_keeps_bytes_that_are_no_text(root: Path, locks: Path) -> None:
    """Bytes that cannot be decoded stay as they are in front of what is added; UTF-16 goes on as UTF-16."""
    (root / "n.md").write_bytes(b"caf\xe9\r\n")
    (root / "wide.md").write_bytes("- Föhr\n".encode("utf-16"))

    await at(root, locks).append("n.md", "new")
    await at(root, locks).append("wide.md", "- Föhr\n- Köln")

    assert (root / "n.md").read_bytes() == b"caf\xe9\r\n\nnew\n"
    assert (root / "wide.md").read_bytes() == "- Föhr\n- Köln\n".encode("utf-16")


@pytest.mark.covers("ASK-14")
async def test_repeats_are_left_out_only_when_asked(root: Path, locks: Path) -> None:
    """The outcome tells what was written and how many parts were not."""
    await at(root, locks).append("n.md", "- a")

    assert await at(root, locks).append("n.md", "- a\n- b") == Appended(written="- b", skipped_parts=1)
    assert await at(root, locks).append("n.md", "- b") == Appended(written="", skipped_parts=1)
    assert await at(root, locks).append("n.md", " \n") == Appended(written="", skipped_parts=0)
    await at(root, locks).append("n.md", "- b", skip_repeats=False)
    assert (root / "n.md").read_text(encoding="utf-8") == "- a\n- b\n- b\n"


@pytest.mark.covers("ASK-13")
async def test_appending_tasks_and_processes_lose_nothing(root: Path, locks: Path) -> None:
    """Two processes and two tasks that append at once leave every line whole and once."""
    processes = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", WRITER, root, locks, name)
        for name in ("p", "q")
    ]
    await asyncio.gather(
        *(
            at(root, locks).append("memory/log.md", f"- {name} {number}")
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

    await at(root, locks).change("n.md", lambda old: (old or b"") + b" new")

    assert file.read_bytes() == b"old new"
    assert file.stat().st_mode & 0o777 == 0o640
    assert _names(root) == ["n.md"]


async def test_failing_change_leaves_the_file_alone(root: Path, locks: Path) -> None:
    """An exception while the new content is worked out changes nothing and frees the lock."""
    (root / "n.md").write_text("old", encoding="utf-8")

    def refuse(old: bytes | None) -> bytes:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await at(root, locks).change("n.md", refuse)
    await at(root, locks).change("n.md", lambda old: old or b"")

    assert (root / "n.md").read_text(encoding="utf-8") == "old"


async def test_change_survives_a_leftover_of_a_killed_writer(root: Path, locks: Path) -> None:
    """What a killed process left, or a link in its place, neither stops nor diverts the next one."""
    await at(root, locks).change("n.md", lambda old: b"1")
    leftover = root / f".{hashlib.sha256(b'n.md').hexdigest()[:16]}.tmp"
    leftover.symlink_to("../outside")

    await at(root, locks).change("n.md", lambda old: b"2")

    assert (root / "n.md").read_bytes() == b"2"
    assert not (root.parent / "outside").exists()


def test_full_disk_leaves_the_log_as_it_was(root: Path, locks: Path) -> None:
    """When the file may not grow, the note is refused with an error and no part of it stays."""
    script = f"""
import asyncio, resource, signal
from pathlib import Path
from nacre.memory.workspace.folder import FolderWorkspace
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
root, locks = Path({str(root)!r}), Path({str(locks)!r})
asyncio.run(FolderWorkspace(root, lock_dir=locks).append("n.md", "first"))
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    asyncio.run(FolderWorkspace(root, lock_dir=locks).append("n.md", "x" * 500))
except OSError as error:
    print("refused")
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert run.stdout == "refused\n"
    assert (root / "n.md").read_text(encoding="utf-8") == "first\n"


async def test_reading_is_bounded_and_tells_the_size(root: Path) -> None:
    """A big file is read up to the bound, and the answer says that it goes on."""
    (root / "big.md").write_bytes(b"x" * 5000)

    content = await at(root, root).read("big.md", max_bytes=1000)

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

    some = await at(root, root).list_folder(".", beginnings=("2026-03-14", "2026-03-15"))
    assert [entry.name for entry in some] == ["2026-03-14-boat.md", "2026-03-14.md"]
    assert len(await at(root, root).list_folder(".")) == 3


@pytest.mark.covers("A1-19")
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
        await at(root, root).read("link.md")
    with pytest.raises(PathOutsideRoot):
        await at(root, locks).append("link.md", "x")
    with pytest.raises(PathOutsideRoot):
        await at(root, locks).change("up/secret.md", lambda old: b"")
    with pytest.raises(PathOutsideRoot):
        await at(root, root).list_folder("up")
    assert (root.parent / "secret.md").read_text(encoding="utf-8") == "secret"


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.covers("ATT-13")
async def test_an_append_to_a_huge_log_costs_its_tail(root: Path, locks: Path) -> None:
    """It reads little of the file, knows what stands near the end, and changes no byte before it."""
    path = root / "log.md"
    line = b"- a line that stands there already\n"
    path.write_bytes(b"# Log\n\n" + line * (80_000_000 // len(line)) + b"\n## Late\n\n- last words\n")
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    size_bytes = path.stat().st_size

    tracemalloc.start()
    appended = await at(root, locks).append("log.md", "## Late\n\n- last words\n- new words")
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak_bytes < size_bytes / 4
    assert appended == Appended(written="- new words", skipped_parts=1)
    whole = path.read_bytes()
    assert hashlib.sha256(whole[:size_bytes]).hexdigest() == before
    assert whole[size_bytes:] == b"- new words\n"
