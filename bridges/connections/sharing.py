"""Runs the bridges of the accounts that this program holds, while other programs run the others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TypeAlias

from nacre.bridges.connections.connections import Connections
from nacre.bridges.contracts.bridge import Bridge
from nacre.bridges.contracts.errors import ChannelUnusable
from nacre.runtime.contracts.clock import Sleep
from nacre.runtime.ledger.ledger import AccountId, Ledger

log = logging.getLogger(__name__)

LEAVE_SECONDS = 30.0
"""How long a turn may take to end whose account is given up; only one that began at that moment needs it."""
RETRY_SECONDS = 2.0

MakeBridge: TypeAlias = Callable[[AccountId], Bridge]
"""Makes the bridge of an account anew, because one that was stopped is not started again."""


class Sharing:
    """The accounts that a gateway would serve, and the bridges of those that it may.

    `resume` takes what is open in the ledger. `is_busy` says whether an account has messages in progress, and
    `leave` forgets them after so many seconds at most.
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
        """The accounts that other programs serve, and the names of these."""

    def add(self, bridge: Bridge) -> None:
        """Adds a bridge, which the next look may start.

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
        """The bridge of an account that another program serves: what its channel can do."""
        return self._bridges.get(account) if account in self.elsewhere else None

    async def look(self) -> float | None:
        """Starts, stops and gives up bridges as the ledger says. Returns the seconds until the next look.

        Raises:
            LedgerUnusable: the ledger cannot be used, or belongs to a program that must be alone.
        """
        async with self._looking:
            shares = await self._ledger.share(tuple(self._bridges))
            self.elsewhere = shares.elsewhere
            for account in self._connections.by_account:
                if account not in shares.held:
                    log.warning("%s/%s is served by another program by now", *account)
                    await self._stop(account, seconds=0)
            before = self._connections.by_account
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
        """Looks again from now on, first after so many seconds; without any never."""
        if seconds is not None:
            self._task = asyncio.create_task(self._keep(seconds), name="sharing")

    async def close(self) -> None:
        """Looks no more. The bridges stay as they are."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _keep(self, seconds: float) -> None:
        while True:
            await self._sleep(seconds)
            try:
                seconds = await self.look() or RETRY_SECONDS
            except Exception:
                log.exception(
                    "who serves which account is not known; the next look is in %g s", RETRY_SECONDS
                )
                seconds = RETRY_SECONDS

    def _is_active(self, account: AccountId) -> bool:
        found = self._connections.by_account.get(account)
        return self._is_busy(account) or (found is not None and found.outgoing.is_busy)

    async def _stop(self, account: AccountId, *, seconds: float) -> None:
        connection = self._connections.by_account[account]
        await connection.supervisor.stop()
        await self._leave(account, seconds)
        await self._connections.remove(account)
        await self._resume()  # of messages that were in one queue with those of this account
        del self._bridges[account]
        with suppress(ChannelUnusable):  # the settings have changed, and `reload` says so
            if self._make is not None:
                self._bridges[account] = self._make(account)
