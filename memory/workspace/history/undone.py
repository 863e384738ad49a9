"""A commit taken back: its lines go from the notes of today, and that is a commit of its own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from nacre.memory.files.sources.sources import SOURCES_FOLDER
from nacre.memory.workspace.files import change_locked, whole_file
from nacre.memory.workspace.history.committing import UNDOES, lines_of, message_of
from nacre.memory.workspace.history.repository import Repository
from nacre.memory.workspace.history.telling import Commit, CommitUnknown, commits
from nacre.memory.workspace.history.undoing import Conflict, taken_back
from nacre.memory.workspace.paths import contained_path


class UndoConflict(Exception):
    """Lines that were to be taken back were changed since, at `places`; nothing was changed."""

    def __init__(self, places: Sequence[str]) -> None:
        super().__init__(
            f"Nothing was changed: what the commit wrote was changed since, in {', '.join(places)}. "
            "Edit these lines by hand."
        )
        self.places = tuple(places)


def last_to_undo(repository: Repository) -> Commit:
    """The newest commit of a session, or of a tidying, that was not taken back.

    Raises:
        CommitUnknown: there is none.
    """
    known = commits(repository)
    undone = {each.undoes for each in known}
    for each in known:
        if (each.session_id or each.tidied) and each.commit not in undone:
            return each
    raise CommitUnknown("No commit of a session could be undone. `nacre memory log` lists all commits.")


def undo(repository: Repository, commit: str, *, lock_dir: Path) -> tuple[str, list[str]]:
    """Takes back what a commit changed in the notes; the new commit, and the files that changed.

    All changes must have been committed before. It blocks.

    Raises:
        UndoConflict: nothing was changed.
        CommitUnknown: it is a merge, or there is nothing to take back.
        GitFailed, OSError, FileBusy: git or the disk refused.
    """
    head = repository.head()
    told = repository.git("rev-list", "--parents", "-n", "1", commit).decode().split()
    if len(told) > 2:
        raise CommitUnknown(f"{commit[:12]} is a merge, which cannot be undone.")
    parent = told[1] if len(told) > 1 else ""
    listed = repository.git("diff-tree", "--root", "-r", "-z", "--no-commit-id", "--name-only", commit)
    names = [os.fsdecode(name) for name in listed.split(b"\0") if name]
    wanted: dict[str, tuple[bytes | None, bytes | None]] = {}
    conflicts: list[str] = []
    for name in names:
        if name.startswith(f"{SOURCES_FOLDER}/"):
            continue  # a source whose line is gone does no harm
        path = contained_path(repository.root, name)
        now = whole_file(path)
        before = repository.before(parent, name)
        lines = taken_back(
            lines_of(before or b""), lines_of(repository.before(commit, name) or b""), lines_of(now or b"")
        )
        if isinstance(lines, Conflict):
            conflicts.append(f"{name}#L{lines.line}")
            continue
        new = "".join(lines).encode("utf-8", "surrogateescape")
        wanted[name] = (now, new if new or before is not None else None)
    if conflicts:
        raise UndoConflict(conflicts)
    changed = sorted(name for name, (now, new) in wanted.items() if now != new)
    if not changed:
        raise CommitUnknown(f"There is nothing left to undo of {commit[:12]}.")
    subset = {name: wanted[name] for name in changed}
    return _written(repository, head, commit, subset, lock_dir), changed


def _written(
    repository: Repository,
    head: str,
    commit: str,
    wanted: dict[str, tuple[bytes | None, bytes | None]],
    lock_dir: Path,
) -> str:
    repository.changed(head)  # the tree begins as the commit has it
    for name, (now, _new) in wanted.items():
        path = contained_path(repository.root, name)
        if whole_file(path) != now:
            raise UndoConflict([name])
    done: list[tuple[str, bytes | None, bytes | None]] = []
    try:
        for name, (now, new) in wanted.items():
            change_locked(contained_path(repository.root, name), partial(_replaced, name, now, new), lock_dir)
            done.append((name, now, new))
            repository.put(name, new)
    except UndoConflict:
        for name, now, new in done:  # what was written since stays, and is told by the next try
            with suppress(UndoConflict):
                change_locked(
                    contained_path(repository.root, name), partial(_replaced, name, new, now), lock_dir
                )
        raise
    subject = f"Undo {commit[:12]}"
    return repository.commit(head, message_of(subject, ((UNDOES, commit),)))


def _replaced(name: str, now: bytes | None, new: bytes | None, old: bytes | None) -> bytes | None:
    """The new bytes, under the lock, if the note is still what was looked at."""
    if old != now:
        raise UndoConflict([name])
    return new
