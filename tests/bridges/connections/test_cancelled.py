"""A message that a bridge was cancelled over is not left."""

from __future__ import annotations

import asyncio
from pathlib import Path

from nacre.bridges.contracts.bridge import Bridge, Inbox, Part
from nacre.runtime.contracts.inbound import Inbound
from tests.bridges.chats import FOLLOW_UP, Answering, gateway


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
