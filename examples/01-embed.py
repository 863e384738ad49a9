"""An assistant inside your own program: open an agent, hand it a message, get its reply."""

import asyncio
from tempfile import TemporaryDirectory

from nacre import Agent, Inbound


async def main(state_dir: str) -> None:
    async with Agent.open(state_dir=state_dir) as agent:
        for text in ("Remember that my boat is called Halcyon.", "What is my boat called?"):
            reply = await agent.respond(Inbound(text=text, chat_kind="direct", is_owner=True))
            print(reply.text if reply else "(the assistant stays silent)")


# Without `state_dir`, the agent stores everything in ~/.nacre, as `nacre chat` does.
with TemporaryDirectory() as folder:
    asyncio.run(main(folder))
