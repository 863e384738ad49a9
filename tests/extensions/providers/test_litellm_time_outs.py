"""What takes too long is ended: a tool call, and a whole turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from nacre.runtime.contracts.errors import TurnTimedOut
from nacre.runtime.contracts.model import ModelRequest, TextDelta
from nacre.runtime.models.scripted import Clock, ScriptedModel, says
from nacre.runtime.tools.toolbox import CallScope, Tool, ToolArguments, Toolbox, ToolOutput
from nacre.runtime.turn.loop import paused
from nacre.sessions.contracts.messages import AssistantMessage, ToolCall, message_text
from tests.runtime.agents import entries, opened, said, transcript_file, user_texts, write_settings


class Falters:
    """Begins its first answer and never ends it."""

    name = "own/model"
    context_window_tokens = 128_000

    def __init__(self) -> None:
        self.left = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | AssistantMessage]:
        """Says three words, then nothing."""
        try:
            yield TextDelta(text="The hive needs")
            await asyncio.Event().wait()
        finally:
            self.left.set()

    async def aclose(self) -> None:
        """Nothing to release."""


async def test_a_turn_that_takes_too_long_is_ended_and_its_words_are_kept(tmp_path: Path) -> None:
    """What the model had said stands in the transcript as broken off, and the next turn goes on."""
    write_settings(tmp_path, {"agents": {"defaults": {"timeoutSeconds": 1.5}}})
    model = Falters()
    async with opened(tmp_path, model) as agent:
        with pytest.raises(TurnTimedOut, match=r"after 1\.5 seconds"):
            await agent.respond(said("what does the hive need?"))
        assert model.left.is_set()
    last = entries(transcript_file(tmp_path))[-1]["message"]
    assert (last["stopReason"], last["content"][0]["text"]) == ("aborted", "The hive needs")

    write_settings(tmp_path, {})
    next_model = ScriptedModel(says("Sugar."))
    async with opened(tmp_path, next_model, ids="second-") as agent:
        await agent.respond(said("go on"))
    asked, broken_off, changed, again = map(message_text, next_model.requests[0].messages)
    assert (asked, broken_off, again) == ("what does the hive need?", "The hive needs", "go on")
    assert "Model: scripted/model" in changed
    assert user_texts(transcript_file(tmp_path)) == ["what does the hive need?", "go on"]


async def test_making_room_does_not_count_against_a_turns_time() -> None:
    """The deadline stands still meanwhile; what was left of it is left afterwards, also after a failure."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(60) as deadline:
        await asyncio.sleep(0)
        before = deadline.when()
        with suppress(ValueError), paused(deadline):
            assert deadline.when() is None
            raise ValueError
        after = deadline.when()
        assert before is not None
        assert after is not None
        assert before <= after <= loop.time() + 60


async def test_a_tool_that_takes_too_long_is_stopped_and_the_model_is_told() -> None:
    """The call gets an error result that says so; a tool's own time-out stays that tool's failure."""
    stopped = asyncio.Event()

    async def hangs(_: ToolArguments, _scope: CallScope) -> ToolOutput:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        raise AssertionError

    async def fails(_: ToolArguments, _scope: CallScope) -> ToolOutput:
        raise TimeoutError("the printer is off")

    tools = [
        Tool(name="hangs", description="", arguments=ToolArguments, run=hangs),
        Tool(name="fails", description="", arguments=ToolArguments, run=fails),
    ]
    toolbox = Toolbox(tools, now_ms=Clock().now_ms, timeout_seconds=0.05)
    late = await toolbox.run(ToolCall(id="1", name="hangs"))
    failed = await toolbox.run(ToolCall(id="2", name="fails"))

    assert stopped.is_set()
    assert late.message.is_error
    assert "stopped after 0.05 seconds" in message_text(late.message)
    assert failed.message.is_error
    assert "the printer is off" in message_text(failed.message)
