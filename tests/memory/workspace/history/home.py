"""A workspace with Nacre's history, for tests."""

from __future__ import annotations

from pathlib import Path

from nacre.memory.files.sources.source import PRIVATE, Source
from nacre.memory.files.sources.sourced_workspace import SourcedWorkspace
from nacre.memory.files.sources.sources import Sources
from nacre.memory.workspace.folder import FolderWorkspace
from nacre.memory.workspace.git import run_git
from nacre.memory.workspace.history.history_keeper import COMMIT_SECONDS, commit_notes
from nacre.memory.workspace.history.repository import Repository
from nacre.memory.workspace.history.undo import commits, undo

LOG = "memory/2026-11-20.md"


class Home:
    """A workspace with a history."""

    def __init__(self, state_dir: Path, name: str = "w") -> None:
        self.state_dir, self.root = state_dir, state_dir / name
        self.workspace = FolderWorkspace(self.root, lock_dir=state_dir / "locks")
        self.repository = Repository(self.root, state_dir=state_dir)

    async def note(self, text: str, session: str, path: str = LOG) -> None:
        source = Source(
            written_by="flush",
            audience=PRIVATE,
            session_key=f"agent:main:{session}",
            session_id=session,
            entry_ids=(f"{session}-1",),
            at="2026-11-20T10:00:00+00:00",
        )

        async def begin() -> object:
            return lambda _line: source

        sourced = SourcedWorkspace(self.workspace, Sources(self.workspace), begin)  # type: ignore[arg-type]
        await sourced.append(path, text)

    async def commit(self, within_seconds: float = COMMIT_SECONDS) -> str:
        return await commit_notes(self.workspace, state_dir=self.state_dir, within_seconds=within_seconds)

    def git(self, *arguments: str) -> str:
        return run_git(self.repository.git_dir, *arguments).decode()

    def undo(self, commit: str) -> tuple[str, list[str]]:
        with self.repository.opened():
            return undo(self.repository, commit)

    def subjects(self) -> list[tuple[str, str]]:
        return [(each.subject, each.session_id) for each in commits(self.repository)]

    def text(self, name: str = LOG) -> str:
        return (self.root / name).read_text(encoding="utf-8")
