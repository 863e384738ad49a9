"""Runs turns of one agent, beside other processes on the same state folder."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from nacre import Agent
from nacre.runtime.models.scripted import ScriptedModel, says


async def main(state_dir: Path, agent_id: str, name: str, count: int) -> None:
    """Says `<name> 0`, `<name> 1` … to the agent once it is told to go."""
    model = ScriptedModel(*(says(f"heard {name} {number}") for number in range(count)))
    async with await Agent.open(agent=agent_id, state_dir=state_dir, model=model) as agent:
        sys.stdout.write("open\n")
        sys.stdout.flush()
        sys.stdin.readline()
        for number in range(count):
            reply = await agent.ask(f"{name} {number}")
            assert reply is not None
            assert reply.text == f"heard {name} {number}"
    model.assert_complete()


asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])))
