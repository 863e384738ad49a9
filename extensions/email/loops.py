"""How many messages of one sender are answered, so that two programs do not go on for ever. Pure."""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta

WINDOW = timedelta(hours=1)


class LoopGuard:
    """Counts the messages of each sender within `WINDOW`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: dict[str, deque[datetime]] = {}

    def admits(self, sender: str, now: datetime) -> bool:
        """Whether one more is answered, which is counted then."""
        for known in [name for name, taken in self._taken.items() if now - taken[-1] > WINDOW]:
            del self._taken[known]
        taken = self._taken.get(sender, deque())
        while taken and now - taken[0] > WINDOW:
            taken.popleft()
        if len(taken) >= self._most:
            return False
        taken.append(now)
        self._taken[sender] = taken
        return True
