"""A hook that guards a tool, and a call that the owner approves. The model is a script: this runs offline."""

import asyncio
from tempfile import TemporaryDirectory

from nacre import Agent, ApprovalAsked, BeforeTool, Deny, Inbound, ReplyReady, tool
from nacre.testing import ScriptedModel, calls, says


@tool(needs_approval=True)
async def pay(euros: int, to: str) -> str:
    """Pays somebody."""
    return f"paid {euros} to {to}"


async def guard(event: BeforeTool) -> Deny | None:
    if event.tool_name == "pay" and event.arguments["euros"] > 100:
        return Deny("More than 100 euros are never paid here.")
    return None


async def main(state_dir: str) -> None:
    model = ScriptedModel(
        calls(("pay", {"euros": 500, "to": "Bob"}), ("pay", {"euros": 5, "to": "Ann"})),
        says("Ann got 5 euros."),
    )
    async with Agent.open(
        state_dir=state_dir, model=model, tools=[pay], hooks={"before_tool": guard}
    ) as agent:
        message = Inbound(text="Pay Ann and Bob.", chat_kind="direct", is_owner=True)
        async for event in agent.stream(message):
            if isinstance(event, ApprovalAsked):
                print("may it?", event.tool_name, dict(event.arguments))
                await agent.approvals.approve(event.approval_id)
            elif isinstance(event, ReplyReady):
                print(event.reply.text)


with TemporaryDirectory() as folder:
    asyncio.run(main(folder))
