"""Writes a tidied note through the one gate of what is noted, and as one commit of the workspace's history."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from nacre.memory.contracts.workspace import FileBusy, PathOutsideRoot, Workspace
from nacre.memory.files.sources.secrets import without_new_secrets
from nacre.memory.files.sources.source import PRIVATE, Source
from nacre.memory.files.sources.sourced_workspace import SourcedWorkspace
from nacre.memory.files.sources.sources import SOURCES_FOLDER, SourceOf, Sources
from nacre.memory.files.tidy.edits import Tidied
from nacre.memory.files.tidy.reading import TidyFailed
from nacre.memory.workspace.files import locked
from nacre.memory.workspace.git import GitFailed
from nacre.memory.workspace.history.committing import (
    TIDIED,
    HistoryMode,
    commit_changes,
    commit_together,
    known_sources,
    opened,
)
from nacre.memory.workspace.history.repository import Repository


def gated(change: Tidied) -> Tidied:
    """The change as the gate lets it in: keys and passwords that come with new lines are redacted."""
    return replace(change, after=without_new_secrets(change.after, change.before or ""))


async def write(
    workspace: Workspace, change: Tidied, *, mode: HistoryMode, lock_dir: Path, at: str
) -> tuple[str, str]:
    """Writes the note; the commit that holds it, and why there is none, as a clause. One of them is `""`.

    What changed before in the notes is committed before. `at` is an ISO time. Blocks while git works.

    Raises:
        TidyFailed: nothing was changed: the note is not what the proposal was made of, the history is busy,
            or the disk refuses.
    """
    if workspace.folder is None:
        await _replaced(workspace, change, at)
        return "", f"{workspace.place} has the notes, and a git history needs files"
    try:
        with locked(workspace.folder / ".git", lock_dir):
            repository, problem = await asyncio.to_thread(opened, workspace.folder, mode)
            if problem:
                raise TidyFailed(f"Nothing was changed: {problem} in {workspace.place}.")
            if repository is not None:
                await asyncio.to_thread(commit_changes, repository, known_sources(Sources(workspace)))
            await _replaced(workspace, change, at)
            if repository is None:
                return "", "the workspace has no git history that Nacre may write"
            return await _committed(repository, change)
    except (GitFailed, FileBusy, OSError) as error:
        raise TidyFailed(f"Nothing was changed: {error}") from error


async def _committed(repository: Repository, change: Tidied) -> tuple[str, str]:
    def is_ours(name: str) -> bool:
        return name == change.path or name.startswith(f"{SOURCES_FOLDER}/")

    try:
        made = await asyncio.to_thread(
            commit_together, repository, is_ours, f"Tidied {change.path}", ((TIDIED, change.path),)
        )
    except (GitFailed, OSError) as error:
        return "", f"{error}; the next turn that notes something commits it"
    return made, ""


async def _replaced(workspace: Workspace, change: Tidied, at: str) -> None:
    new = change.after.encode("utf-8")
    was = None if change.before is None else change.before.encode("utf-8")

    def replaced(old: bytes | None) -> bytes:
        if old != was:
            raise TidyFailed(
                f"Nothing was changed: {change.path} was changed since the proposal was made. Run it again."
            )
        return new

    gate = SourcedWorkspace(workspace, Sources(workspace), _sources(change, at))
    try:
        await gate.change(change.path, replaced)
    except (OSError, FileBusy, PathOutsideRoot) as error:
        raise TidyFailed(f"Nothing was changed: {change.path} could not be written: {error}") from error


def _sources(change: Tidied, at: str) -> Callable[[], Awaitable[SourceOf]]:
    """What was folded in comes from a reflection; what the owner typed instead is theirs."""
    added = {line for edit in change.done for line in edit.added}
    reflected = Source(written_by="reflection", audience=PRIVATE, said_by=("owner", "assistant"), at=at)
    typed = Source(written_by="hand", audience=PRIVATE, said_by=("owner",), at=at)

    async def begin() -> SourceOf:
        return lambda line: reflected if line.rstrip() in added or not line else typed

    return begin
