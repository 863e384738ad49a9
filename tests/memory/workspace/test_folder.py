"""The workspace that is a folder: the contract, and what is a folder's own business."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nacre.memory.contracts.workspace import PathOutsideRoot
from nacre.memory.workspace.folder import FolderWorkspace
from tests.memory.workspace.contract.notes_contract import NotesContract
from tests.memory.workspace.contract.workspace_contract import OpenWorkspace, WorkspaceContract
from tests.sessions.disk_steps import disk_steps, is_on_disk


@pytest.fixture
def open_workspace(tmp_path: Path) -> OpenWorkspace:
    """Opens the folder of this test."""
    root = tmp_path / "workspace"
    root.mkdir()
    return lambda: FolderWorkspace(root, lock_dir=tmp_path / "state" / "locks")


class TestFolderWorkspace(WorkspaceContract):
    """The contract, over one folder."""


class TestFolderNotes(NotesContract):
    """What the index asks of it."""


@pytest.mark.covers("ATT-13")
async def test_a_pipe_keeps_nobody_waiting(tmp_path: Path) -> None:
    """Reading it, adding to it and replacing it are refused at once."""
    os.mkfifo(tmp_path / "pipe.md")
    workspace = FolderWorkspace(tmp_path, lock_dir=tmp_path / "locks")

    async with asyncio.timeout(60):
        for asked in (
            workspace.read("pipe.md"),
            workspace.append("pipe.md", "text"),
            workspace.change("pipe.md", lambda _: b""),
        ):
            with pytest.raises(PathOutsideRoot, match=r"pipe|regular"):
                await asked


READ_ONLY = """
from pathlib import Path
from nacre.memory.workspace.folder import FolderWorkspace

workspace = FolderWorkspace(Path({root!r}), lock_dir=Path({root!r}))
print([workspace.may_change(name) for name in (".", "memory/new.md", "there.md", "../out.md")])
"""


@pytest.mark.covers("SEED-16")
def test_what_is_mounted_to_be_read_is_told_without_an_attempt(tmp_path: Path) -> None:
    """Root too may not write there; a name that leads out is left to the attempt."""
    (tmp_path / "there.md").write_text("text")
    workspace = FolderWorkspace(tmp_path, lock_dir=tmp_path)
    assert [workspace.may_change(name) for name in (".", "memory/new.md", "there.md")] == [True] * 3
    code = shlex.quote(READ_ONLY.format(root=str(tmp_path)))
    mount = f"mount --bind {tmp_path} {tmp_path} && mount -o remount,ro,bind {tmp_path}"

    run = (
        subprocess.run(
            ["unshare", "-m", "sh", "-c", f"{mount} || exit 77; {shlex.quote(sys.executable)} -c {code}"],
            capture_output=True,
            text=True,
            check=False,
        )
        if shutil.which("unshare")
        else None
    )

    if run is None or run.returncode == 77 or "unshare" in run.stderr:
        pytest.skip("this system lets nobody mount a folder")
    assert run.stdout == "[False, False, False, True]\n", run.stderr


async def test_a_folder_that_is_gone_says_so(tmp_path: Path) -> None:
    """An unmounted drive is not taken for an empty workspace."""
    workspace = FolderWorkspace(tmp_path / "drive", lock_dir=tmp_path / "locks")

    assert not workspace.is_there
    assert workspace.place == str(tmp_path / "drive")
    assert not (tmp_path / "drive").exists()


async def test_a_files_name_is_on_disk_when_a_write_returns(tmp_path: Path) -> None:
    """The folder is synced after a new file and after one that takes another's place."""
    workspace = FolderWorkspace(tmp_path, lock_dir=tmp_path.parent / "locks")
    with disk_steps(tmp_path) as steps:
        await workspace.append("memory/log.md", "text")
        await workspace.change("note.md", lambda _: b"text")

    assert is_on_disk(steps, "memory/log.md")
    assert is_on_disk(steps, "note.md")
