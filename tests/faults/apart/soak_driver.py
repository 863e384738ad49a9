"""Run by `test_soak.py`: a stretch of a long day of turns, which may end with a kill before any write.

soak_driver.py <state folder> <first turn> <turns of the day> <kill before this write; 0 is never>

Prints a JSON line when a turn begins, and one when it has ended.
"""

from __future__ import annotations

import asyncio
import json
import selectors
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))

from nacre import Agent
from nacre.runtime.contracts.clock import random_id
from nacre.runtime.contracts.events import ReplyReady, TurnFailed
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.models.scripted import Clock
from tests.faults.crash_driver import count_writes
from tests.runtime.agents import START, said

DAY_SECONDS = 86_400
HURRY = 40
"""So many seconds of waiting, for a provider that failed or fell silent, pass in one."""
GROUP_EVERY = 10
GROUP: dict[str, Any] = {"chat_kind": "group", "channel": "chat", "chat_id": "club", "is_owner": False}
PRIVATE = "heron-4711"
"""Stands in everything that the owner says."""
PADDING = "The hive needs sugar before the frost comes. " * 66


class _HurriedSelector(selectors.DefaultSelector):
    def select(self, timeout: float | None = None) -> Any:
        return super().select(timeout and timeout / HURRY)


class HurriedLoop(asyncio.SelectorEventLoop):
    """An event loop on which time passes faster."""

    def __init__(self) -> None:
        super().__init__(_HurriedSelector())

    def time(self) -> float:
        """The loop's clock."""
        return super().time() * HURRY


def message(number: int) -> Inbound:
    """What is said in a turn: by the owner, and now and then by a stranger in a group."""
    if number % GROUP_EVERY == 0:
        return said(f"turn-{number}: {PADDING}", sender_id=f"s{number % 3}", **GROUP)
    return said(f"turn-{number}: {PRIVATE} {PADDING}")


def report(*values: object) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


async def live(state_dir: Path, first: int, turns: int) -> None:
    """The turns from the first to the end of the day."""
    step = timedelta(seconds=DAY_SECONDS / turns)
    clock = Clock(START + first * step)
    agent = await Agent.open(
        state_dir=state_dir,
        environment={"HOME": str(state_dir)},
        clock=clock,
        new_id=random_id,
        watch=False,
    )
    async with agent:
        for number in range(first, turns):
            report("begins", number)
            async for event in agent.stream(message(number)):
                if isinstance(event, ReplyReady):
                    report("answered", number, event.reply.text)
                elif isinstance(event, TurnFailed):
                    report("failed", number, str(event.error))
            clock.advance(seconds=step.total_seconds())


if __name__ == "__main__":
    folder, first, turns, kill_before = Path(sys.argv[1]), *map(int, sys.argv[2:5])
    if kill_before:
        count_writes(kill_before, folder)
    with asyncio.Runner(loop_factory=HurriedLoop) as runner:
        runner.run(live(folder, first, turns))
