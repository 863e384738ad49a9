"""The bridges of a gateway, which can be added and removed while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from nacre.bridges.connections.supervisor import BridgeStatus, Supervisor
from nacre.bridges.contracts.bridge import Bridge, Place
from nacre.bridges.delivery.outgoing import Around, MaySend, Outgoing
from nacre.record import Record
from nacre.runtime.contracts.clock import Sleep
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.ledger.ledger import AccountId, Ledger


class Connection(Record):
    """A bridge with its supervisor and its outgoing messages."""

    bridge: Bridge
    supervisor: Supervisor
    outgoing: Outgoing

    @property
    def is_up(self) -> bool:
        """Whether messages can be sent."""
        return self.supervisor.up.is_set()

    async def stop(self) -> None:
        """Stops it for good. What is not sent stays in the ledger."""
        await self.supervisor.stop()
        await self.outgoing.close()


class Connections:
    """The connections of a gateway.

    `receive` takes a message and a cursor. `may_send` is asked before each part, `around` observes it.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        receive: Callable[[Inbound, str], Awaitable[None]],
        may_send: MaySend,
        around: Around,
        sleep: Sleep,
    ) -> None:
        self._ledger = ledger
        self._receive = receive
        self._may_send = may_send
        self._around = around
        self._sleep = sleep
        self._here: dict[AccountId, Connection] = {}

    @property
    def statuses(self) -> tuple[BridgeStatus, ...]:
        """The status of each bridge."""
        return tuple(connection.supervisor.status for connection in self._here.values())

    @property
    def is_busy(self) -> bool:
        """Whether anything is being sent or waits for a retry."""
        return any(connection.outgoing.is_busy for connection in self._here.values())

    def add(self, bridge: Bridge) -> Connection:
        """Adds a bridge without starting it.

        Raises:
            ValueError: a bridge with its channel and account exists.
        """
        name = (bridge.channel, bridge.account)
        if name in self._here:
            raise ValueError(f"The account {name[1]!r} of {name[0]!r} has two bridges.")
        supervisor = Supervisor(bridge, lambda up: self._inbox(name, up), sleep=self._sleep)
        outgoing = Outgoing(
            bridge,
            self._ledger.outbox,
            supervisor.up,
            may_send=self._may_send,
            around=self._around,
            sleep=self._sleep,
        )
        self._here[name] = Connection(bridge=bridge, supervisor=supervisor, outgoing=outgoing)
        return self._here[name]

    async def start(self, connection: Connection) -> None:
        """Starts a bridge and sends what an earlier program left for it."""
        await connection.outgoing.resume()
        connection.supervisor.start()

    async def remove(self, name: AccountId) -> None:
        """Stops and removes a bridge."""
        connection = self._here.pop(name, None)
        if connection is not None:
            await connection.stop()

    @property
    def by_account(self) -> Mapping[AccountId, Connection]:
        """The connections of the accounts that have a bridge here, as they are now."""
        return dict(self._here)

    def find(self, place: Place | Inbound) -> Connection | None:
        """The connection for a place; `None` if its bridge is missing."""
        return self._here.get((place.channel, place.account))

    def notify(self, place: Place | Inbound) -> None:
        """Announces new parts for a chat in the ledger. If its bridge is missing, they wait."""
        if (connection := self.find(place)) is not None:
            connection.outgoing.notify(place.chat_id)

    async def flush(self, seconds: float) -> bool:
        """Waits up to `seconds` until everything that can be sent is sent. Returns whether it was."""
        try:
            async with asyncio.timeout(seconds):
                await asyncio.gather(*(each.outgoing.flush() for each in self._here.values()))
        except TimeoutError:
            return False
        return True

    async def stop_bridges(self) -> None:
        """Stops every bridge, so that no more messages arrive."""
        await asyncio.gather(*(each.supervisor.stop() for each in self._here.values()))

    async def close(self) -> None:
        """Stops sending."""
        await asyncio.gather(*(each.outgoing.close() for each in self._here.values()))

    async def _inbox(self, name: AccountId, connected: Callable[[], None]) -> BridgeInbox:
        return BridgeInbox(await self._ledger.cursor(*name), connected, self._receive)


class BridgeInbox:
    """An `Inbox` that passes messages to `receive` and tracks the cursor of the last one."""

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
        await self._receive(inbound, cursor)
        self.cursor = cursor or self.cursor
