"""Notices for the owner, each told once: what still holds in the next turn is no news there."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from nacre.runtime.contracts.events import Emit, Warned

log = logging.getLogger(__name__)


class Told:
    """What an agent has told so far, session by session."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str]] = set()

    def once(self, session_id: str, notices: Sequence[str], emit: Emit) -> None:
        """Warns of each notice that this session has not been told yet; an empty id is the whole agent."""
        for notice in notices:
            if (session_id, notice) not in self._told:
                self._told.add((session_id, notice))
                log.warning("%s", notice)
                emit(Warned(message=notice))
