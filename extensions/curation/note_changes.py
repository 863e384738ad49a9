"""Reads the notes that a proposal is made from."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from nacre.memory.contracts.notes import is_markdown
from nacre.memory.contracts.workspace import FileBytes, PathOutsideRoot, ReadFailed, Workspace
from nacre.memory.files.proposals import ProposalFailed
from nacre.memory.text.chunker import day_in_path
from nacre.memory.workspace.workspace import MEMORY_FOLDER


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
