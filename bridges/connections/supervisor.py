"""Keeps a bridge running by restarting it after failures, and stores the statuses of bridges for other
processes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Literal, TypeAlias

from nacre.bridges.contracts.bridge import Bridge, Inbox
from nacre.closing import stop_tasks
from nacre.record import Record
from nacre.runtime.contracts.clock import Clock, epoch_ms, stored_moment
from nacre.runtime.ledger.records import StoredStatus
from nacre.runtime.ledger.tables import LedgerTables

log = logging.getLogger(__name__)

FIRST_WAIT_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 300.0
STEADY_SECONDS = 60.0
"""After this long a connection counts as recovered: the next failure waits as little as the first one."""
STOP_SECONDS = 10.0

BridgeState: TypeAlias = Literal["stopped", "connecting", "connected", "waiting"]


class BridgeStatus(Record):
    """The status of a bridge. `problem` says why it is not connected, or what is refused although it is.

    While the state is `waiting`, the bridge is restarted `wait_seconds` after it failed.
    """

    channel: str
    account: str
    state: BridgeState
    problem: str = ""
    restarts: int = 0
    wait_seconds: float = 0.0

    @property
    def line(self) -> str:
        """The status in one line, for people."""
        name = self.channel if self.account == "default" else f"{self.channel}/{self.account}"
        again = f", started again {self.restarts}×" if self.restarts else ""
        why = f": {self.problem}" if self.problem else ""
        return f"{name} {self.state}{again}{why}"


class Supervisor:
    """Runs one bridge in a task. `make_inbox` makes its inbox and takes the callback for `connected`."""

    def __init__(
        self,
        bridge: Bridge,
        make_inbox: Callable[[Callable[[], None]], Awaitable[Inbox]],
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        stop_seconds: float = STOP_SECONDS,
    ) -> None:
        self.bridge = bridge
        self.up = asyncio.Event()
        """Set while messages can be sent."""
        self._make_inbox = make_inbox
        self._sleep = sleep
        self._stop_seconds = stop_seconds
        self._state: BridgeState = "stopped"
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
            wait_seconds=self._wait_seconds if self._state == "waiting" else 0.0,
        )

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
        self._state = "stopped"

    async def _run(self) -> None:
        clock = asyncio.get_running_loop().time
        while not self._is_stopping():
            self._state, self._connected_at = "connecting", None
            self._problem = await self._until_it_ends()
            self.up.clear()
            if self._is_stopping():
                return
            before_seconds = 0.0 if self._was_steady(clock()) else self._wait_seconds
            self._wait_seconds = next_wait_seconds(before_seconds)
            self._state, self._restarts = "waiting", self._restarts + 1
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
        await self.bridge.start(await self._make_inbox(self._connected))

    def _is_stopping(self) -> bool:
        return self._stopping

    def _was_steady(self, now_seconds: float) -> bool:
        return self._connected_at is not None and now_seconds - self._connected_at >= STEADY_SECONDS

    def _connected(self) -> None:
        self._state, self._connected_at = "connected", asyncio.get_running_loop().time()
        self.up.set()


def next_wait_seconds(wait_seconds: float) -> float:
    """The delay after one of `wait_seconds`: twice as long, up to the longest."""
    return min(LONGEST_WAIT_SECONDS, max(FIRST_WAIT_SECONDS, wait_seconds * 2))


class SavedStatus(Record):
    """The status of a bridge when it last changed, and when the bridge is restarted if it waits for that.

    `holder` names the program that runs it, where there are several.
    """

    status: BridgeStatus
    holder: str
    since: datetime | None
    next_try: datetime | None


async def save_statuses(tables: LedgerTables, statuses: Sequence[BridgeStatus], now: Clock) -> None:
    """Replaces the stored statuses."""
    now_ms = epoch_ms(now())
    await tables.put_statuses(
        [
            StoredStatus(
                channel=each.channel,
                account=each.account,
                state=each.state,
                problem=each.problem,
                restarts=each.restarts,
                since_ms=now_ms,
                next_try_ms=now_ms + round(each.wait_seconds * 1000) if each.state == "waiting" else 0,
            )
            for each in statuses
        ]
    )


async def saved_statuses(tables: LedgerTables, now: Clock) -> tuple[SavedStatus, ...]:
    """The statuses that `save_statuses` stored last."""
    zone = now().tzinfo
    return tuple(
        SavedStatus(
            status=BridgeStatus(
                channel=row.channel,
                account=row.account,
                state=_state(row.state),
                problem=row.problem,
                restarts=row.restarts,
            ),
            holder=row.holder,
            since=stored_moment(row.since_ms, zone),
            next_try=stored_moment(row.next_try_ms, zone),
        )
        for row in await tables.statuses()
    )


def _state(text: str) -> BridgeState:
    states: tuple[BridgeState, ...] = ("stopped", "connecting", "connected", "waiting")
    return next((state for state in states if state == text), "stopped")
