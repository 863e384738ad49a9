"""A memory of facts over a folder, with a clock that a test moves, and the index that ships."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from nacre.extensions.facts.fact_pages import FactPages
from nacre.extensions.facts.identities import FACT_PAGES, Identities
from nacre.extensions.facts.note_index import notes_of_page
from nacre.memory.contracts.embedder import Embedder
from nacre.memory.contracts.settings import MemorySearchSettings
from nacre.memory.engine import MemoryEngine
from nacre.memory.files.note_files import NoteFiles
from nacre.memory.sync.file_sync import Corpus
from nacre.memory.workspace.folder import FolderWorkspace


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 1, 3, 10, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.moment

    def later(self, **by: float) -> datetime:
        """Moves on."""
        self.moment += timedelta(**by)
        return self.moment


def open_facts(
    tmp_path: Path,
    clock: Clock,
    *,
    identities: Identities | None = None,
    embedder: Embedder | None = None,
) -> FactPages:
    """Facts in `workspace`, with their index beside it."""
    root = tmp_path / "workspace"
    root.mkdir(exist_ok=True)
    workspace = FolderWorkspace(root, lock_dir=tmp_path / "locks")

    async def open_index() -> MemoryEngine:
        return await MemoryEngine.open(
            workspace=workspace,
            index_path=tmp_path / "state" / "facts.sqlite",
            settings=MemorySearchSettings(),
            embedder=embedder,
            now=clock,
            corpus=lambda sizes: Corpus(
                notes=NoteFiles(workspace, always=FACT_PAGES), sizes=sizes, cut=notes_of_page
            ),
        )

    return FactPages(workspace, open_index, identities=identities or Identities(), now=clock)


def page_of(tmp_path: Path, identity: str = "anna") -> Path:
    """The page of an identity."""
    return tmp_path / "workspace" / Identities().page_of(identity)
