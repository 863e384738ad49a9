"""Where each agent keeps what is its own, and that no other agent can reach it. Edge: looks at the disk.

An agent reads its workspace and the paths that its settings name beside it, and nothing else. So one agent is
kept from another's notes, conversations and index when no place of these two kinds is, holds or lies in a
place of another agent. Places are compared as the system sees them, links followed, when an agent is opened:
no tool can make a link.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nacre.memory.workspace.extra_paths import ExtraPath, resolved_extra_paths
from nacre.runtime.contracts.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class AgentFolders:
    """The places of one agent, absolute. The folder of `sessions_file` holds its transcripts.

    With a `database_url` its Markdown lies in that database; of the `workspace` only `hooks/` is read then.
    """

    agent_id: str
    workspace: Path
    agent_dir: Path
    sessions_file: Path
    index_file: Path
    database_url: str = dataclasses.field(default="", repr=False)

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

    def places(self) -> Iterator[tuple[str, Path]]:
        """Everything that is this agent's own, each with a word for it."""
        yield "workspace", self.workspace
        yield "state folder", self.agent_dir
        yield "folder of sessions", self.sessions_file.parent
        yield "index", self.index_file


class _Disk:
    """What the system says of paths, asked once for each: agents' places have most folders in common."""

    def __init__(self) -> None:
        self._real: dict[str, str] = {}
        self._chains: dict[str, frozenset[tuple[int, int]]] = {}

    def spot(self, path: Path) -> _Spot:
        """A path as the system sees it."""
        real = self._real_path(str(path))
        return _Spot(path=path, real=real, identity=_identity(real), chain=self._chain(real))

    def _real_path(self, path: str) -> str:
        parent, name = os.path.split(path)
        if name in ("", ".", ".."):
            return os.path.realpath(path)
        if parent not in self._real:
            self._real[parent] = os.path.realpath(parent)
        joined = Path(self._real[parent], name)
        return os.path.realpath(joined) if joined.is_symlink() else str(joined)

    def _chain(self, real: str) -> frozenset[tuple[int, int]]:
        found = self._chains.get(real)
        if found is None:
            parent, own = str(Path(real).parent), _identity(real)
            above = self._chain(parent) if parent != real else frozenset()
            found = self._chains[real] = above if own is None else above | {own}
        return found


@dataclass(frozen=True)
class _Spot:
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
    allowed: Sequence[Path],
) -> tuple[str, ...]:
    """Refuses an agent that could reach what is another's; notices of others that can reach what is its own.

    `extra_paths` are its `memorySearch.extraPaths`, `qmd_paths` the `memory.qmd.paths` that it reads, each
    with its pattern, and `allowed` is what its settings let it reach all the same.

    Raises:
        ConfigError: with the two places, and what to do.
    """
    disk = _Disk()
    free = [disk.spot(path) for path in allowed]
    reached = [(what, disk.spot(path)) for what, path in own.places()]
    named = [("memorySearch.extraPaths", place) for place in resolved_extra_paths(own.workspace, extra_paths)]
    named += [("memory.qmd.paths", _of_qmd(own.workspace, *asked)) for asked in qmd_paths]
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


def _identity(path: str) -> tuple[int, int] | None:
    try:
        facts = Path(path).stat()
    except OSError:
        return None
    return facts.st_dev, facts.st_ino
