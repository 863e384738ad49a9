"""Everything of an agent in files of its folders, with SQLite where rows are asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from nacre.memory.workspace.folder import FolderWorkspace
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.ids import NewId
from nacre.runtime.settings.disk.agent_folders import PRIVATE_FILES
from nacre.runtime.storage.backend import StorageHome

if TYPE_CHECKING:
    from nacre.memory.contracts.index_place import IndexPlace
    from nacre.memory.contracts.settings import MemorySearchSettings
    from nacre.memory.contracts.workspace import Workspace
    from nacre.runtime.ledger.ledger import LedgerPlace
    from nacre.runtime.tools.approvals.store import ApprovalStore
    from nacre.sessions.stores.copying import AgentSessions


class FileStorage:
    """A member of `StorageBackend`, and what another one may begin from.

    A search in the notes opens one too, so each store is imported when it is opened.
    """

    other_rows = None
    how_to_bring = ""

    def __init__(self, home: StorageHome) -> None:
        self._folders = home.folders
        self._state_dir = home.state_dir
        self._kept = kept_places(home)

    def sessions(self, *, now: Clock, new_id: NewId) -> AgentSessions:
        """The index file with a transcript a session beside it."""
        from nacre.sessions.stores.files import FileSessionStore, SessionPlaces

        places = SessionPlaces(
            index=self._folders.sessions_file,
            endings=self._folders.agent_dir / "endings",
            lanes=self._folders.private_dir(self._state_dir) / "locks" / "lanes",
            cwd=self._folders.workspace,
        )
        return FileSessionStore(places, now=now, new_id=new_id)

    def index(self, settings: MemorySearchSettings, *, now: Clock) -> IndexPlace:
        """A SQLite file."""
        from nacre.memory.stores.index_file import index_in_file

        return index_in_file(self._folders.index_file, settings, now)

    def workspace(self) -> Workspace:
        """The folder of the agent.

        Should it hold what belongs to programs, then no tool reads or writes that: settings, conversations,
        trust, approvals.
        """
        return FolderWorkspace(self._folders.workspace, lock_dir=self._state_dir / "locks", kept=self._kept)

    def approvals(self, *, now: Clock, fence_of: Callable[[str], int | None]) -> ApprovalStore:  # noqa: ARG002 - nobody can have the lane of a process that lives
        """A file a call."""
        from nacre.runtime.tools.approvals.approvals import ApprovalFolder

        return ApprovalFolder(self._folders.approvals, now=now)

    def ledger(self) -> LedgerPlace:
        """The SQLite file of the state folder, one for all agents."""
        from nacre.runtime.ledger.file_ledger import ledger_file

        return ledger_file(self._state_dir)


def kept_places(home: StorageHome) -> tuple[Path, ...]:
    """What belongs to programs, should it lie in the workspace's folder."""
    state_dir, folders = home.state_dir, home.folders
    return (
        state_dir,
        folders.agent_dir.parent,
        folders.agent_dir,
        folders.approvals,
        folders.proposals,
        folders.trusted_hooks,
        *(state_dir / name for name in PRIVATE_FILES),
    )
