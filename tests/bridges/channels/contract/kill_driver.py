"""Run by `stories.py`: for each line on stdin forks a child that answers a channel, and kills it at one step.

A step is the beginning and the end of each of the ledger's transactions and of each send, and each piece of a
model's answer. A child tells on stdout that it ended, and how. It ends by itself when it has sent `until`.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[4]))

from nacre.bridges.contracts.bridge import Bridge, Part
from tests.bridges.chats import gateway
from tests.bridges.faults.kill_driver import SteppedModel, Steps, forked_for_each_line


def counted(bridge: Bridge, steps: Steps, sent: list[str]) -> Bridge:
    """A bridge that counts before and after each send and edit, and keeps what was sent."""
    deliver, edit = bridge.deliver, bridge.edit

    async def delivers(part: Part) -> str:
        steps.step()
        sent_id = await deliver(part)
        steps.step()
        sent.append(part.text)
        return sent_id

    async def edits(part: Part, message_id: str) -> None:
        steps.step()
        await edit(part, message_id)
        steps.step()
        sent.append(part.text)

    bridge.deliver, bridge.edit = delivers, edits  # type: ignore[method-assign]
    return bridge


def made(maker: str, spec: dict[str, Any]) -> Bridge:
    """The bridge that a world describes."""
    module, _, name = maker.partition(":")
    bridge: Bridge = getattr(import_module(module), name)(spec)
    return bridge


async def answer(order: dict[str, Any], steps: Steps) -> None:
    """Answers until `order["until"]` was sent."""
    sent: list[str] = []
    bridge = counted(made(order["maker"], {**order["spec"], "state": order["state"]}), steps, sent)
    settings, model = order["settings"], SteppedModel(steps)
    async with gateway(Path(order["state"]), model, [bridge], settings=settings, ids=order["ids"]) as (at, _):
        for _ in itertools.count():
            await asyncio.sleep(0.005)
            if any(order["until"] in text for text in sent) and at.is_idle:
                return


def child(order: dict[str, Any]) -> None:
    """One attempt, in a process of its own."""
    steps = Steps(order["kill_at"])
    threading.setprofile(steps.profile)
    asyncio.run(answer(order, steps))


async def _warmed(order: dict[str, Any], folder: Path) -> None:
    made(order["maker"], {**order["spec"], "state": str(folder)})
    async with gateway(folder, SteppedModel(Steps(0)), [], settings=order["settings"]) as (_, agent):
        await agent.ask("hello")


def warm(order: dict[str, Any]) -> None:
    """Imports what a child needs."""
    with TemporaryDirectory() as folder:
        asyncio.run(_warmed(order, Path(folder)))


if __name__ == "__main__":
    forked_for_each_line(child, warm)
