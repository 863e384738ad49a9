"""Run by `test_kills.py`: for each line on stdin forks a child that does what is due, and kills it at a step.

A step is the beginning and the end of each of the ledger's transactions, and of each message that is sent.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))

from nacre.runtime.models.scripted import Clock
from tests.bridges.chats import Answering
from tests.bridges.faults.kill_driver import SteppedBridge, Steps, forked_for_each_line
from tests.bridges.line_channel import ALL
from tests.bridges.schedule.kept import MORNING, STEADY, kept

SETTINGS = {**STEADY, "plugins": {"slots": {"memory": "none"}}}
ANSWER = "Water the plants!"


async def _look(order: dict[str, Any], steps: Steps) -> None:
    bridge = SteppedBridge(order["port"], capabilities=ALL)
    bridge.steps = steps
    clock, model, state = (
        Clock(MORNING + timedelta(hours=1)),
        Answering(lambda _: ANSWER),
        Path(order["state"]),
    )
    async with kept(state, model, [bridge], clock, settings=SETTINGS, ids=order["ids"]) as here:
        await here.look()
        await here.look()


def child(order: dict[str, Any]) -> None:
    """One attempt, in a process of its own."""
    steps = Steps(order["kill_at"])
    threading.setprofile(steps.profile)  # of threads that begin from now on
    asyncio.run(_look(order, steps))


async def _warmed(state: Path) -> None:
    async with kept(state, Answering(), [], Clock(MORNING), settings=SETTINGS) as here:
        await here.agent.ask("hello")


def warm(order: dict[str, Any]) -> None:
    """Imports everything."""
    asyncio.run(_warmed(Path(order["state"]).with_name("warm")))


if __name__ == "__main__":
    forked_for_each_line(child, warm)
