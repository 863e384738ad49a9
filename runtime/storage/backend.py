"""`StorageBackend` opens the five stores of an agent. A public contract.

Files with SQLite are built in (`storage.py`). Any other backend is an extension whose manifest says
`"kind": "storage"` and whose entry point has `open_storage(home)`; `storage.driver` selects it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from nacre.runtime.contracts.clock import Clock, NewId
from nacre.runtime.settings.disk.agent_folders import AgentFolders

if TYPE_CHECKING:
    from nacre.memory.contracts.settings import MemorySearchSettings
    from nacre.memory.contracts.store import IndexPlace
    from nacre.memory.contracts.workspace import Workspace
    from nacre.runtime.ledger.ledger import LedgerPlace
    from nacre.runtime.tools.approvals.store import ApprovalStore
    from nacre.sessions.stores.copying import AgentSessions

Says: TypeAlias = Callable[[str], bool]
"""Whether a text contains what is to be forgotten."""


class StorageFailed(Exception):
    """The storage of an agent's data cannot be used; the message says why and what to do."""


class StorageHome(Protocol):
    """The agent, and what the settings say about where its data is. A `Config` is one.

    `folders.storage` has the URL and the settings of the backend.
    """

    @property
    def state_dir(self) -> Path: ...

    @property
    def folders(self) -> AgentFolders: ...


class OtherRows(Protocol):
    """What a backend stores outside of the state folder, for `nacre memory forget` to search and to empty.

    Each method raises `StorageFailed`.
    """

    @property
    def out_of_reach(self) -> str:
        """A sentence about copies that exist for a while after removal."""

    async def having(self, says: Says, *, but_sessions: bool) -> Mapping[str, int]:
        """The number of rows by table, without those of sessions, for which `says` is true."""

    async def forget_ended_turns(self, says: Says) -> None:
        """Removes what is stored of ended turns for which `says` is true."""

    async def forget_waiting_turns(self, says: Says, *, dry_run: bool) -> int:
        """Removes turns that have not begun and for which `says` is true; returns their number."""


class StorageBackend(Protocol):
    """The five stores of one agent. Each call opens a new store, without any access yet.

    `home.folders.agent_id` separates the agents in a shared store. `docs/extending.md` names the test
    suites of each store.
    """

    def sessions(self, *, now: Clock, new_id: NewId) -> AgentSessions:
        """The transcripts; `new_id` names new entries."""

    def index(self, settings: MemorySearchSettings, *, now: Clock) -> IndexPlace:
        """The place of the index of the notes."""

    def workspace(self) -> Workspace:
        """The owner's Markdown."""

    def approvals(self, *, now: Clock, fence_of: Callable[[str], int | None]) -> ApprovalStore:
        """The calls that wait for the owner. `fence_of` returns the fence of a session's lock."""

    def ledger(self) -> LedgerPlace:
        """The ledger of the channels, stored with the default agent.

        A ledger elsewhere than in the state folder refuses to open while the file there has something that
        it lacks: see `refuse_left_behind` in `nacre.runtime.ledger.file_ledger`.
        """

    @property
    def other_rows(self) -> OtherRows | None:
        """What is stored outside of the state folder, whose files are searched one by one; or `None`."""

    @property
    def how_to_bring(self) -> str:
        """How the owner copies data from files to this backend: the start of a sentence, empty for files."""


OpenStorage: TypeAlias = Callable[[StorageHome], StorageBackend]
"""The entry point of a backend, or its member `open_storage`. Any exception becomes a `ConfigError`."""
