"""Run by `test_crash.py`: kills a child before every write of a flush, and flushes again in other words.

One JSON line an attempt on stdout: what the daily log says at the end.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from nacre.runtime.contracts.model import ModelRequest, TextDelta
from nacre.sessions.contracts.messages import AssistantMessage, Text, ToolCall, ToolResultMessage
from tests.faults.crash_driver import at_each_write, count_writes
from tests.faults.drivers import forked
from tests.runtime.agents import TODAY, opened, said


class Wordy:
    """Notes what was said in words of its own, once in each flush, and then has nothing to add."""

    name = "test/wordy"
    context_window_tokens: int | None = 24_000

    def __init__(self, words: str) -> None:
        self._words = words

    async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | AssistantMessage]:
        notes = request.purpose == "flush" and not isinstance(request.messages[-1], ToolResultMessage)
        call = ToolCall(id="a", name="append", arguments={"path": TODAY, "text": self._words})
        yield AssistantMessage(
            content=(call,) if notes else (Text(text="NO_REPLY" if request.purpose == "flush" else "ok"),),
            api="test",
            provider="test",
            model="wordy",
            usage=None,
            stop_reason="toolUse" if notes else "stop",
            timestamp_ms=1,
        )

    async def aclose(self) -> None:
        """Nothing is held open."""


async def talk(state_dir: Path, kill_before: int) -> None:
    """A conversation that is killed while its notes are saved."""
    async with opened(state_dir, Wordy("- The gate code is 4711.")) as agent:
        await agent.respond(said("The code of the gate: 4711"))
        count_writes(kill_before, state_dir)
        await agent.respond(said("/compact"))


async def gone_on(state_dir: Path) -> list[str]:
    """Saves notes again, in other words, and gives the lines of the log that are notes."""
    async with opened(state_dir, Wordy("- One opens the gate with 4711."), ids="after-") as agent:
        await agent.respond(said("/compact"))
    log = (state_dir / "workspace" / TODAY).read_text()
    return [line for line in log.splitlines() if line.startswith("- ")]


def attempt(state_dir: Path, kill_before: int) -> dict[str, object]:
    """One child, killed before one write, and what was noted in the end."""
    _, status = forked(lambda _tell: talk(state_dir, kill_before))
    return {
        "kill_before": kill_before,
        "killed": os.WIFSIGNALED(status),
        "notes": asyncio.run(gone_on(state_dir)),
    }


if __name__ == "__main__":
    at_each_write(Path(sys.argv[1]), attempt)
