"""A script that asks a blocking agent for a long answer; its parent interrupts it, as Ctrl-C does."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

from nacre import BlockingAgent, tool
from nacre.runtime.models.scripted import ScriptedModel, calls, says


def tell(value: str | None) -> None:
    """One line for the parent."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


@tool
async def wait_for_ever() -> str:
    """Never ends."""
    tell("waiting")
    await asyncio.Event().wait()
    return "never"


def main(state_dir: Path) -> None:
    """Two turns, the first of which is interrupted."""
    # A parent in the background of a shell hands down that SIGINT is ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    model = ScriptedModel(calls(("wait_for_ever", {})), says("Here I am."))
    environment = {"HOME": str(state_dir / "home")}
    with BlockingAgent.open(
        state_dir=state_dir, model=model, tools=[wait_for_ever], environment=environment, watch=False
    ) as agent:
        try:
            agent.ask("Wait")
        except KeyboardInterrupt:
            tell("interrupted")
        reply = agent.ask("Still there?")
        tell(reply.text if reply else None)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
