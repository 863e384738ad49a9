"""Which store keeps an agent's sessions. The one place that chooses a member of `SessionStore`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.ids import NewId
from nacre.runtime.settings.config import Config
from nacre.sessions.stores.copying import CopyableStore
from nacre.sessions.stores.files import FileSessionStore, SessionPlaces
from nacre.sessions.stores.rewriting import RewritableStore
from nacre.sessions.stores.store import SessionStore

if TYPE_CHECKING:
    from nacre.sessions.stores.postgres.store import PostgresSessionStore


def open_store(config: Config, *, now: Clock, new_id: NewId) -> SessionStore:
    """The store of the agent that a config describes; touches nothing yet. `new_id` names new entries."""
    return _opened(config, now=now, new_id=new_id)


def open_rewritable_store(config: Config, *, now: Clock, new_id: NewId) -> RewritableStore:
    """The same store as what can be made to forget."""
    return _opened(config, now=now, new_id=new_id)


def open_copyable_store(config: Config, *, now: Clock, new_id: NewId) -> CopyableStore:
    """The same store as what can be copied from and into."""
    return _opened(config, now=now, new_id=new_id)


def _opened(config: Config, *, now: Clock, new_id: NewId) -> FileSessionStore | PostgresSessionStore:
    if config.database_url:
        return _in_database(config, now=now, new_id=new_id)
    places = SessionPlaces(
        index=config.folders.sessions_file,
        endings=config.folders.agent_dir / "endings",
        lanes=config.private_dir / "locks" / "lanes",
        cwd=config.workspace,
    )
    return FileSessionStore(places, now=now, new_id=new_id)


def _in_database(config: Config, *, now: Clock, new_id: NewId) -> PostgresSessionStore:
    from nacre.postgres.shared import shared_database
    from nacre.sessions.stores.postgres.store import PostgresSessionStore

    return PostgresSessionStore(
        shared_database(config.database_url),
        agent=config.agent_id,
        cwd=str(config.workspace),
        now=now,
        new_id=new_id,
    )
