"""When a burst of changes is over. Uses the running loop's clock and touches nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

_LONGEST_WAIT = 4
"""Changes that never stop are still synced after this many debounce times."""


class Settling:
    """Calls `changed()` at each change that is noted, and `settled()` when it is quiet again."""

    def __init__(self, *, debounce_ms: int, changed: Callable[[], None], settled: Callable[[], None]) -> None:
        self._debounce_seconds = debounce_ms / 1000
        self._changed = changed
        self._settled = settled
        self._timer: asyncio.TimerHandle | None = None
        self._first_change = 0.0

    def note_change(self) -> None:
        """Takes a change, and begins to wait for quiet anew, but not for ever."""
        loop = asyncio.get_running_loop()
        self._changed()
        if self._timer is None:
            self._first_change = loop.time()
        else:
            self._timer.cancel()
        latest = self._first_change + _LONGEST_WAIT * self._debounce_seconds
        self._timer = loop.call_at(min(loop.time() + self._debounce_seconds, latest), self._fire)

    def close(self) -> None:
        """Drops a pending `settled` call."""
        if self._timer is not None:
            self._timer.cancel()

    def _fire(self) -> None:
        self._timer = None
        self._settled()
