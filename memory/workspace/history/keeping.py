"""When an agent has its notes committed: behind a turn that wrote some, and before it closes."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from nacre.memory.contracts.workspace import FileBusy, Workspace
from nacre.memory.files.sources.sources import Sources
from nacre.memory.workspace.git import GitFailed
from nacre.memory.workspace.history.committing import commit_changes, known_sources
from nacre.memory.workspace.history.health import Health
from nacre.memory.workspace.history.repository import Repository

log = logging.getLogger(__name__)

COMMIT_SECONDS = 5.0
"""Longest that git may take behind a turn. Who closes an agent may wait for that."""


class HistoryKeeper:
    """Commits the notes that turns wrote, on a thread; nobody waits for it but `close`.

    A workspace that is no folder has no history.
    """

    def __init__(
        self,
        workspace: Workspace,
        *,
        commits: bool,
        state_dir: Path,
        within_seconds: float = COMMIT_SECONDS,
    ) -> None:
        self._workspace = workspace
        self._within_seconds = within_seconds
        self._state_dir = state_dir
        folder = workspace.folder
        self._health = (
            None if folder is None or not commits else Health(Repository(folder, state_dir=state_dir))
        )
        self._has_changes = False
        self._failed = False
        self._running: asyncio.Task[None] | None = None

    @property
    def notices(self) -> tuple[str, ...]:
        """Why the notes are not committed, as a sentence for the owner, until a turn could tell it."""
        problem = self._health.untold() if self._health is not None else ""
        return (f"What was noted is kept, but is in no git commit yet: {problem}.",) if problem else ()

    def notes_changed(self) -> None:
        """Something was written."""
        self._has_changes = self._health is not None

    def turn_ended(self) -> None:
        """Begins to commit, if there is anything and that is not done already."""
        if self._health is not None:
            self._health.told()
        self._begin()

    async def close(self) -> None:
        """Commits what is left, and waits for it; after a failure it is left to the next start."""
        if self._running is not None:
            await self._running
        if not self._failed:
            self._begin()
        if self._running is not None:
            await self._running

    def _begin(self) -> None:
        if self._has_changes and (self._running is None or self._running.done()):
            self._running = asyncio.create_task(self._commit())

    async def _commit(self) -> None:
        while self._has_changes:
            self._has_changes = False
            problem = await commit_notes(
                self._workspace, state_dir=self._state_dir, within_seconds=self._within_seconds
            )
            self._failed = bool(problem)
            if problem:
                log.warning("the notes were not committed: %s", problem)


async def commit_notes(
    workspace: Workspace, *, state_dir: Path, within_seconds: float = COMMIT_SECONDS
) -> str:
    """Commits what changed in the notes; why that cannot be, as a clause, or `""`.

    A failure is remembered for the owner, see `Health`.
    """
    folder = workspace.folder
    if folder is None:
        return "a git history needs a workspace that is a folder"
    repository = Repository(folder, state_dir=state_dir, within_seconds=within_seconds)
    health = Health(repository)
    try:
        await asyncio.to_thread(_committed, repository, Sources(workspace))
    except (GitFailed, FileBusy, OSError) as error:
        problem = str(error).rstrip(".")
        health.failed(problem)
        return problem
    health.worked()
    return ""


def _committed(repository: Repository, sources: Sources) -> None:
    with repository.opened():
        for commit in commit_changes(repository, known_sources(sources)):
            log.info("commit %s holds what was noted", commit[:12])
