"""What is new of a branch since it was looked at last. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from nacre.sessions.entries.entries import Entry


class Follower:
    """Follows one branch after the other of a session's tree; a step costs what is new, not what is there."""

    def __init__(self) -> None:
        self._seen = 0
        self._newest: Entry | None = None

    def fresh(self, branch: Sequence[Entry]) -> Sequence[Entry] | None:
        """The entries behind those that were seen; `None` for another branch, which is to be read whole."""
        # An entry has one parent, so a branch that still has our newest entry in its place goes on from it.
        goes_on = 0 < self._seen <= len(branch) and branch[self._seen - 1] is self._newest
        if goes_on and self._seen == len(branch):
            return ()
        fresh = branch[self._seen :] if goes_on else None
        self._seen = len(branch)
        self._newest = branch[-1] if branch else None
        return fresh
