"""The git history of the notes: what each session wrote, as a diff, and taken back. Edge; blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from nacre.memory.contracts.workspace import FileBusy
from nacre.memory.files.sources.sources import Sources
from nacre.memory.workspace.git import GitFailed
from nacre.memory.workspace.history.commits import commit_changes, known_sources
from nacre.memory.workspace.history.repository import NO_HISTORY, Repository
from nacre.memory.workspace.history.undo import (
    Commit,
    CommitUnknown,
    UndoConflict,
    commits,
    named,
    shown,
    undo,
)
from nacre.records.record import Record
from nacre.runtime.settings.config import Config
from nacre.runtime.storage.opening import storage_of

T = TypeVar("T")
MOST_COMMITS = 30


class HistoryUnusable(Exception):
    """There is no history, or git refused; a sentence."""


class NoteCommit(Record):
    """A commit with its diff. `is_undone`: a later one took it back."""

    commit: Commit
    diff: str
    is_undone: bool


def latest_commits(config: Config, *, most: int = MOST_COMMITS) -> tuple[NoteCommit, ...]:
    """The latest commits of the notes with their diffs, the newest first. Raises `HistoryUnusable`."""

    def listed(repository: Repository) -> tuple[NoteCommit, ...]:
        known = commits(repository)
        undone = {each.undoes for each in known}
        return tuple(
            NoteCommit(commit=each, diff=shown(repository, each.commit), is_undone=each.commit in undone)
            for each in known[:most]
        )

    return _with(config, listed)


def take_back(config: Config, commit: str) -> str:
    """Takes a commit back, as a commit of its own; what happened, as a sentence. Raises `HistoryUnusable`.

    What a hand changed since is committed first, and stays.
    """

    def taken(repository: Repository) -> str:
        with repository.opened():
            sources = Sources(storage_of(config).workspace())
            commit_changes(repository, known_sources(sources))
            name = named(repository, commit)
            _made, paths = undo(repository, name)
        return f"Undid {name[:12]} in {', '.join(paths)}."

    return _with(config, taken)


def _with(config: Config, work: Callable[[Repository], T]) -> T:
    workspace = storage_of(config).workspace()
    if workspace.folder is None:
        raise HistoryUnusable(f"{workspace.place} has the notes; a git history needs files.")
    repository = Repository(workspace.folder, state_dir=config.state_dir)
    try:
        if not repository.is_there:
            raise HistoryUnusable(f"{workspace.place} has no history yet. {NO_HISTORY}")
        repository.read()
        return work(repository)
    except (GitFailed, FileBusy, OSError, CommitUnknown, UndoConflict) as error:
        raise HistoryUnusable(str(error)) from error
