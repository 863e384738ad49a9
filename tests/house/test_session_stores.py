"""Whoever runs sessions asks a `SessionStore`, and opens no file of theirs."""

from __future__ import annotations

from tests.house.rules.source import imported_modules
from tests.house.tree import HOUSE

FILES_OF_SESSIONS = (
    "nacre.sessions.disk",
    "nacre.sessions.index.checkpoint",
    "nacre.sessions.index.index",
    "nacre.sessions.index.index_files",
    "nacre.sessions.index.recovery",
    "nacre.sessions.journal",
    "nacre.sessions.stores.files",
    "nacre.sessions.upkeep.catalogue",
    "nacre.sessions.upkeep.transcript_listing",
    "nacre.sessions.upkeep.upkeep",
)
"""What knows that sessions are files."""
FORMAT = "nacre.sessions.disk.lines"
"""Lines and times as text: it opens nothing, and a database exports the same."""
ALLOWED = {
    "runtime/hooks/trust.py": "a file of its own, written as safely",
    "runtime/lanes/open_store.py": "chooses the store",
    "runtime/models/waits/cooldown_file.py": "a file of its own, written as safely",
    "runtime/models/embedding/http/daily_budget.py": "a file of its own, written as safely",
    "runtime/tools/approvals/folder.py": "files of its own, written as safely",
    "cli/sessions/shelf.py": "writes the file that is exported to",
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
    above = [source for source in HOUSE if source.root in ("runtime", "cli")]
    found = {source.path for source in above if _knows_files(imported_modules(source))}

    assert found == set(ALLOWED)
