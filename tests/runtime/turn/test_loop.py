"""The loop of model and tools, its limits, and sub-agents as tools."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nacre import Agent, SubAgent, UsageLimits, sub_agent, tool
from nacre.runtime.contracts.errors import (
    ConfigError,
    ContextOverflow,
    ModelUnavailable,
    TurnCancelled,
    UsageLimitReached,
)
from nacre.runtime.contracts.events import (
    AnswerDiscarded,
    Event,
    ReplyReady,
    TextStreamed,
    ToolEnded,
    ToolStarted,
    TurnFailed,
)
from nacre.runtime.contracts.model import ModelRequest, SystemPrompt
from nacre.runtime.contracts.policy import ChatPolicy
from nacre.runtime.models.failover import stream_with_retries
from nacre.runtime.models.scripted import Clock, ScriptedModel, ScriptedStep, calls, fails, says
from nacre.runtime.tools.toolbox import CallScope, Tool, ToolArguments, Toolbox, ToolFailed, ToolOutput
from nacre.runtime.turn.loop import StepLimitReached, run_loop
from nacre.runtime.turn.sub_agent import MOST_DEPTH
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Message,
    ToolResultMessage,
    Usage,
    message_text,
    user_message,
)
from tests.runtime.agent.test_stopping import assert_paired
from tests.runtime.agents import entries, opened, said, transcript_file


class Wait(ToolArguments):
    """Arguments of the test tool: which gate to wait for and which to open."""

    name: str
    after: str = ""


class Memory:
    """A conversation kept in a list; `room` says whether an overflow can be helped."""

    def __init__(self, *, room: bool = True) -> None:
        self.messages: list[Message] = [user_message("go", timestamp_ms=1)]
        self.made_room = 0
        self._room = room

    async def request(self) -> ModelRequest:
        return ModelRequest(system=SystemPrompt(stable="s"), messages=tuple(self.messages))

    async def make_room(self, overflow: ContextOverflow, /) -> bool:
        self.made_room += 1
        return self._room and self.made_room == 1

    async def record(self, message: Message) -> None:
        self.messages.append(message)

    async def set_aside(self, answer: AssistantMessage) -> None:
        """Nobody looks at it."""

    async def record_joined_messages(self) -> None:
        """Nobody says anything while tools run."""

    def now_ms(self) -> int:
        return 2

    def results(self) -> list[tuple[str, bool, str]]:
        return [
            (message.tool_call_id, message.is_error, message_text(message))
            for message in self.messages
            if isinstance(message, ToolResultMessage)
        ]


def gate_tool(finished: list[str]) -> Tool:
    """A tool whose call ends only after the call named `after` has ended."""
    gates: dict[str, asyncio.Event] = {}

    def gate(name: str) -> asyncio.Event:
        return gates.setdefault(name, asyncio.Event())

    async def run(arguments: Wait, _scope: CallScope) -> ToolOutput:
        if arguments.after:
            await gate(arguments.after).wait()
        finished.append(arguments.name)
        gate(arguments.name).set()
        if arguments.name == "broken":
            raise ZeroDivisionError("by zero")
        if arguments.name == "refused":
            raise ToolFailed("No such thing. Name another.")
        return ToolOutput(text=f"did {arguments.name}")

    return Tool(name="wait", description="waits", arguments=Wait, run=run)


async def run(
    model: ScriptedModel, memory: Memory, *, finished: list[str] | None = None, max_steps: int = 5
) -> tuple[AssistantMessage, list[Event]]:
    events: list[Event] = []
    toolbox = Toolbox([gate_tool([] if finished is None else finished)], now_ms=Clock().now_ms)
    answer = await run_loop(
        memory, ask=model.stream, toolbox=toolbox, emit=events.append, max_steps=max_steps
    )
    model.assert_complete()
    return answer, events


@pytest.mark.covers("A17-1")
async def test_parallel_calls_run_together_and_are_answered_in_order() -> None:
    """The first call waits for the second, and its result still stands first."""
    model = ScriptedModel(
        calls(("wait", {"name": "first", "after": "second"}), ("wait", {"name": "second"})), says("done")
    )
    memory, finished = Memory(), []

    answer, events = await run(model, memory, finished=finished)

    assert finished == ["second", "first"]
    assert [text for _, _, text in memory.results()] == ["did first", "did second"]
    assert message_text(answer) == "done"
    kinds = [type(event) for event in events]
    assert kinds.count(ToolStarted) == kinds.count(ToolEnded) == 2
    assert [event.result for event in events if isinstance(event, ToolEnded)] == ["did second", "did first"]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (("nothing", {}), "There is no tool named 'nothing'. The tools here are: wait."),
        (("wait", {}), "The arguments of 'wait' do not fit: name: Field required."),
        (("wait", {"name": "x", "colour": "red"}), "colour: Extra inputs are not permitted"),
        (("wait", {"name": "refused"}), "No such thing. Name another."),
        (("wait", {"name": "broken"}), "The tool 'wait' failed: ZeroDivisionError: by zero"),
    ],
)
@pytest.mark.covers("A17-5")
async def test_a_call_that_goes_wrong_is_an_error_result_and_the_turn_goes_on(
    call: tuple[str, dict[str, str]], expected: str
) -> None:
    """Unknown tool, bad arguments, refusal and crash: the model reads a sentence and answers."""
    memory = Memory()

    answer, _ = await run(ScriptedModel(calls(call), says("I see.")), memory)

    [(_, is_error, text)] = memory.results()
    assert is_error
    assert expected in text
    assert message_text(answer) == "I see."


async def test_after_the_last_step_calls_are_refused_and_one_answer_is_asked_for() -> None:
    """A turn is bounded, and the model learns why its call was not run."""
    memory = Memory()
    call = calls(("wait", {"name": "again"}))

    answer, _ = await run(ScriptedModel(call, call, says("enough")), memory, max_steps=2)

    assert [is_error for _, is_error, _ in memory.results()] == [False, True]
    assert "steps are used up" in memory.results()[1][2]
    assert message_text(answer) == "enough"


async def test_a_model_that_never_stops_calling_is_stopped() -> None:
    """The turn ends with an error, not with an endless bill."""
    call = calls(("wait", {"name": "again"}))
    with pytest.raises(StepLimitReached, match="after 1 steps"):
        await run(ScriptedModel(call, call), Memory(), max_steps=1)


async def test_an_overflow_makes_room_and_asks_once_more() -> None:
    """The second request succeeds, and the failed one leaves no message."""
    memory = Memory()

    answer, _ = await run(ScriptedModel(fails(ContextOverflow("too long")), says("fits")), memory)

    assert memory.made_room == 1
    assert [type(message).__name__ for message in memory.messages] == ["UserMessage", "AssistantMessage"]
    assert message_text(answer) == "fits"


async def test_an_overflow_without_room_is_the_callers() -> None:
    """Nothing is tried twice when nothing was gained."""
    with pytest.raises(ContextOverflow):
        await run(ScriptedModel(fails(ContextOverflow("too long"))), Memory(room=False))


async def test_what_was_said_before_a_failure_is_recorded() -> None:
    """A provider that dies leaves an error message in the transcript, and the error reaches the caller."""
    memory = Memory()
    with pytest.raises(ModelUnavailable):
        await run(ScriptedModel(fails(ModelUnavailable("gone"))), memory)
    last = memory.messages[-1]
    assert isinstance(last, AssistantMessage)
    assert (last.stop_reason, last.error_message) == ("error", "gone")


async def test_the_silent_token_is_not_streamed() -> None:
    """Text flows as events; the token does not."""
    _, events = await run(ScriptedModel(says("NO_REPLY")), Memory())
    assert [event for event in events if isinstance(event, TextStreamed)] == []


async def test_nothing_of_an_answer_that_broke_off_is_streamed_with_the_next() -> None:
    """Not even what was held back, because it might have become the token."""
    model = ScriptedModel(fails(ModelUnavailable("gone"), after_text="Well, NO_RE"), says("Hello."))
    events: list[Event] = []

    async def at_once(_seconds: float) -> None:
        """The provider is back."""

    await run_loop(
        Memory(),
        ask=lambda request: stream_with_retries(model, request, sleep=at_once, on_retry=lambda *_told: None),
        toolbox=Toolbox([], now_ms=Clock().now_ms),
        emit=events.append,
        max_steps=1,
    )
    [place] = [place for place, event in enumerate(events) if isinstance(event, AnswerDiscarded)]
    assert "".join(event.text for event in events[place:] if isinstance(event, TextStreamed)) == "Hello."


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
    async with opened(state_dir, model, tools=tools, limits=limits) as agent:
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


@tool
def depth(harbour: str) -> str:
    """How deep a harbour is."""
    return f"{harbour}: 4 m"


def scout(**changes: Any) -> SubAgent:
    """A sub-agent that looks up depths."""
    given: dict[str, Any] = {
        "name": "scout",
        "description": "Finds out facts about harbours.",
        "instructions": "Give the depth in metres.",
        "tools": [depth],
    }
    return sub_agent(**{**given, **changes})


WRONG: Sequence[tuple[dict[str, Any], str]] = (
    ({"name": "two words"}, "is not a valid tool name"),
    ({"description": " "}, "no description"),
    ({"instructions": ""}, "no instructions"),
    ({"tools": [depth, depth]}, "two tools named 'depth'"),
    ({"tools": [lambda harbour: harbour]}, "is not a valid tool name"),
    ({"model": "small"}, "provider/model"),
    ({"chats": ("everywhere",)}, "chats="),
)


@pytest.mark.parametrize(("changes", "told"), WRONG, ids=[told for _, told in WRONG])
def test_what_cannot_be_one_is_refused(changes: dict[str, Any], told: str) -> None:
    """The error is a sentence about what to change."""
    with pytest.raises(TypeError, match=told):
        scout(**changes)


def test_three_may_stand_one_inside_the_other() -> None:
    """Nesting has an end, which is known before anything is said."""
    deepest = scout(tools=[scout(name="middle", tools=[scout(name="inner")])])

    assert deepest.depth == MOST_DEPTH == 3
    with pytest.raises(TypeError, match="4 deep"):
        scout(name="top", tools=[deepest])


def test_it_is_the_owners_alone_unless_it_says_so() -> None:
    """As with every tool, a group is offered nothing by accident."""

    async def work(_agent: SubAgent, task: str, _scope: CallScope) -> str:
        return task

    offered = scout().as_tool(work).is_offered
    assert offered(ChatPolicy(chat_kind="direct", is_owner=True, session_key_is_private=True))
    assert not offered(ChatPolicy(chat_kind="group", is_owner=True, session_key_is_private=False))
    assert not scout().notes
