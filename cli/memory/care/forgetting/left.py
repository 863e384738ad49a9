"""Where something is still found after it was to be forgotten: searched for, and not believed. Edge."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from nacre.cli.memory.care.forgetting.rows import rows_with
from nacre.cli.memory.care.forgetting.transcripts import says_in, transcripts_with
from nacre.cli.memory.care.forgetting.wanted import Wanted
from nacre.memory.contracts.workspace import FileBusy
from nacre.memory.workspace.git import GitFailed
from nacre.memory.workspace.history.forgetting import versions_with
from nacre.memory.workspace.history.repository import HISTORY_FOLDER, Repository
from nacre.postgres.shared import shared_database
from nacre.runtime.settings.config import Config
from nacre.sessions.stores.rewriting import RewritableStore

OUT_OF_REACH = (
    "Out of reach: back-ups and copies of the disk, what providers of models and embeddings keep of what "
    "they were sent, what was sent to a chat, and what programs that are running have read until they end."
)
_REWRITTEN = ("transcript_lines", "whole_results")
"""Tables of conversations, which are searched value by value."""
_PASSED = frozenset({".git", "locks", "models"})


async def still_there(
    config: Config, store: RewritableStore, wanted: Wanted, gone: Sequence[str]
) -> list[str]:
    """Sentences about places that still have it; `gone` are the lines that were taken out.

    Raises:
        SessionError, DatabaseError: a place cannot be searched.
    """
    told = []
    if found := await transcripts_with(store, wanted):
        told.append(f"Transcripts have it: {_names(found)}. --transcripts takes it out of them.")
    if config.database_url:
        database = shared_database(config.database_url)
        rows = await rows_with(database, config.agent_id, lambda text: says_in(text, wanted), but=_REWRITTEN)
        if rows:
            tables = ", ".join(f"{table} ({count})" for table, count in rows.items())
            told.append(f"Rows of these tables have it: {tables}.")
    return [*told, *await asyncio.to_thread(_in_files, config, wanted, gone)]


def _in_files(config: Config, wanted: Wanted, gone: Sequence[str]) -> list[str]:
    told = []
    if not config.database_url:
        if versions := in_history(config, wanted):
            told.append(
                f"The git history of the notes has it, in {versions} older versions. "
                "--git-history takes it out."
            )
        told += _in_owner_git(config, wanted)
        told += [
            f"{path} is a damaged history that was set aside and cannot be searched. Delete it."
            for path in Repository(config.workspace, state_dir=config.state_dir).set_aside()
        ]
    needles = [line.lstrip(" -*+>").encode() for line in gone if len(line.strip(" -*+>")) > 3]
    if elsewhere := [path for path in _others(config) if _has(path, wanted, needles)]:
        told.append(f"These files have it: {_names(elsewhere)}.")
    return told


def in_history(config: Config, wanted: Wanted) -> int:
    """How many versions of notes in the history say it; 0 where there is none that can be read."""
    repository = Repository(config.workspace, state_dir=config.state_dir)
    if not repository.is_there:
        return 0
    try:
        repository.read()
        return versions_with(repository, lambda data: wanted.says_any(data.decode("utf-8", "replace")))
    except GitFailed:
        return 0


def _in_owner_git(config: Config, wanted: Wanted) -> list[str]:
    """What the `.git` of the workspace has of it, which is the owner's and only read."""
    git_dir = config.workspace / ".git"
    if not os.path.lexists(git_dir):
        return []
    repository = Repository(config.workspace, state_dir=config.state_dir)
    try:
        with repository.opened():
            versions = versions_with(
                repository, lambda data: wanted.says_any(data.decode("utf-8", "replace")), of_owner=True
            )
    except (GitFailed, FileBusy, OSError) as error:
        return [f"{git_dir} is a repository of yours, which could not be searched: {error}."]
    if not versions:
        return []
    return [
        f"{git_dir} is a repository of yours and has it, in {versions} versions of files. Nacre does not "
        "change it: rewrite it with git, or delete it if an earlier Nacre made it."
    ]


def _others(config: Config) -> Iterator[Path]:
    """Files of the state folder and the workspace that are neither transcripts nor git's."""
    sessions = config.folders.sessions_file.parent
    roots = {config.state_dir, config.folders.agent_dir, config.folders.index_file.parent}
    if not config.database_url:
        roots.add(config.workspace)
    history, seen = config.state_dir / HISTORY_FOLDER, set[Path]()
    for root in roots:
        for path in root.rglob("*"):
            inside = path.relative_to(root).parts
            is_passed = (
                bool(_PASSED & set(inside))
                or path.is_relative_to(history)
                or (path.is_relative_to(sessions) and ".json" in path.name)
            )
            if path not in seen and not is_passed and path.is_file() and not path.is_symlink():
                seen.add(path)
                yield path


def _has(path: Path, wanted: Wanted, needles: Sequence[bytes]) -> bool:
    data = path.read_bytes()
    if any(needle in data for needle in needles):
        return True
    return b"\0" not in data[:1024] and wanted.says_any(data.decode("utf-8", "replace"))


def _names(paths: Sequence[Path | str]) -> str:
    shown = ", ".join(str(path) for path in paths[:5])
    return f"{shown} and {len(paths) - 5} more" if len(paths) > 5 else shown
