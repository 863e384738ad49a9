"""A change that is one commit of its own, whoever wrote its lines; what was there is committed before."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from nacre.memory.contracts.workspace import FileBusy, Workspace
from nacre.memory.files.sources.sources import SOURCES_FOLDER, Sources
from nacre.memory.workspace.files import locked
from nacre.memory.workspace.git import GitFailed
from nacre.memory.workspace.history.committing import (
    HistoryMode,
    commit_changes,
    commit_together,
    known_sources,
    opened,
)
from nacre.memory.workspace.history.repository import Repository


class HistoryBusy(Exception):
    """The history cannot take a commit now, so nothing was written. A clause that says why."""


async def as_one_commit(
    workspace: Workspace,
    write: Callable[[], Awaitable[None]],
    *,
    path: str,
    mode: HistoryMode,
    lock_dir: Path,
    subject: str,
    trailers: Sequence[tuple[str, str]],
) -> tuple[str, str]:
    """Has `write` change the note `path`; the commit that holds it, and why there is none, as a clause.

    One of them is `""`. No other commit of Nacre's comes in between. Blocks while it waits for its turn.

    Raises:
        HistoryBusy: in the middle of a merge, say; `write` was not called. Whatever `write` raises.
    """
    if workspace.folder is None:
        await write()
        return "", f"{workspace.place} has the notes, and a git history needs files"
    try:
        with locked(workspace.folder / ".git", lock_dir):
            repository = await _ready(workspace.folder, Sources(workspace), mode)
            await write()
            if repository is None:
                return "", "the workspace has no git history that Nacre may write"
            return await _committed(repository, path, subject, trailers)
    except FileBusy as error:
        raise HistoryBusy(str(error).rstrip(".")) from error


async def _ready(folder: Path, sources: Sources, mode: HistoryMode) -> Repository | None:
    try:
        repository, problem = await asyncio.to_thread(opened, folder, mode)
        if repository is not None:
            await asyncio.to_thread(commit_changes, repository, known_sources(sources))
    except (GitFailed, OSError) as error:
        raise HistoryBusy(str(error).rstrip(".")) from error
    if problem:
        raise HistoryBusy(problem)
    return repository


async def _committed(
    repository: Repository, path: str, subject: str, trailers: Sequence[tuple[str, str]]
) -> tuple[str, str]:
    def is_ours(name: str) -> bool:
        return name == path or name.startswith(f"{SOURCES_FOLDER}/")

    try:
        return await asyncio.to_thread(commit_together, repository, is_ours, subject, trailers), ""
    except (GitFailed, OSError) as error:
        return "", f"{str(error).rstrip('.')}; the next turn that notes something commits it"
