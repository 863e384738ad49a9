"""The places of each agent's data, and the check that no agent can reach another's.

An agent reads its workspace and the paths that its settings name, and nothing else. So no such place may
be, contain or lie in a place of another agent. Places are compared as the system sees them, with links
followed, when an agent is opened; no tool can create a link.
"""

from __future__ import annotations

import dataclasses
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

from nacre.memory.workspace.extra_paths import ExtraPath, resolved_extra_paths
from nacre.record import Record
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.settings.disk.secrets import ENVIRONMENT_FILE

FIRST_AGENT = "main"
"""The agent of a state folder whose settings list none."""
FILES = "files"
"""The default `storage.driver`."""


class StorageChoice(Record):
    """The storage of an agent's data: `driver` is `files` or the id of an extension.

    `url` and `settings`, which is `plugins.entries.<driver>.config`, are for that extension.
    """

    driver: str = FILES
    url: str = dataclasses.field(default="", repr=False)
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)


class AgentFolders(Record):
    """The places of one agent, absolute. The folder of `sessions_file` has its transcripts.

    Unless it `is_in_files`, its Markdown is elsewhere, and only `hooks/` of the `workspace` is read.
    """

    agent_id: str
    workspace: Path
    agent_dir: Path
    sessions_file: Path
    index_file: Path
    storage: StorageChoice = dataclasses.field(default_factory=StorageChoice)

    @classmethod
    def of_users(cls, folder: Path) -> Self:
        """The places of all users' agents together."""
        return cls(
            agent_id="users",
            workspace=folder,
            agent_dir=folder,
            sessions_file=folder / "sessions.json",
            index_file=folder,
        )

    @property
    def is_in_files(self) -> bool:
        """Whether files in these places keep all data."""
        return self.storage.driver == FILES

    @property
    def facts_index_file(self) -> Path:
        """The index of the facts' notes, beside that of the agent's notes."""
        return self.index_file.with_stem(f"{self.index_file.stem}.facts")

    @property
    def approvals(self) -> Path:
        return self.agent_dir / "approvals"

    @property
    def proposals(self) -> Path:
        """The folder of changes that wait for the owner before they are written into a note."""
        return self.agent_dir / "proposals"

    @property
    def trusted_hooks(self) -> Path:
        """The file that lists the hooks of the workspace that the owner trusts."""
        return self.agent_dir / "trusted-hooks.json"

    def private_dir(self, state_dir: Path) -> Path:
        """The folder of its session locks and chat history: the state folder for the first agent, for
        compatibility, otherwise `agent_dir`.
        """
        return state_dir if self.agent_id == FIRST_AGENT else self.agent_dir

    def places(self) -> Iterator[tuple[str, Path]]:
        """All places of this agent's own, each with a name."""
        yield "workspace", self.workspace
        yield "state folder", self.agent_dir
        yield "folder of sessions", self.sessions_file.parent
        yield "index", self.index_file


class _Disk:
    """Cached facts about folders, because the paths of agents share most of them."""

    def __init__(self) -> None:
        self._folders: dict[str, _Spot] = {}

    def spot(self, path: Path) -> _Spot:
        facts = None
        with suppress(OSError):
            facts = path.lstat()
        is_link = facts is not None and stat.S_ISLNK(facts.st_mode)
        if path.name == ".." or is_link:
            real_path = Path(os.path.realpath(path))
            if real_path != path:  # a link to itself resolves to itself
                return self.spot(real_path)._replace(path=path)
        identity = None if facts is None else (facts.st_dev, facts.st_ino)
        own = frozenset() if identity is None else frozenset({identity})
        if not path.name:  # the root has no folder above it
            return _Spot(path=path, real=str(path), identity=identity, chain=own)
        key = str(path.parent)
        above = self._folders[key] = self._folders.get(key) or self.spot(path.parent)
        real = f"{above.real.rstrip(os.sep)}{os.sep}{path.name}"
        return _Spot(path=path, real=real, identity=identity, chain=above.chain | own if own else above.chain)


class _Spot(NamedTuple):
    """A path as the system sees it, without links, and the identities of it and the folders above it."""

    path: Path
    real: str
    identity: tuple[int, int] | None
    chain: frozenset[tuple[int, int]]

    def lies_in(self, folder: _Spot) -> bool:
        """Whether it is this folder or is in it, even if the file system ignores case or mounts it twice."""
        return (
            self.real == folder.real
            or self.real.startswith(folder.real.rstrip(os.sep) + os.sep)
            or folder.identity in self.chain
        )

    def lies_in_any(self, folders: Sequence[_Spot]) -> bool:
        return any(map(self.lies_in, folders))


def kept_apart(
    own: AgentFolders,
    others: Sequence[AgentFolders],
    *,
    extra_paths: Sequence[str],
    qmd_paths: Sequence[tuple[str, str]],
    skill_dirs: Sequence[str],
    allowed: Sequence[Path],
    users: Path | None = None,
) -> tuple[str, ...]:
    """Refuses an agent that could reach another's data; returns notices about others that can reach its
    own.

    `extra_paths` are its `memorySearch.extraPaths`, `qmd_paths` the `memory.qmd.paths` that it reads, each
    with its pattern, `skill_dirs` its `skills.load.extraDirs`. `allowed` is what its settings let it reach
    anyway. `users` is the folder of the users' agents.

    Raises:
        ConfigError: with the two places, and what to do.
    """
    disk = _Disk()
    free = [disk.spot(path) for path in allowed]
    own_places = [_Reached(name=f"{what} {path}", spot=disk.spot(path)) for what, path in own.places()]
    named = [("memorySearch.extraPaths", place) for place in resolved_extra_paths(own.workspace, extra_paths)]
    named += [("memory.qmd.paths", _of_qmd(own.workspace, *asked)) for asked in qmd_paths]
    named += [("skills.load.extraDirs", ExtraPath(folder=Path(path), pattern=())) for path in skill_dirs]
    paths = [
        _Reached(name=f"path {str(path)!r} in {setting}", spot=disk.spot(path.folder), path=path)
        for setting, path in named
    ]
    paths = [path for path in paths if not path.spot.lies_in_any(free)]
    compared = [(other, [*own_places, *paths]) for other in others]
    if users is not None:
        is_user = own.workspace.is_relative_to(users)
        compared.append((AgentFolders.of_users(users), paths if is_user else [*own_places, *paths]))
    notices = []
    for other, reached in compared:
        for what, path in other.places():
            theirs = disk.spot(path)
            if theirs.lies_in_any(free):
                continue
            for ours in reached:
                if ours.reads(theirs, is_workspace=what == "workspace"):
                    raise ConfigError(_refusal(ours.name, own.agent_id, f"{what} {path}", other.agent_id))
                if ours.path is None and ours.spot.lies_in(theirs):
                    notices.append(_notice(ours.name, own.agent_id, path, other.agent_id))
    return tuple(notices)


class _Reached(NamedTuple):
    """A place that an agent reaches: one of its own, or the `path` that a setting names."""

    name: str
    spot: _Spot
    path: ExtraPath | None = None

    def reads(self, theirs: _Spot, *, is_workspace: bool) -> bool:
        """Whether its agent would read a place of another through it.

        Its own place may lie in another's workspace: then the other agent reads it.
        """
        if self.path is None:
            return theirs.lies_in(self.spot) or (not is_workspace and self.spot.lies_in(theirs))
        is_below = theirs.lies_in(self.spot) and self.path.leads_to(_below(theirs, self.spot))
        return is_below or self.spot.lies_in(theirs)


def _of_qmd(workspace: Path, path: str, pattern: str) -> ExtraPath:
    """The files that qmd reads below a path; all of them if the pattern is too complex for extra paths."""
    parts = tuple(pattern.split("/"))
    is_plain = "{" not in pattern and all(part == "**" or "**" not in part for part in parts)
    return ExtraPath(folder=Path(os.path.normpath(workspace / path)), pattern=parts if is_plain else ())


def _below(spot: _Spot, folder: _Spot) -> Path:
    """A place in a folder under the name that the folder was given, so that patterns can be matched."""
    real = Path(spot.real)
    return folder.path / real.relative_to(folder.real) if real.is_relative_to(folder.real) else folder.path


def _refusal(ours: str, own_id: str, theirs: str, other_id: str) -> str:
    return (
        f"The {ours} of agent {own_id!r} reaches the {theirs} of agent {other_id!r}, which is that agent's "
        "alone. Choose another path, write {agentId} into one that serves all agents, or name the "
        f"path in agents.list[].allowPaths of {own_id!r}."
    )


def _notice(ours: str, own_id: str, workspace: Path, other_id: str) -> str:
    return (
        f"The {ours} of agent {own_id!r} is in the workspace {workspace} of agent {other_id!r}, which can "
        "read it. Choose another folder for one of the two."
    )


_TREES = ("locks", "logs", "memory", "usage")
PRIVATE_FILES = ("nacre.json5", ENVIRONMENT_FILE, "chat_history")
"""Files of the state folder."""
_OF_ANY_COMMAND = frozenset({"logs", "log", "locks", "nacre.log"})
_OWNERS_BITS = 0o700


def has_assistant(state_dir: Path) -> bool:
    """Whether a state folder has more than any command leaves there, such as the index of a search."""
    if not state_dir.is_dir():
        return False
    memory = state_dir / "memory"
    names = {entry.name for entry in state_dir.iterdir() if entry != memory}
    return not names <= _OF_ANY_COMMAND or (memory.is_dir() and any(map(Path.is_dir, memory.iterdir())))


def keep_private(state_dir: Path, folders: AgentFolders) -> None:
    """Makes the state folder, and a workspace inside of it, and removes the permissions of others.

    An existing workspace, or one elsewhere, stays unchanged: the owner may share it. In a folder of
    sessions outside of the state folder, only the sessions' files are Nacre's. What the file system refuses
    stays unchanged; some have no modes. A folder that only its owner can enter is not searched.

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
        with suppress(OSError):
            path.chmod(path.lstat().st_mode & _OWNERS_BITS)


def open_to_others(state_dir: Path, folders: AgentFolders) -> Iterator[Path]:
    """Private paths of Nacre that other users can read or enter, folders after their content."""
    sessions = folders.sessions_file.parent
    for tree in (*(state_dir / name for name in _TREES), folders.agent_dir, sessions):
        if tree != state_dir and tree.is_relative_to(state_dir):
            yield from filter(_is_open, _in_open_folder(tree, spared=folders.workspace))
    if not sessions.is_relative_to(state_dir):
        yield from filter(_is_open, _session_files(folders.sessions_file))
    own = (*(state_dir / name for name in PRIVATE_FILES), state_dir / "agents", state_dir)
    yield from filter(_is_open, own)


def _in_open_folder(folder: Path, *, spared: Path) -> Iterator[Path]:
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
