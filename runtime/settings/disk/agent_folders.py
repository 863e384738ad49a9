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
from functools import cached_property
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


@dataclasses.dataclass(frozen=True)
class _Spot:
    """A path as the system sees it."""

    path: Path

    @cached_property
    def real(self) -> Path:
        return Path(os.path.realpath(self.path))

    @cached_property
    def identity(self) -> tuple[int, int] | None:
        return _identity(self.real)

    @cached_property
    def chain(self) -> frozenset[tuple[int, int]]:
        found = (_identity(path) for path in (self.real, *self.real.parents))
        return frozenset(identity for identity in found if identity is not None)

    def lies_in(self, folder: _Spot) -> bool:
        """Whether it is this folder or lies in it, also where case is folded or a folder mounted twice."""
        return self.real.is_relative_to(folder.real) or folder.identity in self.chain


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
    free = [_Spot(path) for path in allowed]
    reached = list(_reached(own))
    named = [("memorySearch.extraPaths", place) for place in resolved_extra_paths(own.workspace, extra_paths)]
    named += [("memory.qmd.paths", _of_qmd(own.workspace, *asked)) for asked in qmd_paths]
    notices = []
    for other in others:
        for what, path in other.places():
            theirs = _Spot(path)
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
            for setting, extra in named:
                ours = _Spot(extra.folder)
                if any(ours.lies_in(spot) for spot in free):
                    continue
                if ours.lies_in(theirs) or (theirs.lies_in(ours) and extra.leads_to(_below(theirs, ours))):
                    text = f"path {str(extra)!r} in {setting} of agent {own.agent_id!r}"
                    raise ConfigError(_refusal(text, own.agent_id, other.agent_id, f"{what} {path}"))
    return tuple(notices)


def _reached(own: AgentFolders) -> Iterator[tuple[str, _Spot]]:
    for what, path in own.places():
        yield what, _Spot(path)


def _of_qmd(workspace: Path, path: str, pattern: str) -> ExtraPath:
    """What qmd reads of a path; all below it where its pattern says more than those of extra paths can."""
    parts = tuple(pattern.split("/"))
    is_plain = "{" not in pattern and all(part == "**" or "**" not in part for part in parts)
    return ExtraPath(folder=Path(os.path.normpath(workspace / path)), pattern=parts if is_plain else ())


def _below(spot: _Spot, folder: _Spot) -> Path:
    """A place in a folder under the name that the folder was given, so that patterns can be tried on it."""
    if not spot.real.is_relative_to(folder.real):
        return folder.path
    return folder.path / spot.real.relative_to(folder.real)


def _refusal(ours: str, own_id: str, other_id: str, theirs: str) -> str:
    return (
        f"The {ours} reaches the {theirs} of agent {other_id!r}, and no agent reads what is another's. "
        "Choose another path, write {agentId} into one that serves all agents, or name the path in "
        f"agents.list[].allowPaths of {own_id!r}."
    )


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_dev, facts.st_ino
