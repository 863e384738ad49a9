"""What belongs into a backup: the state folder, and what of the agents lies outside of it. Edge."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from nacre.extensions.backup.manifest import OUTSIDE, STATE, Place
from nacre.records.record import Record
from nacre.runtime.settings.config import Config

WORK_FOLDER = ".backup"
"""Where in the state folder copies are made; what a killed backup left there the next one removes."""
_STATE_LEAVES = frozenset({"locks", "logs", "models", WORK_FOLDER})
"""Folders of the state folder that hold nothing to keep: locks, the log, models that are loaded again."""
_TEMPORARY = (".lock", ".building", "-wal", "-shm", "-journal", ".tmp")
_LAST = frozenset({"objects"})
_FIRST = frozenset({"_versions"})
"""git's objects are there before a branch names them, and LanceDB's data before a version does: what names is
copied before what is named."""


class Root(Record):
    """A folder or a file to copy, and its path in the archive."""

    source: Path
    path: str


def roots_of(configs: Sequence[Config]) -> tuple[list[Root], list[Place]]:
    """Where the agents of a state folder keep things; the first root is that folder."""
    state = configs[0].state_dir
    roots, places = [Root(source=state, path=STATE)], []
    for config in configs:
        folders = config.folders
        wanted = [("agent", folders.agent_dir)]
        if folders.is_in_files:
            wanted += [
                ("workspace", folders.workspace),
                ("sessions", folders.sessions_file.parent),
                ("index", folders.index_file),
            ]
        for what, source in wanted:
            if any(_lies_in(source, root.source) for root in roots) or not source.exists():
                continue
            path = f"{OUTSIDE}/{config.agent_id}/{what}"
            if source.is_file():
                path = f"{path}/{source.name}"
            roots.append(Root(source=source, path=path))
            places.append(Place(agent_id=config.agent_id, what=what, was=str(source), path=path))
    return roots, places


def left_out_of(configs: Sequence[Config]) -> list[str]:
    """Sentences about what the agents use and a backup does not hold."""
    told = []
    for config in configs:
        if not config.is_in_files:
            told.append(
                f"The notes and conversations of agent {config.agent_id!r} are in a PostgreSQL database. "
                "Back that up with pg_dump."
            )
        extra = config.settings.agents.defaults.memory_search.extra_paths
        if extra:
            told.append(
                f"Your folders in memorySearch.extraPaths are not copied: {', '.join(map(str, extra))}."
            )
    return list(dict.fromkeys(told))


def walked(root: Root, *, without: frozenset[Path]) -> Iterator[tuple[Path, str]]:
    """Everything below a root with its path in the archive, a folder before what is in it.

    Paths in `without` are passed over, and what lies in them.
    """
    if root.source.is_file():
        yield root.source, root.path
        return
    leaves = _STATE_LEAVES if root.path == STATE else frozenset[str]()
    yield from _below(root.source, root.path, leaves, without)


def _below(
    folder: Path, path: str, leaves: frozenset[str], without: frozenset[Path]
) -> Iterator[tuple[Path, str]]:
    yield folder, path
    try:
        entries = sorted(os.scandir(folder), key=_order)
    except FileNotFoundError:  # it went away meanwhile
        return
    for entry in entries:
        source = Path(entry.path)
        if entry.name in leaves or source in without:
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _below(source, f"{path}/{entry.name}", frozenset(), without)
        elif not entry.name.endswith(_TEMPORARY):
            yield source, f"{path}/{entry.name}"


def _order(entry: os.DirEntry[str]) -> tuple[int, str]:
    return (-1 if entry.name in _FIRST else int(entry.name in _LAST)), entry.name


def _lies_in(path: Path, folder: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))
