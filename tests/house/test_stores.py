"""Sessions are asked of a `SessionStore`, the Markdown of a `Workspace`; nobody else opens their files."""

from __future__ import annotations

import pytest

from tests.house.rules.files import stale
from tests.house.rules.source import Source, imported_modules
from tests.house.tree import HOUSE

FILES_OF_SESSIONS = (
    "nacre.sessions.disk",
    "nacre.sessions.index.index",
    "nacre.sessions.index.index_files",
    "nacre.sessions.index.image",
    "nacre.sessions.journal",
    "nacre.sessions.stores.files",
)
"""What knows that sessions are files, or rows."""
FORMAT = "nacre.sessions.disk.json_text"
"""Lines and times as text: it opens nothing, and a database exports the same."""
ALLOWED = {
    "runtime/agent/evaluation.py": "replays the transcript that a test names",
    "runtime/hooks/trust.py": "a file of its own, written as safely",
    "runtime/storage/storage.py": "opens the files",
    "extensions/providers/completions/provider_model.py": "a file of its own, written as safely",
    "runtime/models/cooldown.py": "a file of its own, written as safely",
    "runtime/models/spending.py": "files of its own, written as safely",
    "extensions/providers/embedding/daily_budget.py": "a file of its own, written as safely",
    "runtime/settings/disk/secrets.py": "a file of the owner's, written as safely",
    "extensions/mcp/client/tool_list.py": "a file of its own, written as safely",
    "runtime/tools/approvals/approvals.py": "files of its own, written as safely",
    "extensions/curation/consolidation.py": "a file of its own, written as safely",
    "cli/memory/remembered_search.py": "a file of its own, written as safely",
    "cli/setup/config/changing.py": "the owner's settings, written as safely",
    "extensions/importers/command.py": "a file of its own, written as safely",
    "extensions/http/server/tokens.py": "a file of its own, written as safely",
    "extensions/postgres/session_store.py": "names, words and upkeep follow the rules of files",
    "extensions/backup/commands.py": "holds the index of sessions still while it is copied",
    "cli/sessions/shelf.py": "writes the file that is exported to",
}
ROOM = "memory/workspace/"
FOLDERS = tuple(
    f"nacre.memory.workspace.{name}" for name in ("extra_paths", "files", "folder", "git", "walk", "watcher")
)
"""What knows that the Markdown lies in folders."""
MAY_KNOW_FOLDERS = {
    "extensions/forget/commands.py": "says when git refused",
    "extensions/forget/search.py": "searches the git history",
    "cli/setup/doctor.py": "says when git refused",
    "memory/files/note_files.py": "`extraPaths` that lie outside are folders of this machine",
    "memory/files/proposals.py": "what waits lies in the state folder, beside the notes",
    "extensions/qmd/qmd_memory.py": "qmd indexes folders of this machine, and names files in them",
    "runtime/settings/disk/agent_folders.py": "compares the places of agents, `extraPaths` too",
    "runtime/storage/storage.py": "opens the folder, and those with skills that the owner trusts",
    "extensions/postgres/exchange.py": "passes over what programs leave in a folder",
}
INDEXING = ("memory/files/", "memory/search/", "memory/sync/", "memory/text/", "memory/vectors/")
DISK = ("asyncio.subprocess", "glob", "io", "mmap", "os", "pathlib", "shutil", "subprocess", "tempfile")
"""Modules that reach a file without asking anybody."""
MAY_REACH_DISK = {
    "memory/files/proposals.py": "what waits lies in the state folder, which no workspace is",
    "memory/text/days/day_words.py": "the packaged words for days",
    "memory/text/forms/words.py": "the packaged lists of words",
}


def _knows_files(modules: set[str]) -> bool:
    return any(
        module == known or module.startswith(f"{known}.")
        for module in modules
        for known in FILES_OF_SESSIONS
        if not module.startswith(FORMAT)
    )


def test_nobody_above_the_stores_knows_where_sessions_lie() -> None:
    """A database joins by a room of its own; each exception has a reason, and one that is idle fails."""
    above = [source for source in HOUSE if source.root in ("runtime", "cli", "extensions", "bridges")]
    found = {source.path for source in above if _knows_files(imported_modules(source))}

    assert found == set(ALLOWED)


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
