"""A tool of your own: a typed function. Its docstring and its annotations are what the model reads."""

import asyncio
from tempfile import TemporaryDirectory
from typing import Annotated

from pydantic import Field

from nacre import Agent, ToolContext, ToolFailed, tool

HIVES = {"garden": 12.5, "orchard": 31.0}


@tool
async def honey(
    hive: Annotated[str, Field(description="garden or orchard")], context: ToolContext
) -> dict[str, float]:
    """How much honey a hive has, in kilograms."""
    context.progress(f"weighing {hive}")
    if hive not in HIVES:
        raise ToolFailed(f"There is no hive {hive!r}. The hives are: {', '.join(HIVES)}.")
    return {"kilograms": HIVES[hive]}


async def main(state_dir: str) -> None:
    instructions = "You look after bees. Weigh a hive before you say anything about it."
    async with Agent.open(state_dir=state_dir, tools=[honey], instructions=instructions) as agent:
        reply = await agent.ask("What can you do?")
        print(reply.text if reply else "(the assistant stays silent)")


with TemporaryDirectory() as folder:
    asyncio.run(main(folder))
