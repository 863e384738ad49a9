"""What is to be forgotten, taken out of the git history of the notes. Edge."""

from __future__ import annotations

from collections.abc import Sequence

from nacre.cli.memory.care.forgetting.wanted import Wanted, cut_of
from nacre.memory.contracts.workspace import Workspace
from nacre.memory.files.sources.sources import Sources
from nacre.memory.workspace.history.commits import commit_changes, known_sources
from nacre.memory.workspace.history.forgetting import forget_in_history
from nacre.memory.workspace.history.repository import Repository
from nacre.runtime.settings.config import Config


def forget_in_commits(config: Config, workspace: Workspace, wanted: Wanted, only: Sequence[str]) -> None:
    """Takes it out of all commits, of the notes `only` where some are named.

    Raises:
        GitFailed: git refused.
    """
    repository = Repository(config.workspace, state_dir=config.state_dir)
    if not repository.is_there:
        return

    def without(data: bytes) -> bytes:
        cut = cut_of("", data, lambda _number, line: wanted.says(line))
        return data if cut is None else cut.after

    with repository.opened():
        commit_changes(repository, known_sources(Sources(workspace)))
        forget_in_history(repository, without, only=only)
