"""From settings to the index of sessions, for an agent and for commands that need no agent."""

from __future__ import annotations

from nacre.runtime.contracts.clock import Clock
from nacre.runtime.settings.config import Config
from nacre.sessions.index.index import SessionIndex


def open_index(config: Config, now: Clock) -> SessionIndex:
    """The index at `session.store`, or at its usual place. Opening touches no file."""
    return SessionIndex(config.sessions_file.parent, name=config.sessions_file.name, now=now)
