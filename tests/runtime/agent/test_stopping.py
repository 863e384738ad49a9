"""Stopping, abandoning and closing at any moment: one ending, a legal transcript, nothing left running."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from nacre import Agent
from nacre.runtime.contracts.errors import TurnCancelled
from nacre.runtime.contracts.events import Event, ReplyReady, Silence, TextStreamed, TurnFailed
from nacre.runtime.contracts.model import ModelRequest
from nacre.runtime.models.scripted import ScriptedModel, ScriptedStep, calls, says
from nacre.sessions.contracts.messages import AssistantMessage, Message, ToolResultMessage
from tests.runtime.agents import (
    LONG,
    events_of,
    opened,
    said,
    transcript_file,
    used,
    user_texts,
    window_settings,
    write_settings,
)


def whole_turn() -> list[ScriptedStep]:
    """Two short turns, then one with tools, a flush and a compaction of a split turn."""
    return [
        says("noted", usage=used(1_000)),
        says("noted", usage=used(3_000)),
        calls(
            ("append", {"path": "memory/a.md", "text": "- tea"}),
            ("list", {}),
            text="Let me see.",
            usage=used(13_500),
        ),
        calls(("append", {"path": "x", "text": "- flushed"}), purpose="flush"),
        says("NO_REPLY", purpose="flush"),
        says("## Goal\nBees", purpose="compaction"),
        says("three", usage=used(5_000)),
    ]


def assert_paired(messages: Sequence[Message]) -> None:
    """Each call is followed by its one result, as providers demand."""
    open_calls: list[str] = []
    for message in messages:
        if isinstance(message, ToolResultMessage):
            assert open_calls
            assert open_calls.pop(0) == message.tool_call_id
        else:
            assert open_calls == []
            if isinstance(message, AssistantMessage):
                open_calls = [call.id for call in message.tool_calls]
    assert open_calls == []


async def stopped_after(agent: Agent, naps: int) -> list[Event]:
    """The events of one turn that is stopped after the event loop went round `naps` times."""
    events: list[Event] = []

    async def listen() -> None:
        events.extend(await events_of(agent, said("ask: " + LONG)))

    listening = asyncio.create_task(listen())
    # Threads do the writing; each nap lets the loop and them get a little further.
    for _ in range(naps):
        await asyncio.to_thread(int)
        if listening.done():
            break
    agent.stop(said(""))
    await listening
    return events


def _is_of_memory(task: asyncio.Task[Any]) -> bool:
    """Whether a task runs code of the memory room."""
    return task.get_coro().cr_frame.f_globals["__name__"].startswith("nacre.memory.")


async def talked(state_dir: Path, naps: int) -> list[Event]:
    """A conversation whose third turn is stopped, checked for what it leaves behind."""
    write_settings(state_dir, window_settings())
    async with opened(state_dir, ScriptedModel(*whole_turn())) as agent:
        for number in range(2):
            await agent.respond(said(f"{number}: {LONG}"))
        before = asyncio.all_tasks()
        events = await stopped_after(agent, naps)
        await asyncio.to_thread(int)
        left = asyncio.all_tasks() - before
        # The index follows the files in the background, whatever becomes of a turn.
        assert [task for task in left if not _is_of_memory(task)] == []

    def look(request: ModelRequest) -> None:
        assert_paired(request.messages)

    write_settings(state_dir, window_settings(200_000))
    model = ScriptedModel(says("back", check=look, purpose="turn"))
    async with opened(state_dir, model, ids="after-") as agent:
        reply = await agent.respond(said("back?"))
    model.assert_complete()
    assert reply is not None
    said_words = [text[:5] for text in user_texts(transcript_file(state_dir))]
    assert said_words in (["0: Th", "1: Th", "ask: ", "back?"], ["0: Th", "1: Th", "back?"])
    return events


# aiofiles leaves a file that is being opened to the garbage collector when its opener is cancelled.
@pytest.mark.filterwarnings("ignore:Exception ignored in. <_io:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.slow
@pytest.mark.covers("A16-4", "A15-4", "A17-3")
async def test_a_turn_can_be_stopped_at_any_moment(tmp_path: Path) -> None:
    """In tools, flush, compaction and answer alike: one ending, and the session goes on."""
    for naps in itertools.count(1, step=13):
        events = await talked(tmp_path / str(naps), naps)
        endings = [event for event in events if isinstance(event, ReplyReady | Silence | TurnFailed)]
        assert endings == events[-1:], naps
        if isinstance(endings[0], ReplyReady):
            break
        assert isinstance(endings[0], TurnFailed)
        assert isinstance(endings[0].error, TurnCancelled)
    assert naps > 10


async def test_a_turn_that_is_stopped_before_its_first_step_says_so(tmp_path: Path) -> None:
    """A stop that comes at once is not taken for silence."""
    async with opened(tmp_path, ScriptedModel(says("never"))) as agent:
        responding = asyncio.create_task(agent.respond(said("hello")))
        stopping = asyncio.create_task(_stop(agent))
        with pytest.raises(TurnCancelled):
            await responding
        assert await stopping


async def _stop(agent: Agent) -> bool:
    return agent.stop(said(""))


async def test_an_abandoned_stream_stops_its_turn(tmp_path: Path) -> None:
    """Whoever closes the stream early gets the lane back at once, and the words are kept."""
    model = ScriptedModel(says("a long story " * 50), says("next"))
    async with opened(tmp_path, model) as agent:
        async with aclosing(agent.stream(said("tell me"))) as events:
            async for event in events:
                if isinstance(event, TextStreamed):
                    break
        assert agent.stop(said("")) is False
        reply = await agent.respond(said("shorter"))

    assert reply is not None
    assert reply.text == "next"
    assert user_texts(transcript_file(tmp_path)) == ["tell me", "shorter"]


@pytest.mark.covers("W15-1", "A15-4", "A17-3")
async def test_closing_ends_a_running_and_a_waiting_turn(tmp_path: Path) -> None:
    """Both are told, and nothing runs behind a closed agent."""
    async with opened(tmp_path, ScriptedModel(says("a long story " * 50))) as agent:
        before = asyncio.all_tasks()
        running = asyncio.create_task(events_of(agent, said("tell me")))
        waiting = asyncio.create_task(events_of(agent, said("and me")))
        await asyncio.to_thread(int)
        await agent.close()
        endings = [(await task)[-1] for task in (running, waiting)]
        left = asyncio.all_tasks() - before
        # The index follows the files in the background, whatever becomes of a turn.
        assert [task for task in left if not task.get_name().startswith("memory ")] == []

    assert all(isinstance(event, TurnFailed) for event in endings)
    assert all(isinstance(event.error, TurnCancelled) for event in endings if isinstance(event, TurnFailed))
