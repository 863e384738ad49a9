"""Where something is still found after it was to be forgotten: searched for, and not believed. Edge."""

from __future__ import annotations

import asyncio
import io
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from nacre.cli.memory.care.forgetting.searching import (
    file_has,
    is_packed,
    needles_of,
    says_in,
    says_name,
)
from nacre.cli.memory.care.forgetting.transcripts import transcripts_with
from nacre.cli.memory.care.forgetting.wanted import Wanted
from nacre.memory.contracts.workspace import FileBusy
from nacre.memory.workspace.git import GitFailed
from nacre.memory.workspace.history.forgetting import owners_objects, versions_with
from nacre.memory.workspace.history.repository import HISTORY_FOLDER, Repository
from nacre.runtime.settings.config import Config
from nacre.runtime.storage.opening import storage_of
from nacre.sessions.stores.rewriting import RewritableStore

OUT_OF_REACH = (
    "Out of reach: back-ups and copies of the disk, what providers of models and embeddings keep of what "
    "they were sent, what was sent to a chat, and what programs that are running have read until they end."
)
_MOST_NAMED = 50
_PASSED = frozenset({".git", "locks", "models"})


async def still_there(
    config: Config, store: RewritableStore, wanted: Wanted, gone: Sequence[str]
) -> list[str]:
    """Sentences about places that still have it; `gone` are the lines that were taken out.

    Raises:
        SessionError, StorageFailed: a place cannot be searched.
    """
    told = []
    found = await transcripts_with(store, wanted)
    if found:
        told.append(
            f"Transcripts have it: {_names(found)}. The provider of the model is sent it again whenever such "
            "a session goes on. --transcripts takes it out of them."
        )
    if (elsewhere := storage_of(config).other_rows) is not None:
        rows = await elsewhere.having(lambda text: says_in(text, wanted), but_sessions=bool(found))
        if rows:
            tables = ", ".join(f"{table} ({count})" for table, count in rows.items())
            told.append(f"Rows of these tables have it: {tables}.")
    return [*told, *await asyncio.to_thread(_in_files, config, wanted, needles_of(gone), frozenset(found))]


def _in_files(config: Config, wanted: Wanted, needles: Sequence[bytes], told: frozenset[str]) -> list[str]:
    """The same about files; those that were `told` of already are passed over."""
    left = []
    if config.is_in_files:
        if versions := in_history(config, wanted):
            left.append(
                f"The git history of the notes has it, in {versions} older versions. "
                "--git-history takes it out."
            )
        left += _in_owner_git(config, wanted)
        left += _beside_notes(config, wanted, needles)
        left += [
            f"{path} is a damaged history that was set aside and cannot be searched. Delete it."
            for path in Repository(config.workspace, state_dir=config.state_dir).set_aside()
        ]
    named: list[Path] = []
    elsewhere: list[Path] = []
    packed: list[Path] = []
    unread: list[Path] = []
    for path, inside in _others(config):
        if says_name(inside, wanted):
            named.append(path)
        if str(path) in told or not path.is_file():
            continue
        try:
            with path.open("rb") as file:
                head = file.read(32)
            if is_packed(head):
                packed.append(path)
            elif file_has(path, wanted, needles):
                elsewhere.append(path)
        except OSError:
            unread.append(path)
    for paths, sentence in (
        (elsewhere, "These files have it: {}."),
        (named, "These names have it: {}. Rename or remove them."),
        (packed, "These files are packed and were not searched: {}."),
        (unread, "These files could not be read: {}."),
    ):
        if paths:
            left.append(sentence.format(_names(paths)))
    return left


def _beside_notes(config: Config, wanted: Wanted, needles: Sequence[bytes]) -> list[str]:
    """Sentences about names and messages in the history, and about git's own files."""
    repository = Repository(config.workspace, state_dir=config.state_dir)
    told = []
    if repository.is_there:
        try:
            repository.read()
            named, said = _names_and_messages(repository, wanted)
        except (GitFailed, FileBusy, OSError) as error:
            return [f"The git history could not be searched: {error}."]
        if named:
            told.append(
                f"Names of notes in the git history have it: {_names(named)}. They stay in its trees."
            )
        if said:
            told.append(f"Messages of commits have it: {_names(said)}.")
    folders = (config.state_dir / HISTORY_FOLDER, config.workspace / ".git")
    files = (path for folder in folders for path in folder.rglob("*"))
    plain = (path for path in files if path.is_file() and not path.is_symlink() and not _is_object(path))
    if own := [path for path in plain if _has(path, wanted, needles)]:
        told.append(f"These files of git have it: {_names(own)}.")
    return told


def _names_and_messages(
    repository: Repository, wanted: Wanted, *, of_owner: bool = False
) -> tuple[list[str], list[str]]:
    """Names in any tree that say it, and commits or tags whose text does, also where no branch has them."""
    environment = owners_objects(repository) if of_owner else {}
    how = "--batch-check=%(objecttype) %(objectname)"
    listed = repository.git("cat-file", "--batch-all-objects", how, environment=environment)
    objects = [row.split() for row in listed.decode().splitlines() if not row.startswith("blob ")]
    if not objects:
        return [], []
    given = "".join(f"{name}\n" for _, name in objects).encode()
    stream = io.BytesIO(repository.git("cat-file", "--batch", given=given, environment=environment))
    named: dict[str, None] = {}
    said = []
    for kind, name in objects:
        data = stream.read(int(stream.readline().split()[2]))
        stream.read(1)
        if kind != "tree":
            if wanted.says_any(data.decode("utf-8", "replace")):
                said.append(name[:12])
            continue
        for found in re.finditer(rb"[0-7]+ ([^\0]+)\0.{%d}" % (len(name) // 2), data, re.DOTALL):
            entry = found[1].decode("utf-8", "replace")
            if says_name(entry, wanted):
                named[entry] = None
    return list(named), said


def _is_object(path: Path) -> bool:
    return "objects" in path.parts


def _has(path: Path, wanted: Wanted, needles: Sequence[bytes]) -> bool:
    try:
        return says_name(path.name, wanted) or file_has(path, wanted, needles)
    except OSError:
        return False  # it went away meanwhile


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
            named, said = _names_and_messages(repository, wanted, of_owner=True)
    except (GitFailed, FileBusy, OSError) as error:
        return [f"{git_dir} is a repository of yours, which could not be searched: {error}."]
    places = [
        *([f"in {versions} versions of files"] if versions else []),
        *([f"in names of files in its trees ({_names(named)})"] if named else []),
        *([f"in messages of commits or tags ({_names(said)})"] if said else []),
    ]
    if not places:
        return []
    return [
        f"{git_dir} is a repository of yours and has it, {', '.join(places)}. Nacre does not change it: "
        "rewrite it with git, or delete it if an earlier Nacre made it."
    ]


def _others(config: Config) -> Iterator[tuple[Path, str]]:
    """Files and folders of the state folder and the workspace, but git's, each with its name to search."""
    roots = {config.state_dir, config.folders.agent_dir, config.folders.index_file.parent}
    roots |= {config.folders.sessions_file.parent}
    if config.is_in_files:
        roots.add(config.workspace)
    history, seen = config.state_dir / HISTORY_FOLDER, set[Path]()
    for root in roots:
        for path in root.rglob("*"):
            is_passed = bool(_PASSED & set(path.relative_to(root).parts)) or path.is_relative_to(history)
            if path not in seen and not is_passed and not path.is_symlink():
                seen.add(path)
                yield path, path.name


def _names(paths: Sequence[Path | str]) -> str:
    shown = ", ".join(str(path) for path in paths[:_MOST_NAMED])
    return f"{shown} and {len(paths) - _MOST_NAMED} more" if len(paths) > _MOST_NAMED else shown
