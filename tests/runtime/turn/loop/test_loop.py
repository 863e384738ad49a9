"""The loop between model and tools, on a conversation that lives in memory."""

from __future__ import annotations

import asyncio

import pytest

from nacre.runtime.contracts.errors import ContextOverflow, ModelUnavailable
from nacre.runtime.contracts.events import Event, TextStreamed, ToolEnded, ToolStarted
from nacre.runtime.contracts.model import ModelRequest, SystemPrompt
from nacre.runtime.models.scripted import Clock, ScriptedModel, calls, fails, says
from nacre.runtime.tools.toolbox import CallScope, Tool, ToolArguments, Toolbox, ToolFailed, ToolOutput
from nacre.runtime.turn.loop.loop import StepLimitReached, run_loop
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Message,
    ToolResultMessage,
    message_text,
    user_message,
)


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

    async def take_in(self) -> None:
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
