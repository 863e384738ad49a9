"""The door that a bridge is given, for one start."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from nacre.runtime.contracts.inbound import Inbound


class BridgeDoor:
    """A `Door` that hands messages to `receive`, and keeps the cursor of the last one that it took."""

    def __init__(
        self,
        cursor: str,
        connected: Callable[[], None],
        receive: Callable[[Inbound, str], Awaitable[None]],
    ) -> None:
        self.cursor = cursor
        self.connected = connected
        self._receive = receive

    async def receive(self, inbound: Inbound, *, cursor: str = "") -> None:
        """As `Door`."""
        await self._receive(inbound, cursor)
        self.cursor = cursor or self.cursor
