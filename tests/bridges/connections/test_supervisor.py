"""A bridge that fails is started again, with back-off, and is told about; it takes no other one down."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from nacre.bridges.connections.connections import LONGEST_WAIT_SECONDS, Supervisor, next_wait_seconds
from nacre.bridges.contracts.bridge import Bridge, Inbox, Part
from nacre.bridges.contracts.bridge_contract import RecordingInbox
from nacre.runtime.contracts.clock import epoch_ms
from nacre.runtime.models.scripted import Clock
from tests.runtime.agents import START


class _Flaky(Bridge):
    """Fails so many times before it stays up; what it fails with is chosen."""

    channel = "flaky"

    def __init__(self, *failures: BaseException | None) -> None:
        self.failures = list(failures)
        self.stopped = asyncio.Event()

    async def start(self, inbox: Inbox) -> None:
        """Ends in the next failure; `None` returns unasked."""
        if self.failures:
            failure = self.failures.pop(0)
            if failure is None:
                return
            raise failure
        inbox.connected()
        await self.stopped.wait()

    async def stop(self) -> None:
        """Ends it."""
        self.stopped.set()

    async def deliver(self, part: Part) -> str:
        """Nothing is sent here."""
        raise NotImplementedError


def _supervised(bridge: Bridge, waits: list[float]) -> Supervisor:
    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def inbox(connected: Callable[[], None]) -> Inbox:
        held = RecordingInbox()
        held.connected = connected  # type: ignore[method-assign]
        return held

    return Supervisor(bridge, inbox, now=Clock(START), sleep=sleep, stop_seconds=0.2)


async def test_it_is_started_again_until_it_stays_up() -> None:
    """Errors, a return unasked, and a library that cancels itself are all failures of a bridge."""
    waits: list[float] = []
    supervisor = _supervised(
        _Flaky(OSError("no route"), None, asyncio.CancelledError(), RuntimeError()), waits
    )

    supervisor.start()
    await supervisor.up.wait()

    assert waits == [1, 2, 4, 8]
    assert supervisor.status.line == "flaky connected, started again 4×"
    await supervisor.stop()
    assert supervisor.status.state == "stopped"
    assert not supervisor.up.is_set()


async def test_its_failure_is_told() -> None:
    """The status line says what went wrong while the next try is waited for."""
    waiting = asyncio.Event()

    async def inbox(_connected: Callable[[], None]) -> Inbox:
        return RecordingInbox()

    async def sleep(_seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    supervisor = Supervisor(
        _Flaky(OSError("no route to host.")), inbox, now=Clock(START), sleep=sleep, stop_seconds=3600
    )
    supervisor.start()
    await waiting.wait()

    status = supervisor.status
    assert status.line == "flaky waiting, started again 1×: no route to host"
    assert (status.since_ms, status.next_try_ms - status.since_ms) == (epoch_ms(START), 1000)
    async with asyncio.timeout(10):  # stopping it does not wait for the next try
        await supervisor.stop()


async def test_what_a_server_refuses_is_told_while_the_rest_works() -> None:
    """The status line of a bridge that is connected names the room; the next start begins anew."""

    class Refused(_Flaky):
        async def start(self, inbox: Inbox) -> None:
            if not self.failures:
                self.refused["#closed"] = "invite only"
            else:
                self.refused["#gone"] = "no such room"
            await super().start(inbox)

    supervisor = _supervised(Refused(OSError("no route")), [])
    supervisor.start()
    await supervisor.up.wait()

    assert supervisor.status.line == "flaky connected, started again 1×: #closed is refused: invite only"
    await supervisor.stop()


async def test_a_bridge_that_stops_may_finish_its_last_work() -> None:
    """It is not cancelled while it still says goodbye to its server."""
    said: list[str] = []

    class Polite(_Flaky):
        async def start(self, inbox: Inbox) -> None:
            await super().start(inbox)
            for _ in range(10):
                await asyncio.sleep(0)
            said.append("goodbye")

    supervisor = _supervised(Polite(), [])
    supervisor.start()
    await supervisor.up.wait()

    await supervisor.stop()

    assert said == ["goodbye"]


async def test_a_bridge_that_will_not_stop_is_cancelled() -> None:
    """Neither a `stop` that hangs nor one that fails keeps the program from ending."""

    class Deaf(_Flaky):
        async def stop(self) -> None:
            raise ConnectionError("gone")

    supervisor = _supervised(Deaf(), [])
    supervisor.start()
    await supervisor.up.wait()

    await supervisor.stop()

    assert supervisor.status.state == "stopped"


def test_waits_grow_to_a_limit() -> None:
    """One second, then twice as long each time, five minutes at most."""
    waits = [0.0]
    for _ in range(12):
        waits.append(next_wait_seconds(waits[-1]))

    assert waits[1:5] == [1, 2, 4, 8]
    assert waits[-1] == LONGEST_WAIT_SECONDS
