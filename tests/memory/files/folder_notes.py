"""The notes of a folder, asked for outside of any loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from nacre.memory.contracts.notes import NoteListing
from nacre.memory.contracts.records import Excerpt
from nacre.memory.files import note_files
from nacre.memory.files.note_files import NoteFiles
from nacre.memory.workspace.folder import FolderWorkspace


def notes_of(root: Path, extra_paths: Sequence[str] = ()) -> NoteFiles:
    """The notes of the workspace in this folder, with its locks beside it."""
    return NoteFiles(FolderWorkspace(root, lock_dir=root.parent / "locks"), extra_paths)


def listing(root: Path, extra_paths: Sequence[str] = ()) -> NoteListing:
    """What is found there."""
    return asyncio.run(notes_of(root, extra_paths).listing())


def read_excerpt(
    root: Path,
    extra_paths: Sequence[str],
    path: str,
    *,
    from_line: int | None = None,
    lines: int | None = None,
    below: str = "",
) -> Excerpt:
    """What `memory_get` shows of it."""
    notes = notes_of(root, extra_paths)
    return asyncio.run(note_files.read_excerpt(notes, path, from_line=from_line, lines=lines, below=below))
