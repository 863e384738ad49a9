"""When an agent has its notes committed: behind a turn that wrote some, and before it closes."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from nacre.memory.contracts.workspace import FileBusy, Workspace
from nacre.memory.files.sources.sources import Sources
from nacre.memory.workspace.files import locked
from nacre.memory.workspace.git import GitFailed
from nacre.memory.workspace.history.committing import HistoryMode, commit_changes, known_sources, opened

log = logging.getLogger(__name__)


class HistoryKeeper:
    """Commits the notes that turns wrote, on a thread; nobody waits for it but `close`.

    `lock_dir` is the folder of the locks that processes share. A workspace that is no folder has no history.
    """

    def __init__(self, workspace: Workspace, *, mode: HistoryMode, lock_dir: Path) -> None:
        self._workspace = workspace
        self._mode = mode
        self._lock_dir = lock_dir
        self._has_changes = False
        self._running: asyncio.Task[None] | None = None
        self.notices: tuple[str, ...] = ()
        """Why there is no history, as a sentence for the owner."""

    def notes_changed(self) -> None:
        """Something was written."""
        self._has_changes = self._mode != "off" and self._workspace.folder is not None

    def turn_ended(self) -> None:
        """Begins to commit, if there is anything and that is not done already."""
        if self._has_changes and (self._running is None or self._running.done()):
            self._running = asyncio.create_task(self._commit())

    async def close(self) -> None:
        """Commits what is left, and waits for it."""
        if self._running is not None:
            await self._running
        self.turn_ended()
        if self._running is not None:
            await self._running

    async def _commit(self) -> None:
        while self._has_changes:
            self._has_changes = False
            problem = await commit_notes(self._workspace, mode=self._mode, lock_dir=self._lock_dir)
            if problem:
                log.warning("the notes were not committed: %s", problem)
                self.notices = (f"What was noted is kept, and is in no git commit yet: {problem}.",)


async def commit_notes(workspace: Workspace, *, mode: HistoryMode, lock_dir: Path) -> str:
    """Commits what changed in the notes; why that cannot be, as a clause, or `""`."""
    folder = workspace.folder
    if folder is None:
        return "a git history needs a workspace that is a folder"
    try:
        return await asyncio.to_thread(_committed, folder, Sources(workspace), mode, lock_dir)
    except (GitFailed, FileBusy, OSError) as error:
        return str(error).rstrip(".")


def _committed(folder: Path, sources: Sources, mode: HistoryMode, lock_dir: Path) -> str:
    with locked(folder / ".git", lock_dir):
        repository, problem = opened(folder, mode)
        if repository is not None:
            for commit in commit_changes(repository, known_sources(sources)):
                log.info("commit %s holds what was noted", commit[:12])
        return problem
