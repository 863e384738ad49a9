"""The bridges of a gateway: each kept up, with a way in and a way out. They come and go while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from nacre.bridges.connections.door import BridgeDoor
from nacre.bridges.connections.supervisor import BridgeStatus, Supervisor
from nacre.bridges.contracts.bridge import Bridge, Place
from nacre.bridges.delivery.outgoing import MaySend, Outgoing
from nacre.bridges.delivery.throttle import Sleep
from nacre.record import Record
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.ledger.ledger import Ledger

AccountId: TypeAlias = tuple[str, str]
"""Channel and account."""


class Connection(Record):
    """One bridge, what keeps it up, and the way out of it."""

    bridge: Bridge
    supervisor: Supervisor
    outgoing: Outgoing

    @property
    def is_up(self) -> bool:
        """Whether messages can be sent."""
        return self.supervisor.up.is_set()

    async def stop(self) -> None:
        """Stops it for good; what is not sent stays in the ledger."""
        await self.supervisor.stop()
        await self.outgoing.close()


class Connections:
    """Those of one gateway. `receive` takes a message and a cursor, `may_send` is asked before each part."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        receive: Callable[[Inbound, str], Awaitable[None]],
        may_send: MaySend,
        sleep: Sleep,
    ) -> None:
        self._ledger = ledger
        self._receive = receive
        self._may_send = may_send
        self._sleep = sleep
        self._here: dict[AccountId, Connection] = {}

    @property
    def statuses(self) -> tuple[BridgeStatus, ...]:
        """How each bridge is."""
        return tuple(connection.supervisor.status for connection in self._here.values())

    @property
    def is_busy(self) -> bool:
        """Whether anything is on its way, or waits to be."""
        return any(connection.outgoing.is_busy for connection in self._here.values())

    def add(self, bridge: Bridge) -> Connection:
        """Takes a bridge in; `start` starts it.

        Raises:
            ValueError: there is one of its channel and account.
        """
        name = (bridge.channel, bridge.account)
        if name in self._here:
            raise ValueError(f"There are two bridges for the account {name[1]!r} of {name[0]!r}.")
        supervisor = Supervisor(bridge, lambda up: self._door(name, up), sleep=self._sleep)
        outgoing = Outgoing(
            bridge, self._ledger.outbox, supervisor.up, may_send=self._may_send, sleep=self._sleep
        )
        self._here[name] = Connection(bridge=bridge, supervisor=supervisor, outgoing=outgoing)
        return self._here[name]

    async def start(self, connection: Connection) -> None:
        """Starts a bridge, and sends what an earlier program left for it."""
        await connection.outgoing.resume()
        connection.supervisor.start()

    async def start_all(self) -> None:
        """Starts every bridge."""
        for connection in self._here.values():
            await self.start(connection)

    async def remove(self, name: AccountId) -> None:
        """Stops a bridge and forgets it."""
        connection = self._here.pop(name, None)
        if connection is not None:
            await connection.stop()

    def find(self, place: Place | Inbound) -> Connection | None:
        """The one that a place is reached by; `None` when it is not here."""
        return self._here.get((place.channel, place.account))

    def notify(self, place: Place | Inbound) -> None:
        """Says that the ledger holds something for a chat; without its bridge that waits until it is here."""
        if (connection := self.find(place)) is not None:
            connection.outgoing.notify(place.chat_id)

    async def flush(self, seconds: float) -> bool:
        """Waits until everything is sent that can be, so long at most; whether it was."""
        try:
            async with asyncio.timeout(seconds):
                await asyncio.gather(*(each.outgoing.flush() for each in self._here.values()))
        except TimeoutError:
            return False
        return True

    async def stop_bridges(self) -> None:
        """Stops every bridge; nothing comes in any more."""
        await asyncio.gather(*(each.supervisor.stop() for each in self._here.values()))

    async def close(self) -> None:
        """Stops sending."""
        await asyncio.gather(*(each.outgoing.close() for each in self._here.values()))

    async def _door(self, name: AccountId, connected: Callable[[], None]) -> BridgeDoor:
        return BridgeDoor(await self._ledger.cursor(*name), connected, self._receive)
