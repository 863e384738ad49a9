"""What holds an agent's Markdown. The one place that chooses a member of `Workspace`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nacre.memory.contracts.workspace import Workspace
from nacre.memory.workspace.folder import FolderWorkspace
from nacre.runtime.settings.disk.agent_folders import PRIVATE_FILES, AgentFolders

if TYPE_CHECKING:
    from nacre.memory.files.skills.skills import Skills
    from nacre.memory.workspace.documents.rows import DocumentRows


def open_workspace(folders: AgentFolders, state_dir: Path) -> Workspace:
    """The workspace of the agent that keeps its things in `folders`; touches nothing yet.

    Should it hold what belongs to programs, then no tool reads or writes that: settings, conversations,
    trust, approvals.
    """
    if folders.database_url:
        return _in_database(folders)
    kept = kept_places(folders, state_dir)
    return FolderWorkspace(folders.workspace, lock_dir=state_dir / "locks", kept=kept)


def open_skills(folders: AgentFolders, state_dir: Path, extra_dirs: Sequence[str], home: Path) -> Skills:
    """The skills of the agent that keeps its things in `folders`, and of folders that its owner trusts."""
    # a search opens a workspace without waiting for any of these
    from nacre.memory.contracts.settings import at_home
    from nacre.memory.files.skills.skills import Skills

    kept = kept_places(folders, state_dir)
    trusted = {
        path: FolderWorkspace(Path(at_home(path, home)), lock_dir=state_dir / "locks", kept=kept)
        for path in extra_dirs
    }
    return Skills(open_workspace(folders, state_dir), trusted)


def kept_places(folders: AgentFolders, state_dir: Path) -> tuple[Path, ...]:
    """What belongs to programs, should it lie in the workspace's folder."""
    return (
        state_dir,
        folders.agent_dir.parent,
        folders.agent_dir,
        folders.approvals,
        folders.proposals,
        folders.trusted_hooks,
        *(state_dir / name for name in PRIVATE_FILES),
    )


def open_documents(folders: AgentFolders) -> DocumentRows | None:
    """The rows of a workspace in a database, `None` of one that is a folder; touches nothing yet."""
    if not folders.database_url:
        return None
    from nacre.memory.workspace.documents.rows import DocumentRows
    from nacre.postgres.shared import shared_database

    return DocumentRows(shared_database(folders.database_url), folders.agent_id)


async def left_in_folder(folders: AgentFolders, workspace: Workspace) -> str:
    """A sentence, where the workspace in a database is empty and its folder of this machine has notes."""
    if not folders.database_url or any(await workspace.list_folder(".")):
        return ""
    if not any(folders.workspace.glob("*.md")):
        return ""
    return (
        f"{workspace.place} has no notes, and the folder {folders.workspace} has: they are not read. "
        f"`nacre storage migrate --to postgres` copies them, or `nacre workspace push {folders.workspace}`."
    )


def _in_database(folders: AgentFolders) -> Workspace:
    # whoever keeps files waits for none of this
    from nacre.memory.workspace.documents.workspace import PostgresWorkspace
    from nacre.postgres.shared import shared_database

    return PostgresWorkspace(shared_database(folders.database_url), agent=folders.agent_id)
