"""What keeps everything of an agent: `StorageBackend` opens its five stores together. A public contract.

Files with SQLite are the member that Nacre always has (`storage.py`). Another one is an extension whose
manifest says `"kind": "storage"`, and whose entry point has `open_storage(home)`: `storage.driver` names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.ids import NewId
from nacre.runtime.settings.disk.agent_folders import AgentFolders

if TYPE_CHECKING:
    from nacre.memory.contracts.settings import MemorySearchSettings
    from nacre.memory.contracts.store import IndexPlace
    from nacre.memory.contracts.workspace import Workspace
    from nacre.runtime.ledger.ledger import LedgerPlace
    from nacre.runtime.tools.approvals.store import ApprovalStore
    from nacre.sessions.stores.copying import AgentSessions

Says: TypeAlias = Callable[[str], bool]
"""Whether a text says what is looked for."""


class StorageFailed(Exception):
    """What keeps an agent's data cannot be used; the text says why and what to do."""


class StorageHome(Protocol):
    """Whose data it is, and what the settings say of where it lies; a `Config` is one.

    `folders.storage` has the url and the settings of the backend.
    """

    @property
    def state_dir(self) -> Path:
        """The state folder of this machine."""
        ...

    @property
    def folders(self) -> AgentFolders:
        """The agent and its places."""
        ...


class OtherRows(Protocol):
    """What a backend keeps outside of the state folder, for `nacre memory forget` to search and to empty.

    Each method raises `StorageFailed`.
    """

    @property
    def out_of_reach(self) -> str:
        """A sentence about what of it stays for a while after it was removed."""
        ...

    async def having(self, says: Says, *, but_sessions: bool) -> Mapping[str, int]:
        """In how many rows of which table, those of sessions left out, there is what `says` is true of."""
        ...

    async def forget_ended_turns(self, says: Says) -> None:
        """Removes what is kept of turns that ended and that `says` is true of."""
        ...

    async def forget_waiting_turns(self, says: Says, *, dry_run: bool) -> int:
        """Removes turns that nobody has begun and that `says` is true of; how many there are."""
        ...


class StorageBackend(Protocol):
    """The five stores of one agent. Each call opens a store anew and touches nothing yet.

    What several agents keep in one place is told apart by `home.folders.agent_id`. The test suites of each
    store are named in `docs/extending.md`.
    """

    def sessions(self, *, now: Clock, new_id: NewId) -> AgentSessions:
        """What was said; `new_id` names new entries."""
        ...

    def index(self, settings: MemorySearchSettings, *, now: Clock) -> IndexPlace:
        """Where the index of the notes is kept."""
        ...

    def workspace(self) -> Workspace:
        """The owner's Markdown."""
        ...

    def approvals(self, *, now: Clock, fence_of: Callable[[str], int | None]) -> ApprovalStore:
        """The calls that wait for the owner. `fence_of` gives the fence of a session's lane."""
        ...

    def ledger(self) -> LedgerPlace:
        """The ledger of the channels; it lies with the agent that answers what no binding names.

        Unless it is the file of the state folder, it refuses to open while that file holds what it lacks:
        `refuse_left_behind` of `nacre.runtime.ledger.file_ledger`.
        """
        ...

    @property
    def other_rows(self) -> OtherRows | None:
        """What it keeps outside of the state folder, which is searched file by file; `None` for nothing."""
        ...

    @property
    def how_to_bring(self) -> str:
        """How the owner brings here what lies in files, as the beginning of a sentence; empty for files."""
        ...


OpenStorage: TypeAlias = Callable[[StorageHome], StorageBackend]
"""The entry point of a backend, or its member `open_storage`. Whatever it raises becomes a `ConfigError`."""
