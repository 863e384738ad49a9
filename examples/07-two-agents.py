"""Two agents in one process: each has its own notes, conversations and tools, and they share the models."""

import asyncio
import json
from pathlib import Path
from tempfile import TemporaryDirectory

from nacre import Runtime, tool

AGENTS = [{"id": "home", "default": True}, {"id": "work", "tools": {"deny": ["write"]}}]


@tool
def holidays() -> str:
    """The days on which the office is closed."""
    return "24 to 31 December"


async def main(state_dir: Path) -> None:
    (state_dir / "nacre.json5").write_text(json.dumps({"agents": {"list": AGENTS}}), encoding="utf-8")
    async with Runtime.open(state_dir=state_dir) as runtime:
        home = await runtime.agent("home")
        work = await runtime.agent("work", tools=[holidays])
        await home.ask("Remember that my boat is called Halcyon.")
        for agent in (home, work):
            reply = await agent.ask("What is my boat called?")
            print(f"{agent.id}: {reply.text if reply else '(silence)'}")


with TemporaryDirectory() as folder:
    asyncio.run(main(Path(folder)))
