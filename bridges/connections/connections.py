"""The bridges of a gateway, which can be added and removed while it runs, and are restarted after failures.

Where programs share a ledger, this program runs the bridges of the accounts that it holds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TypeAlias

from nacre.bridges.contracts.bridge import Bridge, Inbox, Place
from nacre.bridges.contracts.errors import ChannelUnusable
from nacre.bridges.delivery.outgoing import Around, MaySend, Outgoing
from nacre.closing import stop_tasks
from nacre.record import Record
from nacre.runtime.contracts.clock import Clock, Sleep, epoch_ms
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.ledger.ledger import AccountId, Ledger
from nacre.runtime.ledger.records import BridgeState, BridgeStatus, LedgerLost

log = logging.getLogger(__name__)

FIRST_WAIT_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 300.0
STEADY_SECONDS = 60.0
"""After this long a connection counts as recovered: the next failure waits as little as the first one."""
STOP_SECONDS = 10.0
LEAVE_SECONDS = 30.0
"""How long a running turn may take when its account is given up."""
RETRY_SECONDS = 2.0

MakeBridge: TypeAlias = Callable[[AccountId], Bridge]
"""Makes a new bridge for an account, because a stopped one is never started again."""


class Supervisor:
    """Runs one bridge in a task. `make_inbox` makes its inbox and takes the callback for `connected`."""

    def __init__(
        self,
        bridge: Bridge,
        make_inbox: Callable[[Callable[[], None]], Awaitable[Inbox]],
        *,
        now: Clock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        stop_seconds: float = STOP_SECONDS,
    ) -> None:
        self.bridge = bridge
        self.up = asyncio.Event()
        """Set while messages can be sent."""
        self._make_inbox = make_inbox
        self._now = now
        self._sleep = sleep
        self._stop_seconds = stop_seconds
        self._enter("stopped")
        self._problem = ""
        self._restarts = 0
        self._wait_seconds = 0.0
        self._connected_at: float | None = None
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    @property
    def status(self) -> BridgeStatus:
        """The bridge's present status."""
        refused = "; ".join(f"{what} is refused: {why}" for what, why in self.bridge.refused.items())
        return BridgeStatus(
            channel=self.bridge.channel,
            account=self.bridge.account,
            state=self._state,
            problem=refused if self._state == "connected" else self._problem,
            restarts=self._restarts,
            since_ms=self._since_ms,
            next_try_ms=self._since_ms + round(self._wait_seconds * 1000) if self._state == "waiting" else 0,
        )

    def _enter(self, state: BridgeState) -> None:
        self._state, self._since_ms = state, epoch_ms(self._now())

    def start(self) -> None:
        """Starts the bridge, and restarts it whenever it ends."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stops the bridge for good. If it does not stop in time, it is cancelled."""
        self._stopping = True
        if self._task is None:
            return
        try:
            async with asyncio.timeout(self._stop_seconds):
                await self.bridge.stop()
        except Exception as error:  # noqa: BLE001 - a bridge that cannot stop is cancelled
            log.warning("the bridge %s did not stop: %s", self.status.line, error or type(error).__name__)
        if self._state == "waiting":
            self._task.cancel()
        await asyncio.wait({self._task}, timeout=self._stop_seconds)
        await stop_tasks(self._task)
        self.up.clear()
        self._enter("stopped")

    async def _run(self) -> None:
        clock = asyncio.get_running_loop().time
        while not self._is_stopping():
            self._enter("connecting")
            self._connected_at = None
            self._problem = await self._until_it_ends()
            self.up.clear()
            if self._is_stopping():
                return
            before_seconds = 0.0 if self._was_steady(clock()) else self._wait_seconds
            self._wait_seconds = next_wait_seconds(before_seconds)
            self._restarts += 1
            self._enter("waiting")
            log.warning("the bridge %s; the next start is in %g s", self.status.line, self._wait_seconds)
            await self._sleep(self._wait_seconds)

    async def _until_it_ends(self) -> str:
        # In its own task: a library that cancels itself must not cancel the supervisor.
        running = asyncio.create_task(self._start())
        try:
            await asyncio.wait({running})
        finally:
            await stop_tasks(running)
        error = None if running.cancelled() else running.exception()
        if error is None:
            return "its connection ended"
        if not isinstance(error, Exception):
            raise error
        return str(error).rstrip(".") or type(error).__name__

    async def _start(self) -> None:
        self.bridge.refused.clear()
        inbox = await self._make_inbox(self._connected)
        if not self._stopping:
            await self.bridge.start(inbox)

    def _is_stopping(self) -> bool:
        return self._stopping

    def _was_steady(self, now_seconds: float) -> bool:
        return self._connected_at is not None and now_seconds - self._connected_at >= STEADY_SECONDS

    def _connected(self) -> None:
        self._enter("connected")
        self._connected_at = asyncio.get_running_loop().time()
        self.up.set()


def next_wait_seconds(wait_seconds: float) -> float:
    """The delay after one of `wait_seconds`: twice as long, up to the longest."""
    return min(LONGEST_WAIT_SECONDS, max(FIRST_WAIT_SECONDS, wait_seconds * 2))


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
        now: Clock,
        sleep: Sleep,
    ) -> None:
        self._ledger = ledger
        self._receive = receive
        self._may_send = may_send
        self._around = around
        self._now = now
        self._sleep = sleep
        self._here: dict[AccountId, Connection] = {}

    @property
    def statuses(self) -> tuple[BridgeStatus, ...]:
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
        supervisor = Supervisor(bridge, lambda up: self._inbox(name, up), now=self._now, sleep=self._sleep)
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
        """The connections of the accounts that have a bridge here, as they change."""
        return self._here

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


class Sharing:
    """Starts and stops the bridges of a gateway as other programs share its accounts.

    `resume` takes open messages from the ledger. `is_busy` says whether an account has messages in progress,
    and `leave` forgets them after at most so many seconds.
    """

    def __init__(
        self,
        ledger: Ledger,
        connections: Connections,
        *,
        make: MakeBridge | None,
        resume: Callable[[], Awaitable[None]],
        is_busy: Callable[[AccountId], bool],
        leave: Callable[[AccountId, float], Awaitable[None]],
        sleep: Sleep,
    ) -> None:
        self._ledger = ledger
        self._connections = connections
        self._make = make
        self._resume = resume
        self._is_busy = is_busy
        self._leave = leave
        self._sleep = sleep
        self._bridges: dict[AccountId, Bridge] = {}
        self._looking = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self.elsewhere: Mapping[AccountId, str] = {}
        """The accounts that other programs serve, and the names of those programs."""
        self.lost: asyncio.Future[LedgerLost] = asyncio.get_running_loop().create_future()
        """Done when this program can no longer serve."""

    def add(self, bridge: Bridge) -> None:
        """Adds a bridge, which the next call of `look` may start.

        Raises:
            ValueError: a bridge with its channel and account exists.
        """
        name = (bridge.channel, bridge.account)
        if name in self._bridges:
            raise ValueError(f"The account {name[1]!r} of {name[0]!r} has two bridges.")
        self._bridges[name] = bridge

    async def remove(self, account: AccountId) -> None:
        """Stops and removes a bridge."""
        async with self._looking:
            self._bridges.pop(account, None)
            await self._connections.remove(account)
            await self._ledger.give_up(account)

    def unstarted(self, account: AccountId) -> Bridge | None:
        """The bridge of an account that another program serves; it is not started here."""
        return self._bridges.get(account) if account in self.elsewhere else None

    async def look(self) -> float | None:
        """Starts, stops and gives up bridges as the ledger says. Returns the seconds until the next call.

        Raises:
            LedgerUnusable: the ledger cannot be used, or belongs to a program that must be alone.
        """
        async with self._looking:
            shares = await self._ledger.share(tuple(self._bridges))
            self.elsewhere = shares.elsewhere
            for account in set(self._connections.by_account) - {*shares.held}:
                log.warning("%s/%s is now served by another program", *account)
                await self._stop(account, seconds=0)
            before = set(self._connections.by_account)
            new = [self._connections.add(self._bridges[name]) for name in shares.held if name not in before]
            if new:
                await self._resume()
            for connection in new:
                await self._connections.start(connection)
            idle = (name for name in shares.surplus if name in before and not self._is_active(name))
            if self._make is not None and (given := next(idle, None)) is not None:
                log.info("%s/%s is left to another program", *given)
                await self._stop(given, seconds=LEAVE_SECONDS)
                await self._ledger.give_up(given)
            for account in shares.unsent:
                found = self._connections.by_account.get(account)
                if found is not None and not found.outgoing.is_busy:
                    await found.outgoing.resume()
            return shares.look_seconds

    def keep(self, seconds: float | None) -> None:
        """Calls `look` regularly from now on, first after so many seconds; never for `None`."""
        if seconds is not None:
            self._task = asyncio.create_task(self._keep(seconds), name="sharing")

    async def close(self) -> None:
        """Stops calling `look`. The bridges keep running."""
        await stop_tasks(self._task)

    async def _keep(self, seconds: float) -> None:
        while True:
            await self._sleep(seconds)
            try:
                seconds = await self.look() or RETRY_SECONDS
            except LedgerLost as error:
                self.lost.set_result(error)
                return
            except Exception:
                log.exception(
                    "it is unknown who serves which account; the next check is in %g s", RETRY_SECONDS
                )
                seconds = RETRY_SECONDS

    def _is_active(self, account: AccountId) -> bool:
        return self._is_busy(account) or self._connections.by_account[account].outgoing.is_busy

    async def _stop(self, account: AccountId, *, seconds: float) -> None:
        await self._connections.by_account[account].supervisor.stop()
        await self._leave(account, seconds)
        await self._connections.remove(account)
        await self._resume()  # messages that shared a queue with those of this account
        del self._bridges[account]
        with suppress(ChannelUnusable):  # the settings have changed, and `reload` reports it
            if self._make is not None:
                self._bridges[account] = self._make(account)
