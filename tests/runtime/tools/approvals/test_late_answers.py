"""Answers that come too late, calls that a sub-agent asks for, and what nothing to approve costs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from nacre import Agent, SubAgent, sub_agent
from nacre.runtime.contracts.errors import ApprovalNotFound
from nacre.runtime.contracts.events import ApprovalAsked, ReplyReady
from nacre.runtime.models.scripted import Clock, ScriptedModel, calls, says
from nacre.sessions.contracts.messages import message_text
from tests.runtime.agents import START, opened, said
from tests.runtime.tools.approvals.approving import answered, approvals_on_disk, paid, paying, waiting_for

PAY = ("pay", {"euros": 5, "to": "Ann"})
ERRAND = ("errand", {"task": "Pay Ann five euros."})


def errand(log: Path) -> SubAgent:
    """A sub-agent that pays, once the owner agrees."""
    return sub_agent(
        name="errand", description="Pays bills.", instructions="Pay what is asked.", tools=[paying(log)]
    )


async def words_of(agent: Agent, text: str, **inbound: Any) -> str:
    """What the owner reads as the answer."""
    reply = await agent.respond(said(text, **inbound))
    return "" if reply is None else reply.text


@pytest.mark.parametrize("word", ["approve", "deny"])
async def test_an_answer_in_the_chat_comes_too_late(tmp_path: Path, word: str) -> None:
    """When its time is up a call is neither run nor denied, and the owner reads why."""
    log, clock = tmp_path / "paid", Clock(START)
    model = ScriptedModel(calls(PAY), says("It waits."), says("I see."))
    waiting_for(tmp_path, 0, expireHours=0.2)
    async with opened(tmp_path, model, tools=[paying(log)], clock=clock) as agent:
        await agent.ask("pay")
        [asked] = await agent.approvals.list()
        clock.advance(minutes=12)
        told = await words_of(agent, f"/{word} {asked.id}")
        assert told.startswith(f"No call waits for approval as {asked.id!r}. It was answered, it expired")
        assert await words_of(agent, "and?") == "I see."

    assert paid(log) == []
    assert approvals_on_disk(tmp_path) == []


async def test_a_sub_agent_waits_for_the_owner(tmp_path: Path) -> None:
    """Whoever watches the caller is asked; the call runs in the sub-agent, and its words come back."""
    log = tmp_path / "paid"
    model = ScriptedModel(calls(ERRAND), calls(PAY), says("Ann has her money."), says("Done."))
    async with opened(tmp_path, model, tools=[errand(log)]) as agent:
        events = await answered(agent, said("Pay Ann."), "yes")

    [question] = [event for event in events if isinstance(event, ApprovalAsked)]
    assert (question.tool_name, dict(question.arguments)) == PAY
    assert paid(log) == ["5 to Ann"]
    assert message_text(model.requests[2].messages[-1]) == "paid 5 to Ann"
    assert message_text(model.requests[3].messages[-1]) == "Ann has her money."
    assert isinstance(events[-1], ReplyReady)
    assert approvals_on_disk(tmp_path) == []


async def test_a_sub_agent_that_went_on_takes_its_question_along(tmp_path: Path) -> None:
    """Nobody answers in time: the call cannot be approved behind its back, by code or in the chat."""
    log = tmp_path / "paid"
    model = ScriptedModel(calls(ERRAND), calls(PAY), says("Nobody answered."), says("It is not paid."))
    waiting_for(tmp_path, 0)
    async with opened(tmp_path, model, tools=[errand(log)]) as agent:
        stream = agent.stream(said("Pay Ann."))
        asked = [event.approval_id async for event in stream if isinstance(event, ApprovalAsked)]
        assert await agent.approvals.list() == ()
        with pytest.raises(ApprovalNotFound):
            await agent.approvals.approve(asked[0])
        assert (await words_of(agent, f"/approve {asked[0]}")).startswith("No call waits for approval")

    assert paid(log) == []


async def test_a_question_of_a_sub_agent_that_was_killed_is_refused(tmp_path: Path) -> None:
    """Its file is there still; approving it runs nothing, says what to do, and strikes it off."""
    log, folder = tmp_path / "paid", tmp_path / "agents/main/approvals"
    model = ScriptedModel(calls(ERRAND), calls(PAY), says("Nobody answered."), says("It is not paid."))
    waiting_for(tmp_path, 0)
    left: dict[str, bytes] = {}
    async with opened(tmp_path, model, tools=[errand(log)]) as agent:
        async for event in agent.stream(said("Pay Ann.")):
            if isinstance(event, ApprovalAsked):
                left = {path.name: path.read_bytes() for path in folder.glob("*.json")}
    folder.mkdir(exist_ok=True)
    for name, data in left.items():
        (folder / name).write_bytes(data)

    async with opened(tmp_path, ScriptedModel(), tools=[errand(log)], ids="after-") as agent:
        [asked] = await agent.approvals.list()
        with pytest.raises(ApprovalNotFound, match=r"The sub-agent that asked for pay has ended\. Ask"):
            await agent.approvals.approve(asked.id)
        assert await agent.approvals.list() == ()

    assert paid(log) == []


async def test_a_call_that_was_brought_back_runs_no_second_time(tmp_path: Path) -> None:
    """Its file comes from a backup or an older copy, and the conversation was told of it already."""
    log, folder = tmp_path / "paid", tmp_path / "agents/main/approvals"
    model = ScriptedModel(calls(PAY), says("It waits."), says("It is paid."))
    waiting_for(tmp_path, 0)
    async with opened(tmp_path, model, tools=[paying(log)]) as agent:
        await agent.ask("pay")
        left = {path.name: path.read_bytes() for path in folder.glob("*.json")}
        [asked] = await agent.approvals.list()
        await agent.approvals.approve(asked.id)
        assert paid(log) == ["5 to Ann"]
        folder.mkdir(exist_ok=True)
        for name, data in left.items():
            (folder / name).write_bytes(data)
        assert await agent.approvals.approve(asked.id) is None
        assert await agent.approvals.list() == ()

    assert paid(log) == ["5 to Ann"]


async def test_nothing_to_approve_lists_no_folder(tmp_path: Path) -> None:
    """The folder goes with its last file, so a turn looks once whether it is there, and no further."""
    log, folder = tmp_path / "paid", tmp_path / "agents/main/approvals"
    listed: list[str] = []

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if event in ("os.listdir", "os.scandir") and str(arguments[0]) == str(folder):
            listed.append(event)

    sys.addaudithook(watch)
    model = ScriptedModel(calls(PAY), says("done"), says("hello"))
    async with opened(tmp_path, model, tools=[paying(log)]) as agent:
        await answered(agent, said("pay"), "yes")
        assert not folder.exists()
        listed.clear()
        await agent.ask("hello")

    assert listed == []
