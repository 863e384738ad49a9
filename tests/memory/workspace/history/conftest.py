"""A workspace with one commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.memory.workspace.history.home import Home


@pytest.fixture
async def home(tmp_path: Path) -> Home:
    """A workspace with one commit."""
    home = Home(tmp_path)
    await home.workspace.make({"MEMORY.md": b"# Memory\n", ".gitignore": b"private/\n"})
    assert await home.commit() == ""
    return home
