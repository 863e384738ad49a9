"""The workspace that is a folder: the contract, and what is a folder's own business."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from nacre.memory.contracts.workspace import PathOutsideRoot
from nacre.memory.workspace.folder import FolderWorkspace
from tests.memory.workspace.contract.notes_contract import NotesContract
from tests.memory.workspace.contract.workspace_contract import OpenWorkspace, WorkspaceContract


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


async def test_a_pipe_keeps_nobody_waiting(tmp_path: Path) -> None:
    """Reading it, adding to it and replacing it are refused at once."""
    os.mkfifo(tmp_path / "pipe.md")
    workspace = FolderWorkspace(tmp_path, lock_dir=tmp_path / "locks")

    async with asyncio.timeout(10):
        for asked in (
            workspace.read("pipe.md"),
            workspace.append("pipe.md", "text"),
            workspace.change("pipe.md", lambda _: b""),
        ):
            with pytest.raises(PathOutsideRoot, match=r"pipe|regular"):
                await asked


async def test_a_folder_that_is_gone_says_so(tmp_path: Path) -> None:
    """An unmounted drive is not taken for an empty workspace."""
    workspace = FolderWorkspace(tmp_path / "drive", lock_dir=tmp_path / "locks")

    assert not workspace.is_there
    assert workspace.place == str(tmp_path / "drive")
    assert not (tmp_path / "drive").exists()
