"""Leaves a provider that keeps failing alone for a while. Pure: the time comes in.

Without it each saved note would ask a dead provider again, with every retry.
"""

from __future__ import annotations

from collections.abc import Callable

FAILURES = 3
"""So many in a row open the circuit."""

FIRST_REST_SECONDS = 60.0
MAX_REST_SECONDS = 30 * 60.0


class CircuitBreaker:
    """Counts failures in a row. After `FAILURES` it asks for a rest, which doubles with every further one."""

    def __init__(self, now_seconds: Callable[[], float]) -> None:
        self._now_seconds = now_seconds
        self._failures = 0
        self._rest_until = 0.0
        self.problem = ""
        """The last failure, as a sentence; empty after a success."""

    def resting_seconds(self) -> float:
        """How long the provider is still to be left alone; 0 when it may be asked."""
        return max(0.0, self._rest_until - self._now_seconds())

    def failed(self, problem: str) -> None:
        """One more failure in a row; calls that were on the way when the rest began count as none."""
        self.problem = problem
        if self.resting_seconds():
            return
        self._failures += 1
        over = self._failures - FAILURES
        if over >= 0:
            rest = min(MAX_REST_SECONDS, FIRST_REST_SECONDS * 2.0 ** min(over, 10))
            self._rest_until = self._now_seconds() + rest

    def succeeded(self) -> None:
        """It answers again: everything before is forgotten."""
        self._failures, self._rest_until, self.problem = 0, 0.0, ""
