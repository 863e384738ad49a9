"""Chooses the storage of an agent's data: files, or the backend that `storage.driver` names.

A search in the notes opens a workspace, so everything that it does not need is imported on first use.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from nacre.memory.workspace.folder import FolderWorkspace
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.settings.disk.agent_folders import PRIVATE_FILES

if TYPE_CHECKING:
    from nacre.memory.contracts.settings import MemorySearchSettings
    from nacre.memory.contracts.store import IndexPlace
    from nacre.memory.contracts.workspace import Workspace
    from nacre.memory.files.proposals import ReviewQueue
    from nacre.memory.files.skills import Skills
    from nacre.runtime.contracts.clock import Clock, NewId
    from nacre.runtime.extensions.installed.discovery import Installed
    from nacre.runtime.ledger.ledger import LedgerPlace
    from nacre.runtime.settings.config import Config
    from nacre.runtime.storage.backend import OpenStorage, StorageBackend, StorageHome
    from nacre.runtime.tools.approvals.store import ApprovalStore
    from nacre.sessions.stores.copying import AgentSessions

log = logging.getLogger(__name__)


def storage_of(home: StorageHome) -> StorageBackend:
    """The storage of an agent's data; reads and writes nothing yet.

    Raises:
        ConfigError: the backend in the settings is not installed, or cannot be loaded. Files never
            replace it, because new messages would then be missing in the backend.
    """
    if home.folders.is_in_files:
        return FileStorage(home)
    driver, settings = home.folders.storage.driver, home.folders.storage.settings
    open_storage, schema = _backend(driver)
    if settings or "required" in schema:
        from nacre.runtime.extensions.installed.settings_schema import settings_problems

        if problems := settings_problems(settings, schema, key=f"plugins.entries.{driver}.config"):
            raise ConfigError(f"storage.driver is {driver!r}, which cannot be used. {' '.join(problems)}")
    try:
        return open_storage(home)
    except ConfigError:
        raise
    except Exception as error:
        log.exception("the storage %s could not be opened", driver)
        raise ConfigError(
            f"storage.driver is {driver!r}, which could not be opened: {type(error).__name__}: {error}"
        ) from error


def open_sessions(home: StorageHome, now: Clock) -> AgentSessions:
    """The sessions of an agent. Raises as `storage_of`."""
    from nacre.runtime.contracts.clock import random_id

    return storage_of(home).sessions(now=now, new_id=random_id)


def ledger_of(config: Config) -> LedgerPlace:
    """The ledger of the channels: one for all agents, stored with the default one."""
    default = next((agent.id for agent in config.agents if agent.is_default), config.agent_id)
    return storage_of(replace(config, folders=replace(config.folders, agent_id=default))).ledger()


def open_skills(config: Config) -> Skills:
    """The skills of an agent, and those in folders that its owner trusts."""
    from nacre.memory.contracts.settings import at_home
    from nacre.memory.files.skills import Skills

    kept, lock_dir = kept_places(config), config.state_dir / "locks"
    trusted = {
        path: FolderWorkspace(Path(at_home(path, config.home)), lock_dir=lock_dir, kept=kept)
        for path in config.settings.skills.load.extra_dirs
    }
    return Skills(storage_of(config).workspace(), trusted)


def review_queue(config: Config) -> ReviewQueue:
    """The changes of an agent's notes that wait for the owner."""
    from nacre.memory.files.proposals import ReviewQueue

    return ReviewQueue(
        config.folders.proposals,
        lock_dir=config.state_dir / "locks",
        history_dir=config.state_dir if config.settings.memory.history.commits != "off" else None,
    )


async def left_in_folder(home: StorageHome, workspace: Workspace) -> str:
    """A sentence if the backend's workspace is empty but the folder of this machine has notes."""
    folders = home.folders
    if folders.is_in_files or any(await workspace.list_folder(".")):
        return ""
    if not any(folders.workspace.glob("*.md")):
        return ""
    left = f"{workspace.place} has no notes. Those in the folder {folders.workspace} are not read."
    how = storage_of(home).how_to_bring
    return f"{left} {how}." if how else left


class FileStorage:
    """Files in the agent's folders, with SQLite for rows. A backend that only places files elsewhere
    inherits it.
    """

    other_rows = None
    how_to_bring = ""

    def __init__(self, home: StorageHome) -> None:
        self._folders = home.folders
        self._state_dir = home.state_dir
        self._kept = kept_places(home)

    def sessions(self, *, now: Clock, new_id: NewId) -> AgentSessions:
        from nacre.sessions.stores.files import FileSessionStore, SessionPlaces

        places = SessionPlaces(
            index=self._folders.sessions_file,
            endings=self._folders.agent_dir / "endings",
            lanes=self._folders.private_dir(self._state_dir) / "locks" / "lanes",
            cwd=self._folders.workspace,
        )
        return FileSessionStore(places, now=now, new_id=new_id)

    def index(self, settings: MemorySearchSettings, *, now: Clock) -> IndexPlace:
        from nacre.memory.stores.index_file import index_in_file

        return index_in_file(self._folders.index_file, settings, now)

    def workspace(self) -> Workspace:
        """The agent's folder. No tool reads or writes the places of programs in it: settings,
        conversations, trust, approvals.
        """
        return FolderWorkspace(self._folders.workspace, lock_dir=self._state_dir / "locks", kept=self._kept)

    def approvals(self, *, now: Clock, fence_of: Callable[[str], int | None]) -> ApprovalStore:  # noqa: ARG002 - nobody can have the lane of a process that lives
        from nacre.runtime.tools.approvals.approvals import ApprovalFolder

        return ApprovalFolder(self._folders.approvals, now=now)

    def ledger(self) -> LedgerPlace:
        from nacre.runtime.ledger.file_ledger import ledger_file

        return ledger_file(self._state_dir)


def kept_places(home: StorageHome) -> tuple[Path, ...]:
    """The places of programs that may be inside the workspace's folder."""
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


@cache
def _backend(driver: str) -> tuple[OpenStorage, Mapping[str, Any]]:
    # Imported here, because files need no manifest.
    from nacre.runtime.contracts.foreign_code import ForeignCodeFailed, run_foreign
    from nacre.runtime.extensions.installed.discovery import built_in_extension, installed_extensions

    item = built_in_extension(driver)
    if not _is_storage(item):
        found = {each.id: each for each in installed_extensions() if _is_storage(each)}
        item = found.get(driver)
        if item is None:
            known = ", ".join(["files", *sorted(found)])
            raise ConfigError(
                f"storage.driver is {driver!r}, but no installed extension stores data under this name. "
                f"Install it, or choose one of: {known}."
            )
    assert item is not None
    if item.problem or item.manifest is None:
        raise ConfigError(f"storage.driver is {driver!r}, which cannot be used. {item.problem}")
    try:
        loaded: Any = run_foreign(item.entry_point.load, driver)
    except ForeignCodeFailed as error:
        raise ConfigError(
            f"storage.driver is {driver!r}, which could not be loaded: {error}. Install the package "
            f"{item.package!r} again; files never replace it."
        ) from error
    opener = getattr(loaded, "open_storage", loaded)
    if not callable(opener):
        raise ConfigError(
            f"storage.driver is {driver!r}, but the entry point of the package {item.package!r} has no "
            "open_storage (nacre.runtime.storage.backend)."
        )
    return cast("OpenStorage", opener), item.manifest.settings_schema


def _is_storage(item: Installed | None) -> bool:
    return item is not None and item.manifest is not None and item.manifest.kind == "storage"
