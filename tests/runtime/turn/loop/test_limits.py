"""What a turn may use up, and a stop that lets tools finish: one error each, and a legal transcript."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nacre import Agent, UsageLimits, tool
from nacre.runtime.contracts.errors import ConfigError, TurnCancelled, UsageLimitReached
from nacre.runtime.contracts.events import Event, ReplyReady, ToolEnded, ToolStarted, TurnFailed
from nacre.runtime.models.scripted import Clock, CountingIds, ScriptedModel, ScriptedStep, calls, says
from nacre.sessions.contracts.messages import ToolResultMessage, Usage, message_text
from tests.runtime.agent.test_stopping import assert_paired
from tests.runtime.agents import START, entries, said, transcript_file

SPENT = Usage(input_tokens=90, output_tokens=10, cost_usd=0.25)
STEP = calls(("list", {}), ("list", {}), usage=SPENT)


@asynccontextmanager
async def keeping(
    state_dir: Path,
    *steps: ScriptedStep,
    limits: UsageLimits | None = None,
    tools: tuple[Callable[..., Any], ...] = (),
) -> AsyncIterator[tuple[Agent, ScriptedModel]]:
    model = ScriptedModel(*steps)
    agent = await Agent.open(
        state_dir=state_dir,
        model=model,
        tools=tools,
        limits=limits,
        environment={"HOME": str(state_dir / "home")},
        clock=Clock(START),
        new_id=CountingIds(""),
        watch=False,
    )
    async with agent:
        yield agent, model


@pytest.mark.parametrize(
    ("limits", "asked", "named"),
    [
        (UsageLimits(model_calls=2), 2, "2 model calls"),
        (UsageLimits(tool_calls=3), 2, "3 tool calls"),
        (UsageLimits(tool_calls=1), 1, "1 tool calls"),
        (UsageLimits(tokens=150), 2, "150 tokens"),
        (UsageLimits(tokens=100), 1, "100 tokens"),
        (UsageLimits(cost_usd=0.5), 2, r"0\.5 US dollars"),
        (UsageLimits(model_calls=0), 0, "0 model calls"),
    ],
)
async def test_a_turn_ends_at_its_limit_and_the_session_goes_on(
    tmp_path: Path, limits: UsageLimits, asked: int, named: str
) -> None:
    """Each call of a tool has a result on disk, so that the next turn can be sent to any provider."""
    async with keeping(tmp_path, *[STEP] * asked, says("Here I am.")) as (agent, model):
        with pytest.raises(UsageLimitReached, match=f"used up its {named}"):
            await agent.ask("Look everywhere", limits=limits)
        reply = await agent.ask("still there?")
    model.assert_complete()

    assert reply is not None
    assert reply.text == "Here I am."
    assert_paired(model.requests[-1].messages)
    assert message_text(model.requests[-1].messages[0]) == "Look everywhere"
    assert len(model.requests) == asked + 1


async def test_calls_over_the_limit_are_not_run(tmp_path: Path) -> None:
    """Their results say why, and the index says that the turn was broken off."""
    rung: list[str] = []

    @tool
    def ring(bell: str) -> str:
        """Rings a bell."""
        rung.append(bell)
        return "ding"

    steps = (calls(("ring", {"bell": "a"})), calls(("ring", {"bell": "b"}), ("ring", {"bell": "c"})))
    async with keeping(tmp_path, *steps, says("Ok."), tools=(ring,)) as (agent, model):
        with pytest.raises(UsageLimitReached):
            await agent.ask("Ring", limits=UsageLimits(tool_calls=2))
        await agent.ask("Thanks")

    results = [item for item in model.requests[-1].messages if isinstance(item, ToolResultMessage)]
    assert rung == ["a"]
    assert [result.is_error for result in results] == [False, True, True]
    assert all("2 tool calls" in message_text(result) for result in results[1:])


async def test_the_agents_limits_hold_unless_the_turn_has_its_own(tmp_path: Path) -> None:
    """`Agent.open(limits=)` is the default; a turn that names others is not held by it."""
    async with keeping(tmp_path, STEP, STEP, says("Done."), limits=UsageLimits(model_calls=1)) as (agent, _):
        with pytest.raises(UsageLimitReached):
            await agent.ask("Look")
        reply = await agent.ask("Look again", limits=UsageLimits(model_calls=5))
    assert reply is not None
    assert reply.text == "Done."


async def test_a_turn_within_its_limits_is_not_touched(tmp_path: Path) -> None:
    """The answer that reaches a limit is the reply; limits end steps that are still to come."""
    limits = UsageLimits(tokens=200, model_calls=2, tool_calls=2, cost_usd=0.5)
    async with keeping(tmp_path, STEP, says("Done.", usage=SPENT)) as (agent, _):
        reply = await agent.ask("Look", limits=limits)
    assert reply is not None
    assert reply.text == "Done."


@pytest.mark.parametrize("name", ["tokens", "model_calls", "tool_calls", "cost_usd"])
def test_a_negative_limit_is_refused(name: str) -> None:
    """With its name and value."""
    with pytest.raises(ConfigError, match=rf"UsageLimits\({name}=-1\)"):
        UsageLimits(**{name: -1})


def slow_tools() -> tuple[asyncio.Event, asyncio.Event, Callable[..., Any]]:
    """A tool that tells when it began and waits for leave to end."""
    began, may_end = asyncio.Event(), asyncio.Event()

    @tool
    async def dig(where: str) -> str:
        """Digs a hole."""
        began.set()
        await may_end.wait()
        return f"a hole in the {where}"

    return began, may_end, dig


@pytest.mark.parametrize("by", ["message", "key"])
async def test_a_stop_can_wait_for_running_tools(tmp_path: Path, by: str) -> None:
    """They finish, their results are recorded, and the model is not asked again."""
    began, may_end, dig = slow_tools()
    steps = (calls(("dig", {"where": "garden"}), ("list", {})), says("Where were we?"))
    async with keeping(tmp_path, *steps, tools=(dig,)) as (agent, model):
        events: list[Event] = []

        async def listen() -> None:
            events.extend([event async for event in agent.stream(said("Dig"))])

        listening = asyncio.create_task(listen())
        await began.wait()
        assert agent.stop(said("") if by == "message" else "main", after="tools")
        await asyncio.to_thread(int)
        assert not listening.done()
        may_end.set()
        await listening
        assert len(model.requests) == 1
        await agent.ask("Go on")

    assert isinstance(events[-1], TurnFailed)
    assert isinstance(events[-1].error, TurnCancelled)
    assert str(events[-1].error).startswith("The turn was stopped after its tools were done.")
    assert sum(isinstance(event, ToolEnded) for event in events) == 2
    assert_paired(model.requests[-1].messages)
    results = [item for item in model.requests[-1].messages if isinstance(item, ToolResultMessage)]
    assert message_text(results[0]) == "a hole in the garden"
    assert not any(result.is_error for result in results)


async def test_a_second_stop_does_not_wait(tmp_path: Path) -> None:
    """Whoever has waited long enough for a tool stops the turn at once."""
    began, _, dig = slow_tools()
    async with keeping(tmp_path, calls(("dig", {"where": "garden"})), tools=(dig,)) as (agent, _):
        asking = asyncio.create_task(agent.ask("Dig"))
        await began.wait()
        assert agent.stop(after="tools")
        assert agent.stop(after="now")
        with pytest.raises(TurnCancelled, match=r"The turn was stopped\.$"):
            await asking


async def test_where_no_tool_runs_the_turn_stops_at_once(tmp_path: Path) -> None:
    """A model in the middle of its answer is not waited for; what it said is kept."""
    async with keeping(tmp_path, says("a long story " * 50)) as (agent, _):
        kinds: list[type[Event]] = []
        async for event in agent.stream(said("Tell me")):
            kinds.append(type(event))
            agent.stop(said(""), after="tools")
    assert kinds[-1] is TurnFailed
    assert ReplyReady not in kinds
    assert ToolStarted not in kinds
    assert entries(transcript_file(tmp_path))[-1]["message"]["stopReason"] == "aborted"


async def test_stopping_what_does_not_run_is_no_error(tmp_path: Path) -> None:
    """Neither an idle session, nor one that does not exist, nor a key that cannot be one."""
    async with keeping(tmp_path, says("Hello.")) as (agent, _):
        await agent.ask("Hi")
        assert [agent.stop(key) for key in ("", "main", "nobody", "a\nb")] == [False] * 4
