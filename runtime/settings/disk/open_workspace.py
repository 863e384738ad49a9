"""What holds an agent's Markdown. The one place that chooses a member of `Workspace`."""

from __future__ import annotations

from pathlib import Path

from nacre.memory.contracts.workspace import Workspace
from nacre.memory.workspace.folder import FolderWorkspace
from nacre.runtime.settings.disk.agent_folders import AgentFolders
from nacre.runtime.settings.disk.private_places import PRIVATE_FILES


def open_workspace(folders: AgentFolders, state_dir: Path) -> Workspace:
    """The workspace of the agent that keeps its things in `folders`; touches nothing yet.

    Should it hold what belongs to programs, then no tool reads or writes that: settings, conversations,
    trust, approvals.
    """
    kept = (
        state_dir,
        folders.agent_dir.parent,
        folders.agent_dir,
        folders.approvals,
        folders.trusted_hooks,
        *(state_dir / name for name in PRIVATE_FILES),
    )
    return FolderWorkspace(folders.workspace, lock_dir=state_dir / "locks", kept=kept)
