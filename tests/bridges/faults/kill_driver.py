"""Run by `test_kills.py`: for each line on stdin forks a child that answers chats, and kills it at one step.

A step is the beginning and the end of each of the ledger's transactions, of each send and edit, and of each
piece of a model's answer. A child without a step to be killed at ends when everything is answered and sent.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))

from nacre.bridges.contracts.bridge import Capabilities, Inbox, Part
from nacre.runtime.contracts.model import ModelRequest
from tests.bridges.chats import FOLLOW_UP, Answering, gateway
from tests.bridges.line_channel import LineBridge

SETTINGS = {**FOLLOW_UP, "plugins": {"slots": {"memory": "none"}}}
TAIL = ", and this goes on for a while so that a draft is shown"


class Steps:
    """Counts steps and kills the process at one of them; 0 is none."""

    def __init__(self, kill_at: int) -> None:
        self._left = kill_at

    def step(self) -> None:
        """One more."""
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def profile(self, frame: Any, event: str, _argument: object) -> None:
        """Counts the transactions of the ledger's thread, before and after."""
        if event in ("call", "return") and frame.f_code.co_name == "_together":
            self.step()


class SteppedBridge(LineBridge):
    """The line bridge, which counts."""

    steps: Steps
    inbox: Inbox

    async def start(self, inbox: Inbox) -> None:
        """Keeps the inbox, to see how far it is."""
        self.inbox = inbox
        await super().start(inbox)

    async def deliver(self, part: Part) -> str:
        """Sends."""
        self.steps.step()
        sent_id = await super().deliver(part)
        self.steps.step()
        return sent_id

    async def edit(self, part: Part, message_id: str) -> None:
        """Changes."""
        self.steps.step()
        await super().edit(part, message_id)
        self.steps.step()


class SteppedModel(Answering):
    """A model whose answer depends on the words alone, which counts."""

    def __init__(self, steps: Steps) -> None:
        super().__init__(lambda text: f"re: {text}{TAIL}")
        self.steps = steps

    async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        """Answers in three steps, and leaves others time between."""
        for number, item in enumerate([item async for item in super().stream(request)]):
            if number in (0, 5):
                self.steps.step()
                await asyncio.sleep(0.02)
            yield item
        self.steps.step()


async def answer(state_dir: Path, port: int, can: Capabilities, steps: Steps, said: int, ids: str) -> None:
    """Answers everything that the server has, and ends."""
    bridge = SteppedBridge(port, capabilities=can)
    bridge.steps = steps
    async with gateway(state_dir, SteppedModel(steps), [bridge], settings=SETTINGS, ids=ids) as (at, _):
        for _ in itertools.count():
            await asyncio.sleep(0.005)
            [status] = at.statuses
            if status.state == "connected" and at.is_idle and bridge.inbox.cursor == str(said):
                return


def child(order: dict[str, Any]) -> None:
    """One attempt, in a process of its own."""
    steps = Steps(order["kill_at"])
    threading.setprofile(steps.profile)
    can = Capabilities(**order["can"])
    asyncio.run(answer(Path(order["state"]), order["port"], can, steps, order["said"], order["ids"]))


async def _warmed(state_dir: Path) -> None:
    async with gateway(state_dir, SteppedModel(Steps(0)), [], settings=SETTINGS) as (_, agent):
        await agent.ask("hello")


def forked_for_each_line(
    child: Callable[[dict[str, Any]], None], warm: Callable[[dict[str, Any]], None]
) -> None:
    """For each order on stdin runs `child` in a fork, and tells how it ended: `null` well, else the signal.

    `warm` imports everything that a child needs, once for all of them.
    """
    is_warm = False
    for line in sys.stdin:
        order = json.loads(line)
        if not is_warm:
            warm(order)
            is_warm = True
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                child(order)
                code = 0
            finally:
                sys.stderr.flush()
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        ended = {"signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None, "status": status}
        sys.stdout.write(json.dumps(ended) + "\n")
        sys.stdout.flush()


def warm(_order: dict[str, Any]) -> None:
    """Imports what a child needs."""
    with TemporaryDirectory() as folder:
        asyncio.run(_warmed(Path(folder)))


if __name__ == "__main__":
    forked_for_each_line(child, warm)
