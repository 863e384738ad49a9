"""Reads the notes that a proposal is made from, and writes approved changes as one commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date

from nacre.memory.contracts.notes import is_markdown
from nacre.memory.contracts.workspace import FileBytes, PathOutsideRoot, ReadFailed, Workspace
from nacre.memory.files.proposals import NoteChange, ProposalFailed, write_changes
from nacre.memory.text.chunker import day_in_path
from nacre.memory.workspace.history.commits import TIDIED, as_one_commit
from nacre.memory.workspace.workspace import MEMORY_FOLDER
from nacre.runtime.settings.config import Config


async def daily_logs(
    workspace: Workspace, *, after: date | None = None, before: date | None = None
) -> list[str]:
    """The names of the daily logs from `after` to `before`, both included, oldest first.

    Raises:
        ProposalFailed: the folder of the logs cannot be read.
    """
    days = ((name, day_in_path(name)) for name in await note_names(workspace, MEMORY_FOLDER))
    return sorted(name for name, day in days if day and (after or day) <= day <= (before or day))


async def note_names(workspace: Workspace, folder: str) -> list[str]:
    """The names of the Markdown notes directly in `folder`; none if the folder does not exist.

    Raises:
        ProposalFailed: the folder cannot be read.
    """
    try:
        entries = await workspace.list_folder(folder)
    except FileNotFoundError:
        return []
    except (OSError, PathOutsideRoot) as error:
        raise ProposalFailed(f"The folder {folder} cannot be read: {error}.") from error
    return [f"{folder}/{each.name}" for each in entries if not each.is_folder and is_markdown(each.name)]


async def note_texts(workspace: Workspace, names: Sequence[str]) -> dict[str, str]:
    """The texts of those of these notes that exist.

    Raises:
        ProposalFailed: a note cannot be read, is too long, is a link, or is not UTF-8.
    """
    found = await workspace.read_many(names)
    return {
        name: _text(name, read) for name, read in found.items() if not isinstance(read, FileNotFoundError)
    }


def _text(name: str, found: FileBytes | ReadFailed) -> str:
    if isinstance(found, Exception):
        raise ProposalFailed(f"{name} cannot be read: {found}.")
    if found.is_cut:
        raise ProposalFailed(f"{name} cannot be used: {found.size_bytes} bytes are too long.")
    if str(found.relative) != name:
        raise ProposalFailed(f"{name} cannot be used: it is a link to {found.relative}.")
    try:
        return found.data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ProposalFailed(f"{name} is not UTF-8 text: {error}. Save it as UTF-8.") from error


async def write_in_one_commit(
    config: Config,
    workspace: Workspace,
    changes: Sequence[NoteChange],
    *,
    at: str,
    is_typed: Callable[[str], bool] = lambda _line: False,
) -> tuple[str, str]:
    """Writes changes of notes as one commit, which `nacre memory undo` undoes.

    Returns the commit and `""`, or `""` and a clause that says why there is none. `at` is an ISO time, and
    `is_typed` as of `write_changes`.

    Raises:
        HistoryBusy: nothing was written.
        ProposalFailed: a note has changed or cannot be written.
    """
    paths = [change.path for change in changes]
    named = paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
    return await as_one_commit(
        workspace,
        lambda: write_changes(workspace, changes, at=at, redacts_secrets=True, is_typed=is_typed),
        paths=paths,
        commits=config.settings.memory.history.commits != "off",
        state_dir=config.state_dir,
        subject=f"Tidied {named}",
        trailers=((TIDIED, paths[0]),),
    )
