"""Where each agent keeps what is its own, and that no other agent can reach it. Edge: looks at the disk.

An agent reads its workspace and the paths that its settings name beside it, and nothing else. So one agent is
kept from another's notes, conversations and index when no place of these two kinds is, holds or lies in a
place of another agent. Places are compared as the system sees them, links followed, when an agent is opened:
no tool can make a link.
"""

from __future__ import annotations

import dataclasses
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from nacre.memory.workspace.extra_paths import ExtraPath, resolved_extra_paths
from nacre.record import Record
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.settings.disk.secrets import ENVIRONMENT_FILE

FIRST_AGENT = "main"
"""The agent of a state folder whose settings list none."""
FILES = "files"
"""The `storage.driver` of whoever names none."""


class StorageChoice(Record):
    """What keeps an agent's data: `driver` is `files` or the id of an extension.

    `url` and `settings`, which is `plugins.entries.<driver>.config`, are for that extension.
    """

    driver: str = FILES
    url: str = dataclasses.field(default="", repr=False)
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)


class AgentFolders(Record):
    """The places of one agent, absolute. The folder of `sessions_file` holds its transcripts.

    Unless it `is_in_files`, its Markdown lies elsewhere, and of the `workspace` only `hooks/` is read.
    """

    agent_id: str
    workspace: Path
    agent_dir: Path
    sessions_file: Path
    index_file: Path
    storage: StorageChoice = dataclasses.field(default_factory=StorageChoice)

    @property
    def is_in_files(self) -> bool:
        """Whether files of these places keep everything."""
        return self.storage.driver == FILES

    @property
    def facts_index_file(self) -> Path:
        """The index over the notes of identities, beside that of the agent's notes."""
        return self.index_file.with_stem(f"{self.index_file.stem}.facts")

    @property
    def approvals(self) -> Path:
        """The folder of what the owner is asked, and of what was answered."""
        return self.agent_dir / "approvals"

    @property
    def proposals(self) -> Path:
        """The folder of what waits for the owner before it is written into a note."""
        return self.agent_dir / "proposals"

    @property
    def trusted_hooks(self) -> Path:
        """The file that says which hooks of the workspace the owner trusts."""
        return self.agent_dir / "trusted-hooks.json"

    def private_dir(self, state_dir: Path) -> Path:
        """Where its lanes are locked and what was typed to it is kept: the first agent came before there were
        others, and keeps them in the state folder itself."""
        return state_dir if self.agent_id == FIRST_AGENT else self.agent_dir

    def places(self) -> Iterator[tuple[str, Path]]:
        """Everything that is this agent's own, each with a word for it."""
        yield "workspace", self.workspace
        yield "state folder", self.agent_dir
        yield "folder of sessions", self.sessions_file.parent
        yield "index", self.index_file


class _Disk:
    """What the system says of paths. Folders are asked for once: agents' places have most in common."""

    def __init__(self) -> None:
        self._folders: dict[str, _Spot] = {}

    def spot(self, path: Path) -> _Spot:
        """An absolute path as the system sees it."""
        facts = _facts(path)
        is_link = facts is not None and stat.S_ISLNK(facts.st_mode)
        if path.name == ".." or is_link:
            real_path = Path(os.path.realpath(path))
            if real_path != path:  # as a link is that leads to itself
                return self.spot(real_path)._replace(path=path)
        identity = None if facts is None else (facts.st_dev, facts.st_ino)
        own = frozenset() if identity is None else frozenset({identity})
        if not path.name:  # the root has no folder above it
            return _Spot(path=path, real=str(path), identity=identity, chain=own)
        above = self._folder(path.parent)
        real = f"{above.real.rstrip(os.sep)}{os.sep}{path.name}"
        return _Spot(path=path, real=real, identity=identity, chain=above.chain | own if own else above.chain)

    def _folder(self, path: Path) -> _Spot:
        key = str(path)
        if key not in self._folders:
            self._folders[key] = self.spot(path)
        return self._folders[key]


class _Spot(NamedTuple):
    """A path as the system sees it: without links, and what tells it and the folders above it from others."""

    path: Path
    real: str
    identity: tuple[int, int] | None
    chain: frozenset[tuple[int, int]]

    def lies_in(self, folder: _Spot) -> bool:
        """Whether it is this folder or lies in it, also where case is folded or a folder mounted twice."""
        return (
            self.real == folder.real
            or self.real.startswith(folder.real.rstrip(os.sep) + os.sep)
            or folder.identity in self.chain
        )


def kept_apart(
    own: AgentFolders,
    others: Sequence[AgentFolders],
    *,
    extra_paths: Sequence[str],
    qmd_paths: Sequence[tuple[str, str]],
    skill_dirs: Sequence[str],
    allowed: Sequence[Path],
) -> tuple[str, ...]:
    """Refuses an agent that could reach what is another's; notices of others that can reach what is its own.

    `extra_paths` are its `memorySearch.extraPaths`, `qmd_paths` the `memory.qmd.paths` that it reads, each
    with its pattern, `skill_dirs` its `skills.load.extraDirs`. `allowed` is what its settings let it reach
    all the same.

    Raises:
        ConfigError: with the two places, and what to do.
    """
    disk = _Disk()
    free = [disk.spot(path) for path in allowed]
    reached = [(what, disk.spot(path)) for what, path in own.places()]
    named = [("memorySearch.extraPaths", place) for place in resolved_extra_paths(own.workspace, extra_paths)]
    named += [("memory.qmd.paths", _of_qmd(own.workspace, *asked)) for asked in qmd_paths]
    named += [("skills.load.extraDirs", ExtraPath(folder=Path(path), pattern=())) for path in skill_dirs]
    extras = [(setting, extra, disk.spot(extra.folder)) for setting, extra in named]
    notices = []
    for other in others:
        for what, path in other.places():
            theirs = disk.spot(path)
            if any(theirs.lies_in(spot) for spot in free):
                continue
            for ours_is, ours in reached:
                if theirs.lies_in(ours) or (ours.lies_in(theirs) and what != "workspace"):
                    text = f"{ours_is} {ours.path} of agent {own.agent_id!r}"
                    raise ConfigError(_refusal(text, own.agent_id, other.agent_id, f"{what} {path}"))
                if ours.lies_in(theirs):
                    notices.append(
                        f"The {ours_is} {ours.path} of agent {own.agent_id!r} lies in the workspace {path} "
                        f"of agent {other.agent_id!r}, which can read it. Choose another folder for one of "
                        "the two."
                    )
            for setting, extra, ours in extras:
                if any(ours.lies_in(spot) for spot in free):
                    continue
                if ours.lies_in(theirs) or (theirs.lies_in(ours) and extra.leads_to(_below(theirs, ours))):
                    text = f"path {str(extra)!r} in {setting} of agent {own.agent_id!r}"
                    raise ConfigError(_refusal(text, own.agent_id, other.agent_id, f"{what} {path}"))
    return tuple(notices)


def _of_qmd(workspace: Path, path: str, pattern: str) -> ExtraPath:
    """What qmd reads of a path; all below it where its pattern says more than those of extra paths can."""
    parts = tuple(pattern.split("/"))
    is_plain = "{" not in pattern and all(part == "**" or "**" not in part for part in parts)
    return ExtraPath(folder=Path(os.path.normpath(workspace / path)), pattern=parts if is_plain else ())


def _below(spot: _Spot, folder: _Spot) -> Path:
    """A place in a folder under the name that the folder was given, so that patterns can be tried on it."""
    real = Path(spot.real)
    return folder.path / real.relative_to(folder.real) if real.is_relative_to(folder.real) else folder.path


def _refusal(ours: str, own_id: str, other_id: str, theirs: str) -> str:
    return (
        f"The {ours} reaches the {theirs} of agent {other_id!r}, and no agent reads what is another's. "
        "Choose another path, write {agentId} into one that serves all agents, or name the path in "
        f"agents.list[].allowPaths of {own_id!r}."
    )


def _facts(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except OSError:
        return None


_TREES = ("locks", "logs", "memory", "usage")
PRIVATE_FILES = ("nacre.json5", ENVIRONMENT_FILE, "chat_history")
"""Files of the state folder."""
_OWNERS_BITS = 0o700


def keep_private(state_dir: Path, folders: AgentFolders) -> None:
    """Makes the state folder, and a workspace inside of it, and takes from others what they may do there.

    A workspace that is there, or lies elsewhere, stays as it is: the owner may share it. Of a folder of
    sessions outside of the state folder, only the sessions' files are Nacre's. What the file system refuses
    stays too; some know no modes. A folder that only its owner can enter is not looked into.

    Raises:
        OSError: the state folder cannot be made.
    """
    made = [state_dir, state_dir / "locks"]
    if folders.is_in_files and folders.workspace.is_relative_to(state_dir):
        between = [part for part in reversed(folders.workspace.parents) if part.is_relative_to(state_dir)]
        made += [*between, folders.workspace]
    for folder in made:
        folder.mkdir(mode=_OWNERS_BITS, parents=True, exist_ok=True)
    for path in open_to_others(state_dir, folders):
        _close(path)


def open_to_others(state_dir: Path, folders: AgentFolders) -> Iterator[Path]:
    """What Nacre keeps for its owner alone and others can read or enter, a folder after what lies in it."""
    sessions = folders.sessions_file.parent
    for tree in (*(state_dir / name for name in _TREES), folders.agent_dir, sessions):
        if tree != state_dir and tree.is_relative_to(state_dir):
            yield from filter(_is_open, _in_open_folder(tree, spared=folders.workspace))
    if not sessions.is_relative_to(state_dir):
        yield from filter(_is_open, _session_files(folders.sessions_file))
    own = (*(state_dir / name for name in PRIVATE_FILES), state_dir / "agents", state_dir)
    yield from filter(_is_open, own)


def _in_open_folder(folder: Path, *, spared: Path) -> Iterator[Path]:
    """What lies in a folder that others can enter, and at last the folder itself."""
    with suppress(OSError):
        mode = folder.lstat().st_mode
        if not stat.S_ISDIR(mode) or not mode & 0o077 or spared.is_relative_to(folder):
            return
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                yield from _in_open_folder(Path(entry.path), spared=spared)
            elif entry.is_file(follow_symlinks=False):
                yield Path(entry.path)
        yield folder


def _session_files(index: Path) -> Iterator[Path]:
    with suppress(OSError):
        for entry in os.scandir(index.parent):
            is_ours = entry.name.startswith(index.name) or ".jsonl" in entry.name
            if is_ours and entry.is_file(follow_symlinks=False):
                yield Path(entry.path)


def _is_open(path: Path) -> bool:
    with suppress(OSError):
        mode = path.lstat().st_mode
        return bool(mode & 0o077) and not stat.S_ISLNK(mode)
    return False


def _close(path: Path) -> None:
    with suppress(OSError):
        path.chmod(path.lstat().st_mode & _OWNERS_BITS)
