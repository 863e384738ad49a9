"""How the bridges are is kept for a terminal, and a message that a bridge was cancelled over is not left."""

from __future__ import annotations

import asyncio
from pathlib import Path

from nacre.bridges.connections.supervisor import BridgeStatus, save_statuses, saved_statuses
from nacre.bridges.contracts.bridge import Bridge, Inbox, Part
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.ledger.file_ledger import SqliteLedger
from nacre.runtime.models.scripted import Clock, CountingIds
from tests.bridges.chats import FOLLOW_UP, Answering, gateway
from tests.runtime.agents import START


async def test_states_are_read_as_they_were_kept(tmp_path: Path) -> None:
    """The state, the last error, the back-off; what is not there any more is gone."""
    waiting = BridgeStatus(
        channel="irc",
        account="default",
        state="waiting",
        problem="the server refused",
        restarts=3,
        wait_seconds=8,
    )
    up = BridgeStatus(channel="line", account="work", state="connected")
    ledger = await SqliteLedger.open(tmp_path / "ledger.sqlite", now=Clock(START), new_id=CountingIds())
    try:
        await save_statuses(ledger, [up, waiting], Clock(START))
        first, second = await saved_statuses(ledger, Clock(START))
        await save_statuses(ledger, [up], Clock(START))
        assert len(await saved_statuses(ledger, Clock(START))) == 1
    finally:
        await ledger.close()

    assert first.status.line == "irc waiting, started again 3×: the server refused"
    assert first.next_try is not None
    assert (first.next_try - START).total_seconds() == 8
    assert (second.status.line, second.since, second.next_try) == ("line/work connected", START, None)


class Hasty(Bridge):
    """Is cancelled over each of its messages, each time a little later."""

    channel = "line"

    def __init__(self, count: int) -> None:
        self.count = count
        self.done = asyncio.Event()
        self._stopped = asyncio.Event()

    async def start(self, inbox: Inbox) -> None:
        """Hands them in."""
        inbox.connected()
        for number in range(self.count):
            inbound = Inbound(
                text=f"{number}",
                chat_kind="direct",
                channel="line",
                chat_id=f"{number}",
                sender_id=f"p{number}",
                message_id=f"{number}",
            )
            taking = asyncio.create_task(inbox.receive(inbound))
            for _ in range(number):
                await asyncio.sleep(0)
            taking.cancel()
            await asyncio.gather(taking, return_exceptions=True)
        self.done.set()
        await self._stopped.wait()

    async def stop(self) -> None:
        """Ends `start`."""
        self._stopped.set()

    async def deliver(self, part: Part) -> str:
        """Takes it."""
        return "x"


async def test_a_message_is_answered_although_its_bridge_was_cancelled_over_it(tmp_path: Path) -> None:
    """At whichever moment: what is on disk has somebody at it, and does not wait for the next start."""
    bridge, model = Hasty(24), Answering()
    async with gateway(tmp_path, model, [bridge], settings=FOLLOW_UP) as (here, _agent):
        await bridge.done.wait()
        async with asyncio.timeout(60):
            while len(model.requests) < 23 or not here.is_idle:
                await asyncio.to_thread(lambda: None)
        left = await here.tables.not_done()

    assert {"waiting", "running"}.isdisjoint(left)
