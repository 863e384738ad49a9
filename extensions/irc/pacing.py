"""How fast lines may go out, so that no server takes the assistant for a flood. Pure."""

from __future__ import annotations

BURST_LINES = 5


class Pacer:
    """A bucket of `BURST_LINES` that fills by `lines_per_second`."""

    def __init__(self, lines_per_second: float) -> None:
        self._seconds = 1 / max(lines_per_second, 0.01)
        self._free_at = 0.0

    def wait_seconds(self, now_seconds: float) -> float:
        """How long to wait before the next line, which is counted."""
        self._free_at = max(self._free_at, now_seconds - BURST_LINES * self._seconds) + self._seconds
        return max(0.0, self._free_at - now_seconds)
