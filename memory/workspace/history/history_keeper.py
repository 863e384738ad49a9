"""When an agent's notes are committed: after a turn that wrote some, and before the agent closes."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import suppress
from pathlib import Path

from nacre.memory.contracts.workspace import FileBusy, Workspace
from nacre.memory.files.sources.sources import Sources
from nacre.memory.workspace.git import GitFailed
from nacre.memory.workspace.history.commits import commit_changes, known_sources
from nacre.memory.workspace.history.repository import (
    BRANCH,
    DAMAGED,
    Repository,
    copy_history,
    new_repository,
)

log = logging.getLogger(__name__)

COMMIT_SECONDS = 5.0
"""The time limit of git after a turn. Closing an agent may wait for it."""


class HistoryKeeper:
    """Commits the notes that turns wrote, on a thread; only `close` waits for it.

    A workspace that is not a folder has no history.
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
        self._health: Health | None = None
        if commits and workspace.folder is not None:
            self._health = Health(
                Repository(workspace.folder, state_dir=state_dir, within_seconds=within_seconds)
            )
        self._has_changes = False
        self._failed = False
        self._running: asyncio.Task[None] | None = None

    @property
    def notices(self) -> tuple[str, ...]:
        """Why the notes are not committed, as a sentence, until a turn has shown it."""
        problem = self._health.unreported() if self._health is not None else ""
        return (f"The notes are saved but not committed to git yet: {problem}.",) if problem else ()

    def notes_changed(self) -> None:
        self._has_changes = self._health is not None

    def turn_ended(self) -> None:
        """Starts a commit if notes were written and none is running."""
        if self._health is not None:
            self._health.mark_reported()
        self._begin()

    async def close(self) -> None:
        """Commits what is left and waits for it; after a failure, the next start commits it."""
        if self._running is not None:
            await self._running
        if not self._failed:
            self._begin()
        if self._running is not None:
            await self._running

    def _begin(self) -> None:
        if self._health is None or not self._has_changes:
            return
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._commit(self._health))

    async def _commit(self, health: Health) -> None:
        while self._has_changes:
            self._has_changes = False
            problem = await health.commit(self._workspace)
            self._failed = bool(problem)
            if problem:
                log.warning("the notes were not committed: %s", problem)


async def commit_notes(
    workspace: Workspace, *, state_dir: Path, within_seconds: float = COMMIT_SECONDS
) -> str:
    """Commits all changes of the notes; why that failed, as a clause, or `""`.

    A failure is stored for the owner in `Health`.
    """
    folder = workspace.folder
    if folder is None:
        return "a git history needs a workspace that is a folder"
    repository = Repository(folder, state_dir=state_dir, within_seconds=within_seconds)
    return await Health(repository).commit(workspace)


def _committed(repository: Repository, sources: Sources) -> None:
    with repository.opened():
        for commit in commit_changes(repository, known_sources(sources)):
            log.info("commit %s holds what was noted", commit[:12])


_PROBLEM = ".problem.json"


class Health:
    """The state of a repository, shared by all processes."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._path = repository.git_dir.with_suffix(_PROBLEM)

    async def commit(self, workspace: Workspace) -> str:
        """Commits all changes of the notes, and records and returns why that failed, as a clause, or `""`."""
        try:
            await asyncio.to_thread(_committed, self._repository, Sources(workspace))
        except (GitFailed, FileBusy, OSError) as error:
            problem = str(error).rstrip(".")
            # An owner who was told of an earlier failure is not told again.
            self._write(problem, is_reported=self._read()[1])
            return problem
        self._clear()
        return ""

    def problem(self) -> str:
        """Why the last commit failed, as a clause; `""` if it did not."""
        return self._read()[0]

    def unreported(self) -> str:
        """The same, unless the owner has been told."""
        problem, is_reported = self._read()
        return "" if is_reported else problem

    def mark_reported(self) -> None:
        problem, is_reported = self._read()
        if problem and not is_reported:
            self._write(problem, is_reported=True)

    def check(self) -> str:
        """What is wrong with the repository now, as a clause, or `""`. Reads all of it and blocks."""
        repository = self._repository
        if not repository.git_dir.exists():
            return self.problem()
        try:
            if repository.head():
                repository.git("fsck", "--no-dangling", "--no-progress", BRANCH)
        except GitFailed as error:
            return str(error).splitlines()[0]
        return self.problem()

    def repair(self) -> str:
        """Repairs the repository and returns what was done, as a sentence. Blocks.

        Removes locks of killed programs. A damaged repository is moved aside and made again from its newest
        complete commit. Nothing is deleted.

        Raises:
            GitFailed, FileBusy, OSError: it could not be repaired.
        """
        repository, done = self._repository, ["looked through"]
        with repository.opened():
            if removed := repository.remove_locks(older_than_seconds=0):
                done = [f"removed {removed} locks of killed programs"]
            try:
                if repository.head():
                    repository.git("fsck", "--no-dangling", "--no-progress", BRANCH)
            except GitFailed:
                done.append(self._rebuilt())
        self._clear()
        return ", ".join(done)

    def _rebuilt(self) -> str:
        git_dir = self._repository.git_dir
        aside = next(
            path
            for number in range(1, 1000)
            if not (path := git_dir.with_suffix(f"{DAMAGED}{number}")).exists()
        )
        new = git_dir.with_suffix(".new")
        new_repository(new, until=None)
        is_copied = copy_history(git_dir, new)
        git_dir.rename(aside)
        new.rename(git_dir)
        kept = (
            "the newest complete commit was kept"
            if is_copied
            else "no commit was complete, so a new history begins"
        )
        return f"moved the damaged history to {aside.name}; {kept}"

    def _read(self) -> tuple[str, bool]:
        try:  # usually it is not there, and a turn opens no file
            found = json.loads(self._path.read_text(encoding="utf-8")) if self._path.exists() else {}
            return str(found["problem"]), bool(found["told"])
        except (OSError, ValueError, KeyError, TypeError):
            return "", False

    def _clear(self) -> None:
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _write(self, problem: str, *, is_reported: bool) -> None:
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            temporary = Path(f"{self._path}.tmp")
            temporary.write_text(json.dumps({"problem": problem, "told": is_reported}), encoding="utf-8")
            temporary.replace(self._path)
