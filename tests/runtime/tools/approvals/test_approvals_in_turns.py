"""Calls that the owner has to approve: while the turn waits, and after it has gone on."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from nacre import Ask, BeforeTool, Deny
from nacre.memory.files.proposals import ReviewQueue
from nacre.runtime.contracts.errors import ApprovalNotFound
from nacre.runtime.contracts.events import ApprovalAsked, ReplyReady, ToolEnded
from nacre.runtime.contracts.inbound import Quoted
from nacre.runtime.models.scripted import Clock, ScriptedModel, calls, says
from nacre.sessions.contracts.messages import ToolResultMessage, message_text
from tests.faults.apart.poisoned_home import Home
from tests.runtime.agents import START, events_of, opened, said, transcript_file
from tests.runtime.tools.approvals.approving import answered, approvals_on_disk, paid, paying, waiting_for

PAY = ("pay", {"euros": 5, "to": "Ann"})


async def test_an_approved_call_runs_in_the_turn_that_asked(tmp_path: Path) -> None:
    """The question is on disk before it is asked; afterwards nothing of it is left."""
    log, model = tmp_path / "paid", ScriptedModel(calls(PAY), says("done"))
    async with opened(tmp_path, model, tools=[paying(log)]) as agent:
        stream = agent.stream(said("pay"))
        async for event in stream:
            if isinstance(event, ApprovalAsked):
                [stored] = approvals_on_disk(tmp_path)
                assert (stored["id"], stored["state"]) == (event.approval_id, "asked")
                assert stored["arguments"] == dict(event.arguments) == PAY[1]
                [file] = (tmp_path / "agents/main/approvals").glob("*.json")
                assert stat.S_IMODE(file.stat().st_mode) == 0o600
                assert paid(log) == []
                assert [each.id for each in await agent.approvals.list()] == [event.approval_id]
                assert await agent.approvals.approve(event.approval_id) is None

    assert paid(log) == ["5 to Ann"]
    assert message_text(model.requests[-1].messages[-1]) == "paid 5 to Ann"
    assert approvals_on_disk(tmp_path) == []


async def test_a_denied_call_does_not_run_and_the_model_reads_why(tmp_path: Path) -> None:
    """The reason is the owner's own."""
    log, model = tmp_path / "paid", ScriptedModel(calls(PAY), says("I see."))
    async with opened(tmp_path, model, tools=[paying(log)]) as agent:
        events = await answered(agent, said("pay"), "Too much.")

    assert "Too much." in message_text(model.requests[-1].messages[-1])
    assert paid(log) == []
    assert approvals_on_disk(tmp_path) == []
    assert isinstance(events[-1], ReplyReady)


@pytest.mark.parametrize(
    ("declared", "asks"),
    [
        ({"needs_approval": lambda euros, to: euros > 4}, True),
        ({"needs_approval": lambda euros, to: euros > 5}, False),
        ({"needs_approval": lambda euros, to: f"{to} is new." if to == "Ann" else ""}, True),
        ({"needs_approval": lambda missing: False}, True),
    ],
)
async def test_a_tool_can_decide_by_its_arguments(
    tmp_path: Path, declared: dict[str, object], asks: bool
) -> None:
    """A yes, a reason, a no; one that cannot tell asks."""
    log, model = tmp_path / "paid", ScriptedModel(calls(PAY), says("done"))
    async with opened(tmp_path, model, tools=[paying(log, **declared)]) as agent:
        events = await answered(agent, said("pay"), "yes")

    questions = [event for event in events if isinstance(event, ApprovalAsked)]
    assert bool(questions) is asks
    assert paid(log) == ["5 to Ann"]


async def test_a_hook_can_ask_and_a_no_outweighs_it(tmp_path: Path) -> None:
    """The owner is told why; a later handler that denies is not asked about."""
    log, model = tmp_path / "paid", ScriptedModel(calls(PAY), says("one"), calls(PAY), says("two"))
    denies = False

    def asks(_event: BeforeTool) -> Ask:
        return Ask("Money leaves the house.")

    def no(_event: BeforeTool) -> Deny | None:
        return Deny("Not on Sundays.") if denies else None

    tool = paying(log, needs_approval=False)
    async with opened(tmp_path, model, tools=[tool], hooks={"before_tool": [asks, no]}) as agent:
        first = await answered(agent, said("pay"), "yes")
        denies = True
        second = await answered(agent, said("pay"), "yes")

    assert [event.why for event in first if isinstance(event, ApprovalAsked)] == ["Money leaves the house."]
    assert [event for event in second if isinstance(event, ApprovalAsked)] == []
    assert message_text(model.requests[-1].messages[-1]) == "Not run: Not on Sundays."
    assert paid(log) == ["5 to Ann"]


async def test_the_owner_answers_in_the_chat_while_the_turn_waits(tmp_path: Path) -> None:
    """`/approve` is heard although the turn holds the lane; alone it lists what waits."""
    log, model = tmp_path / "paid", ScriptedModel(calls(PAY), says("done"))
    async with opened(tmp_path, model, tools=[paying(log)], ids="aaaa") as agent:
        answers: list[str] = []
        async for event in agent.stream(said("pay")):
            if isinstance(event, ApprovalAsked):
                for text in ("/approve", "/approve ffff", f"/approve {event.approval_id[:6]}"):
                    reply = await agent.respond(said(text))
                    answers.append("" if reply is None else reply.text)

    assert "  pay in agent:main:main: 'pay' needs your approval." in answers[0]
    assert answers[1].startswith("No call waits for approval as 'ffff'.")
    assert paid(log) == ["5 to Ann"]


async def test_only_the_owner_answers_and_only_where_they_may(tmp_path: Path) -> None:
    """Not others in the group, not the owner in another group; in private they may."""
    log, model = tmp_path / "paid", ScriptedModel(calls(PAY), says("words"), says("more words"), says("done"))
    waiting_for(tmp_path, 0)
    bees = {"chat_kind": "group", "channel": "telegram", "chat_id": "-1"}
    async with opened(tmp_path, model, tools=[paying(log)]) as agent:
        await agent.respond(said("pay", is_owner=False, **bees))
        [asked] = await agent.approvals.list()
        # To others these are words, which the model answers.
        await agent.respond(said(f"/approve {asked.id}", is_owner=False, **bees))
        elsewhere = await agent.respond(said(f"/approve {asked.id}", **{**bees, "chat_id": "-2"}))
        assert elsewhere is not None
        assert paid(log) == []
        [found] = await agent.approvals.list()
        reply = await agent.respond(said(f"/approve {found.id}"))

    assert reply is not None
    assert (reply.text, reply.session_key) == ("done", "agent:main:telegram:group:-1")
    assert paid(log) == ["5 to Ann"]
    # What ran for the group ran under the group's policy: its own tools, which see its own notes alone.
    first, last = (model.requests[number] for number in (0, -1))
    assert last.tools == first.tools
    assert last.system.stable == first.system.stable


async def test_a_call_is_approved_after_the_turn_went_on(tmp_path: Path) -> None:
    """Its result then reaches the model as data, in a turn of its own, and the owner gets the reply."""
    log = tmp_path / "paid"
    model = ScriptedModel(calls(PAY), says("It waits."), says("Five euros are paid."))
    waiting_for(tmp_path, 0)
    async with opened(tmp_path, model, tools=[paying(log)]) as agent:
        await agent.ask("pay")
        result = message_text(model.requests[1].messages[-1])
        [asked] = await agent.approvals.list()
        assert asked.id in result
        assert paid(log) == []
        events = await events_of(agent, said(f"/approve {asked.id}"))
        with pytest.raises(ApprovalNotFound):
            await agent.approvals.approve(asked.id)

    assert isinstance(events[-1], ReplyReady)
    assert events[-1].reply.text == "Five euros are paid."
    assert [event.tool_name for event in events if isinstance(event, ToolEnded)] == ["pay"]
    told = message_text(model.requests[-1].messages[-1])
    assert '> {"euros": 5, "to": "Ann"}' in told
    assert told.endswith("> paid 5 to Ann")
    assert paid(log) == ["5 to Ann"]


@pytest.mark.parametrize("answer", ["approve", "deny"])
async def test_a_call_is_answered_after_a_restart(tmp_path: Path, answer: str) -> None:
    """By another process too: the owner hears of it at the start, the call runs once, a denial is told."""
    log = tmp_path / "paid"
    waiting_for(tmp_path, 0)
    first = ScriptedModel(calls(PAY), says("It waits."))
    async with opened(tmp_path, first, tools=[paying(log)]) as agent:
        await agent.ask("pay")

    second = ScriptedModel(says("I see."))
    async with opened(tmp_path, second, tools=[paying(log)], ids="after-") as agent:
        [asked] = await agent.approvals.list()
        assert any(asked.id in notice for notice in agent.notices)
        if answer == "approve":
            reply = await agent.approvals.approve(asked.id)
        else:
            await agent.approvals.deny(asked.id, "Never.")
            reply = await agent.ask("and?")

    assert reply is not None
    assert reply.text == "I see."
    texts = [message_text(message) for message in second.requests[-1].messages]
    if answer == "approve":
        assert texts[-1].endswith("> paid 5 to Ann")
        assert paid(log) == ["5 to Ann"]
    else:
        assert texts[-1] == "and?"
        assert texts[-2].endswith("Never.")
        assert paid(log) == []
    assert approvals_on_disk(tmp_path) == []


async def test_nobody_answers_in_time(tmp_path: Path) -> None:
    """The call can be approved no more, and the model is told with the next words."""
    log, clock = tmp_path / "paid", Clock(START)
    model = ScriptedModel(calls(PAY), says("It waits."), says("I see."))
    waiting_for(tmp_path, 0, expireHours=0.2)
    async with opened(tmp_path, model, tools=[paying(log)], clock=clock) as agent:
        await agent.ask("pay")
        [asked] = await agent.approvals.list()
        clock.advance(minutes=12)
        with pytest.raises(ApprovalNotFound):
            await agent.approvals.approve(asked.id)
        await agent.ask("and?", session="agent:main:main")

    texts = [message_text(message) for message in model.requests[-1].messages]
    assert any("the owner did not answer in time" in text for text in texts)
    assert paid(log) == []
    assert approvals_on_disk(tmp_path) == []


async def test_two_calls_wait_side_by_side_and_others_run(tmp_path: Path) -> None:
    """Each is answered by itself, and their results stand in the order of the calls."""
    log = tmp_path / "paid"
    other = ("pay", {"euros": 7, "to": "Bob"})
    model = ScriptedModel(calls(PAY, ("list", {}), other), says("done"))
    async with opened(tmp_path, model, tools=[paying(log)]) as agent:
        async for event in agent.stream(said("pay")):
            if isinstance(event, ApprovalAsked) and event.arguments["to"] == "Ann":
                await agent.approvals.deny(event.approval_id)
            elif isinstance(event, ApprovalAsked):
                await agent.approvals.approve(event.approval_id)

    results = [
        message_text(message)
        for message in model.requests[-1].messages
        if isinstance(message, ToolResultMessage)
    ]
    assert [text.partition(" ")[0] for text in results[::2]] == ["Not", "paid"]
    assert paid(log) == ["7 to Bob"]


async def test_an_approval_that_cannot_be_read_is_set_aside(tmp_path: Path) -> None:
    """It stops no turn, and nothing of it is lost or run."""
    folder = tmp_path / "agents/main/approvals"
    folder.mkdir(parents=True)
    (folder / "0badf00d.json").write_text('{"version": 9}', encoding="utf-8")
    model = ScriptedModel(says("hello"))
    async with opened(tmp_path, model) as agent:
        assert await agent.approvals.list() == ()
        await agent.ask("hi")

    [aside] = folder.iterdir()
    assert aside.name.startswith("0badf00d.json.corrupt-")
    assert transcript_file(tmp_path).exists()


async def test_an_approved_write_does_not_wait_for_a_review(tmp_path: Path) -> None:
    """Behind words of others, an owner who confirms a call is asked once; the line is theirs then."""
    home = Home(
        tmp_path,
        {
            "memory": {"facts": {"enabled": True}},
            "tools": {"rules": {name: {"confirm": True} for name in ("append", "memory_set_fact")}},
        },
    )
    queue = ReviewQueue(tmp_path / "agents/main/proposals", lock_dir=tmp_path / "locks")
    eve = Quoted(text="Hello.", kind="forward", said_by="Eve")
    home.model.owners = (
        ("append", {"path": "USER.md", "text": "- The owner keeps bees.\n"}),
        ("memory_set_fact", {"key": "pet", "value": "a newt"}),
    )
    async with home.agent() as agent:
        await answered(agent, said("I keep bees, and a newt is my pet.", quoted=(eve,)), "yes")
        assert "The owner keeps bees." in (home.workspace / "USER.md").read_text()
        assert "a newt" in (home.workspace / "memory/facts.md").read_text()
        assert await queue.waiting() == ()
        await agent.respond(said("/new"))
        home.model.prompts.clear()
        await agent.respond(said("Good morning."))
    assert "The owner keeps bees." in home.model.prompts[-1]
