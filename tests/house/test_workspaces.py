"""Whoever needs the owner's Markdown asks a `Workspace`, and opens no file of it."""

from __future__ import annotations

import pytest

from tests.house.rules.files import stale
from tests.house.rules.source import Source, imported_modules
from tests.house.tree import HOUSE

ROOM = "memory/workspace/"
FOLDERS = tuple(
    f"nacre.memory.workspace.{name}" for name in ("extra_paths", "files", "folder", "git", "walk", "watcher")
)
"""What knows that the Markdown lies in folders."""
MAY_KNOW_FOLDERS = {
    "memory/files/note_files.py": "`extraPaths` that lie outside are folders of this machine",
    "runtime/settings/disk/agent_folders.py": "compares the places of agents, `extraPaths` too",
    "runtime/settings/disk/open_workspace.py": "chooses the workspace",
}
INDEXING = ("memory/files/", "memory/search/", "memory/sync/", "memory/text/", "memory/vectors/")
DISK = ("asyncio.subprocess", "glob", "io", "mmap", "os", "pathlib", "shutil", "subprocess", "tempfile")
"""Modules that reach a file without asking anybody."""
MAY_REACH_DISK = {
    "memory/text/days/day_words.py": "the packaged words for days",
    "memory/text/words.py": "the packaged lists of words",
}


def _imports(source: Source, modules: tuple[str, ...]) -> list[str]:
    found = imported_modules(source)
    return sorted(module for module in found if any(f"{module}.".startswith(f"{one}.") for one in modules))


def test_nobody_else_knows_that_the_workspace_is_a_folder() -> None:
    """A database joins by a file of its own; each exception has a reason, and one that is idle fails."""
    found = {
        source.path for source in HOUSE if not source.path.startswith(ROOM) and _imports(source, FOLDERS)
    }

    assert found == set(MAY_KNOW_FOLDERS)


def test_the_index_reaches_no_file_by_itself() -> None:
    """What is listed, read and watched comes from the workspace alone."""
    complaints = [
        f"{source.path}: imports {', '.join(found)}"
        for source in HOUSE
        if source.path.startswith(INDEXING) and (found := _imports(source, DISK))
    ]

    assert [line for line in complaints if line.partition(":")[0] not in MAY_REACH_DISK] == []
    assert stale(MAY_REACH_DISK, complaints) == []


@pytest.mark.parametrize(
    ("bad", "good"),
    [
        ("import os", "import operator"),
        ("from pathlib import Path", "from pathlib_of_mine import Path"),
        ("def f():\n    import os.path", "import posixpath"),
    ],
)
def test_the_rule_tells_bad_from_good(bad: str, good: str) -> None:
    """It complains about the one and not about the other."""
    found = [
        _imports(Source(path="memory/sync/x.py", module="nacre.memory.sync.x", text=text), DISK)
        for text in (bad, good)
    ]

    assert [bool(complaints) for complaints in found] == [True, False]
