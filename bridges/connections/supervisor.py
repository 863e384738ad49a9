"""Keeps a bridge running by restarting it after failures."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from nacre.bridges.contracts.bridge import Bridge, Inbox
from nacre.closing import stop_tasks
from nacre.runtime.contracts.clock import Clock, epoch_ms
from nacre.runtime.ledger.records import BridgeState, BridgeStatus

log = logging.getLogger(__name__)

FIRST_WAIT_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 300.0
STEADY_SECONDS = 60.0
"""After this long a connection counts as recovered: the next failure waits as little as the first one."""
STOP_SECONDS = 10.0


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
        await self.bridge.start(await self._make_inbox(self._connected))

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
