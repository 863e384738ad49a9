"""Which store keeps an agent's sessions. The one place that chooses a member of `SessionStore`."""

from __future__ import annotations

from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.ids import NewId
from nacre.runtime.settings.config import Config
from nacre.sessions.stores.files import FileSessionStore, SessionPlaces
from nacre.sessions.stores.store import SessionStore


def open_store(config: Config, *, now: Clock, new_id: NewId) -> SessionStore:
    """The store of the agent that a config describes; touches nothing yet. `new_id` names new entries."""
    places = SessionPlaces(
        index=config.sessions_file,
        endings=config.folders.agent_dir / "endings",
        lanes=config.private_dir / "locks" / "lanes",
        cwd=config.workspace,
    )
    return FileSessionStore(places, now=now, new_id=new_id)
