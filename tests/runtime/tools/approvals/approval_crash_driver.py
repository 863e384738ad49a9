"""Run by `test_approval_crash.py`: kills a child before every write around calls that the owner approves.

The child's owner approves one call while its turn waits, and another one afterwards. The parent then opens
the state folder again, approves what still waits, and says something. One JSON line an attempt on stdout.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[4]))

from nacre.runtime.contracts.events import ApprovalAsked
from nacre.runtime.contracts.model import ModelRequest
from nacre.runtime.models.scripted import ScriptedModel, ScriptedStep, calls, says
from nacre.sessions.contracts.messages import AssistantMessage, ToolResultMessage, message_text
from tests.faults.crash_driver import at_each_write, count_writes
from tests.faults.drivers import forked
from tests.runtime.agents import opened, said, user_texts
from tests.runtime.tools.approvals.approving import approvals_on_disk, paid, paying, waiting_for

FIRST = ("pay", {"euros": 5, "to": "Ann"})
SECOND = ("pay", {"euros": 7, "to": "Bob"})


async def talk(state_dir: Path, kill_before: int) -> None:
    """Two payments: one is approved in its turn, one behind it."""
    log = state_dir / "paid"
    model = ScriptedModel(calls(FIRST), says("one"), calls(SECOND), says("two"), says("three"))
    async with opened(state_dir, model, tools=[paying(log)]) as agent:
        count_writes(kill_before, state_dir)
        async for event in agent.stream(said("pay Ann")):
            if isinstance(event, ApprovalAsked):
                await agent.approvals.approve(event.approval_id)
        async for event in agent.stream(said("pay Bob")):
            if isinstance(event, ApprovalAsked):
                asked = event.approval_id
        await agent.approvals.approve(asked)


async def gone_on(state_dir: Path) -> str:
    """Opens the folder again and goes on; a sentence when anything is wrong with it."""
    log, told, mended = state_dir / "paid", [], []

    def look(request: ModelRequest) -> None:
        told[:] = [message_text(message) for message in request.messages]
        mended[:] = orphans(request)

    steps: list[ScriptedStep] = [says("back", check=look) for _ in range(4)]
    waiting_for(state_dir, 0)
    async with opened(state_dir, ScriptedModel(*steps), tools=[paying(log)], ids="after-") as agent:
        for approval in await agent.approvals.list():
            await agent.approvals.approve(approval.id)
        reply = await agent.respond(said("back?"))
        waiting = await agent.approvals.list()
    if reply is None or reply.text != "back":
        return f"the session did not go on: {reply}"
    if waiting or approvals_on_disk(state_dir):
        return f"a call is left: {waiting}, {approvals_on_disk(state_dir)}"
    made = paid(log)
    if len(set(made)) != len(made):
        return f"a payment was made twice: {made}"
    if mended:
        return f"calls without a result: {mended}"
    for call in (FIRST, SECOND):
        to = call[1]["to"]
        texts = "\n".join(told)
        is_asked = any(each.startswith(f"pay {to}") for each in told)
        was_made = any(each.endswith(f"to {to}") for each in made)
        is_told = f"paid {call[1]['euros']} to {to}" in texts or "It may have done its work" in texts
        if is_asked and was_made and not is_told:
            return f"the model was not told of {made}: {told}"
    return ""


def orphans(request: ModelRequest) -> list[str]:
    """Calls in a request that no result follows."""
    results = {message.tool_call_id for message in request.messages if isinstance(message, ToolResultMessage)}
    asked = [
        call.id
        for message in request.messages
        if isinstance(message, AssistantMessage)
        for call in message.tool_calls
    ]
    return [call_id for call_id in asked if call_id not in results]


def attempt(state_dir: Path, kill_before: int) -> dict[str, object]:
    """One child, killed before one write, and what became of its calls."""
    # The second call is approved once its turn has gone on, which is soon.
    waiting_for(state_dir, 0.6)
    _, status = forked(lambda _tell: talk(state_dir, kill_before))
    problem = asyncio.run(gone_on(state_dir))
    files = list((state_dir / "agents/main/sessions").glob("*.jsonl"))
    texts = [text for file in files for text in user_texts(file)]
    return {
        "kill_before": kill_before,
        "killed": os.WIFSIGNALED(status),
        "problem": problem or ("" if len(set(texts)) == len(texts) else f"said twice: {texts}"),
        "paid": paid(state_dir / "paid"),
    }


if __name__ == "__main__":
    at_each_write(Path(sys.argv[1]), attempt)
