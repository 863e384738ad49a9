"""Whether the history of the notes can be written: remembered, looked at, repaired."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from nacre.memory.workspace.git import GitFailed
from nacre.memory.workspace.history.migration import copy_history, new_repository
from nacre.memory.workspace.history.repository import BRANCH, DAMAGED, Repository

_PROBLEM = ".problem.json"


class Health:
    """What is known of a repository's state, across processes."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._path = repository.git_dir.with_suffix(_PROBLEM)

    def problem(self) -> str:
        """Why the last attempt to commit failed, as a clause; `""` if it did not."""
        return self._read()[0]

    def untold(self) -> str:
        """The same, if the owner was not told of it yet."""
        problem, is_told = self._read()
        return "" if is_told else problem

    def told(self) -> None:
        """The owner knows of the problem."""
        problem, is_told = self._read()
        if problem and not is_told:
            self._write(problem, is_told=True)

    def failed(self, problem: str) -> None:
        """A commit failed. An owner who knows of an earlier failure is not told again."""
        self._write(problem, is_told=self._read()[1])

    def worked(self) -> None:
        """A commit was made, or none was needed."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    def looked_at(self) -> str:
        """What is wrong with the repository now, as a clause, or `""`. Reads all of it and blocks."""
        repository = self._repository
        if not repository.git_dir.exists():
            return self.problem()
        try:
            repository.git("fsck", "--no-dangling", "--no-progress", BRANCH) if repository.head() else b""
        except GitFailed as error:
            return str(error).splitlines()[0]
        return self.problem()

    def repair(self) -> str:
        """Makes the repository usable; what was done, as a sentence. Blocks.

        Locks of killed programs are removed. A damaged repository is moved aside and made again from its
        newest whole commit. Nothing is deleted.

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
        self.worked()
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
        is_copied = copy_history(git_dir, new, until=None)
        git_dir.rename(aside)
        new.rename(git_dir)
        kept = "the newest whole commit was kept" if is_copied else "no commit was whole, so a new one begins"
        return f"moved the damaged history to {aside.name}; {kept}"

    def _read(self) -> tuple[str, bool]:
        if not self._path.exists():  # as a rule; each turn asks, and opens no file for it
            return "", False
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
            return str(found["problem"]), bool(found["told"])
        except (OSError, ValueError, KeyError, TypeError):
            return "", False

    def _write(self, problem: str, *, is_told: bool) -> None:
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            temporary = Path(f"{self._path}.tmp")
            temporary.write_text(json.dumps({"problem": problem, "told": is_told}), encoding="utf-8")
            temporary.replace(self._path)
