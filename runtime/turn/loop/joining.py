"""Messages that are said while a turn runs, and go into it when its tools are done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from nacre.runtime.contracts.inbound import Inbound


class Joining:
    """Those of one turn. It takes messages while it is `open`."""

    def __init__(self) -> None:
        self._waiting: list[Inbound] = []
        self._is_open = False

    @contextmanager
    def open(self) -> Iterator[None]:
        """While this is open, messages are taken; what nobody has fetched at its end is dropped."""
        self._is_open = True
        try:
            yield
        finally:
            self._is_open = False
            self._waiting.clear()

    def put(self, inbound: Inbound) -> bool:
        """Takes a message; whether the turn is still one that may hear it."""
        if self._is_open:
            self._waiting.append(inbound)
        return self._is_open

    def take(self) -> list[Inbound]:
        """What has been said since the last time."""
        taken, self._waiting = self._waiting, []
        return taken
