"""A chat command of your own: who may use it, where, and what it does to the chat's session."""

import asyncio
from tempfile import TemporaryDirectory

from nacre import Agent, CommandContext, Inbound, command

HIVES = {"garden": 12.5, "orchard": 31.0}


@command("honey", help="what a hive has", arguments="hive", who="anyone", where=("private", "group"))
async def honey(run: CommandContext) -> str:
    if run.text not in HIVES:
        return f"There is no hive {run.text!r}. The hives are: {', '.join(HIVES)}."
    return f"{HIVES[run.text]} kg"


@command("again", help="ask the last question once more")
async def again(run: CommandContext) -> str | None:
    turns = await run.session.turns(limit=1)
    if not turns:
        return "Nothing has been asked yet."
    await run.session.rewind(turns[0], note="The owner wants another answer.")
    reply = await run.session.ask(turns[0].text)
    return reply.text if reply else None


async def main(state_dir: str) -> None:
    async with Agent.open(state_dir=state_dir, commands=[honey, again]) as agent:
        for text in ("/honey garden", "Remember that the queen is called Bea.", "/again", "/help"):
            reply = await agent.ask(text)
            print(reply.text if reply else "(the assistant stays silent)")
        guest = Inbound(text="/honey orchard", chat_kind="group", chat_id="club", sender_id="eve")
        reply = await agent.respond(guest)
        print(reply.text if reply else "(the assistant stays silent)")


with TemporaryDirectory() as folder:
    asyncio.run(main(folder))
