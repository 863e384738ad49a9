"""A change that is one commit of its own, whoever wrote its lines; what was there is committed before."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from nacre.memory.contracts.workspace import FileBusy, Workspace
from nacre.memory.files.sources.sources import SOURCES_FOLDER, Sources
from nacre.memory.workspace.git import GitFailed
from nacre.memory.workspace.history.committing import commit_changes, commit_together, known_sources
from nacre.memory.workspace.history.repository import Repository


class HistoryBusy(Exception):
    """The history cannot take a commit now, so nothing was written. A clause that says why."""


async def as_one_commit(
    workspace: Workspace,
    write: Callable[[], Awaitable[None]],
    *,
    path: str,
    commits: bool,
    state_dir: Path,
    subject: str,
    trailers: Sequence[tuple[str, str]],
) -> tuple[str, str]:
    """Has `write` change the note `path`; the commit that holds it, and why there is none, as a clause.

    One of them is `""`. No other commit of Nacre's comes in between. Blocks while it waits for its turn.

    Raises:
        HistoryBusy: `write` was not called. Whatever `write` raises.
    """
    if workspace.folder is None:
        await write()
        return "", f"{workspace.place} has the notes, and a git history needs files"
    if not commits:
        await write()
        return "", 'memory.history.commits is "off"'
    repository = Repository(workspace.folder, state_dir=state_dir)
    with ExitStack() as stack:
        try:
            stack.enter_context(repository.opened())
            await asyncio.to_thread(commit_changes, repository, known_sources(Sources(workspace)))
        except (FileBusy, GitFailed, OSError) as error:
            raise HistoryBusy(str(error).rstrip(".")) from error
        await write()
        return await _committed(repository, path, subject, trailers)


async def _committed(
    repository: Repository, path: str, subject: str, trailers: Sequence[tuple[str, str]]
) -> tuple[str, str]:
    def is_ours(name: str) -> bool:
        return name == path or name.startswith(f"{SOURCES_FOLDER}/")

    try:
        return await asyncio.to_thread(commit_together, repository, is_ours, subject, trailers), ""
    except (GitFailed, OSError) as error:
        return "", f"{str(error).rstrip('.')}; the next turn that notes something commits it"
