"""A sub-agent: a tool that works in a turn of its own. The models are scripts: this runs offline."""

import asyncio
from tempfile import TemporaryDirectory

from nacre import Agent, UsageLimits, sub_agent, tool
from nacre.testing import ScriptedModel, calls, says


@tool
async def hive(name: str) -> str:
    """What a hive weighs."""
    return f"{name}: 31 kg"


beekeeper = sub_agent(
    name="beekeeper",
    description="Looks after hives. Give it a question about them.",
    instructions="Weigh a hive before you say anything about it. Answer in one sentence.",
    tools=[hive],
    model=ScriptedModel(calls(("hive", {"name": "orchard"})), says("The orchard's hive weighs 31 kg.")),
    limits=UsageLimits(model_calls=5),
)


async def main(state_dir: str) -> None:
    model = ScriptedModel(calls(("beekeeper", {"task": "How heavy is the orchard's hive?"})), says("31 kg."))
    async with Agent.open(state_dir=state_dir, model=model, tools=[beekeeper]) as agent:
        reply = await agent.ask("How heavy is it?")
        print(reply.text if reply else "(the assistant stays silent)")
        for session in await agent.sessions.list():
            print(session.key.partition(":subagent:")[1] or session.key, session.name)


with TemporaryDirectory() as folder:
    asyncio.run(main(folder))
