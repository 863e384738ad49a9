"""Limits and usage of turns."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from nacre.runtime.contracts.errors import ContextOverflow
from nacre.runtime.contracts.events import CompactionEnded, ReplyReady, Silence, TextStreamed
from nacre.runtime.contracts.model import ModelRequest
from nacre.runtime.models.scripted import ScriptedModel, calls, fails, says
from nacre.sessions.contracts.messages import Usage
from tests.faults.drivers import SteppedLoop
from tests.runtime.agents import LONG, events_of, index_lines, opened, said, window_settings, write_settings

SUMMARY = "## Goal\nKeep bees.\n\n## Original Request\nKeep bees.\n"
"""Good for a history and for the beginning of a turn that was cut."""


def line_of_the_main_session(state_dir: Path) -> dict[str, Any]:
    """The main session's line in the index."""
    line = index_lines(state_dir)["agent:main:main"]
    assert isinstance(line, dict)
    return line


async def test_the_index_tells_of_a_turn_that_was_stopped(tmp_path: Path) -> None:
    """Listings show that the last turn was broken off, until one ends."""
    async with opened(tmp_path, ScriptedModel(says("one two three four five"), says("done"))) as agent:
        async for event in agent.stream(said("count")):
            if isinstance(event, TextStreamed):
                agent.stop(said("count"))
        stopped = line_of_the_main_session(tmp_path)
        await agent.respond(said("go on"))

    assert stopped["abortedLastRun"] is True
    assert line_of_the_main_session(tmp_path)["abortedLastRun"] is False


async def test_the_flush_of_a_session_that_ended_is_not_noted_at_its_successor(tmp_path: Path) -> None:
    """The key's line is the fresh session's when the notes of the one before are saved."""
    model = ScriptedModel(says("noted"), says("NO_REPLY", purpose="flush"), says("bees", purpose="slug"))
    async with opened(tmp_path, model) as agent:
        first = await agent.respond(said("My hive is in the garden."))
        fresh = await agent.respond(said("/new"))

    line = line_of_the_main_session(tmp_path)
    assert first is not None
    assert fresh is not None
    assert line["sessionId"] == fresh.session_id != first.session_id
    assert "memoryFlushAt" not in line


@pytest.mark.usefixtures("steady_frame")
def test_a_compaction_does_not_count_against_a_turns_time(tmp_path: Path) -> None:
    """A history that takes longer to sum up than a turn may take ends no turn."""
    loop = SteppedLoop()

    def a_minute_passes(_request: ModelRequest) -> None:
        loop.ahead_seconds += 60

    async def turns() -> None:
        settings = window_settings(enabled=False)
        settings["agents"]["defaults"]["timeoutSeconds"] = 50
        write_settings(tmp_path, settings)
        used = Usage(input_tokens=13_000, output_tokens=10)
        model = ScriptedModel(
            *[says("noted", usage=Usage(input_tokens=2_000, output_tokens=10))] * 3,
            says("noted", usage=used),
            says(SUMMARY, purpose="compaction", check=a_minute_passes),
            says("here"),
        )
        async with opened(tmp_path, model) as agent:
            for number in range(4):
                await agent.respond(said(f"{number}: {LONG}"))
            reply = await agent.respond(said("Are you there?"))
        model.assert_complete()
        assert reply is not None
        assert reply.text == "here"

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(turns())


async def test_a_window_of_unknown_size_is_taken_for_no_larger_than_what_it_refused(tmp_path: Path) -> None:
    """What is kept fits what was refused, and not the size that is assumed for unknown windows."""
    write_settings(tmp_path, {"agents": {"defaults": {"compaction": {"memoryFlush": {"enabled": False}}}}})
    model = ScriptedModel(
        *[says("noted")] * 8,
        fails(ContextOverflow("too long")),
        *[says(SUMMARY, purpose="compaction")] * 2,
        says("here"),
        context_window_tokens=None,
    )
    async with opened(tmp_path, model) as agent:
        for number in range(8):
            await agent.respond(said(f"{number}: {LONG}"))
        events = await events_of(agent, said("Are you there?"))
    model.assert_complete()

    [ended] = [event for event in events if isinstance(event, CompactionEnded)]
    assert not ended.problem
    assert ended.tokens_after < ended.tokens_before // 2


FIRST = Usage(input_tokens=900, output_tokens=40, cache_write_tokens=100, cost_usd=0.002)
SECOND = Usage(input_tokens=150, output_tokens=60, cache_read_tokens=1_000, cost_usd=0.001)


async def test_a_turns_usage_is_the_sum_of_its_calls(tmp_path: Path) -> None:
    """Each step is paid for, so the reply carries all of them, and the next turn begins at nothing."""
    model = ScriptedModel(
        calls(("read", {"path": "TOOLS.md"}), usage=FIRST),
        says("It says: be kind.", usage=SECOND),
        says("And that is all.", usage=SECOND),
    )
    async with opened(tmp_path, model) as agent:
        *_, ended = await events_of(agent, said("What do the tools say?"))
        *_, next_ended = await events_of(agent, said("Anything else?"))

    assert isinstance(ended, ReplyReady)
    assert ended.reply.usage == Usage(
        input_tokens=1_050,
        output_tokens=100,
        cache_read_tokens=1_000,
        cache_write_tokens=100,
        cost_usd=FIRST.cost_usd + SECOND.cost_usd,
    )
    assert isinstance(next_ended, ReplyReady)
    assert next_ended.reply.usage == SECOND


async def test_silence_has_its_price_too(tmp_path: Path) -> None:
    """A turn that delivers nothing was paid for all the same."""
    async with opened(tmp_path, ScriptedModel(says("NO_REPLY", usage=FIRST))) as agent:
        *_, ended = await events_of(agent, said("Note that."))

    assert isinstance(ended, Silence)
    assert ended.usage == FIRST


async def test_a_provider_that_reports_nothing_is_not_guessed_at(tmp_path: Path) -> None:
    """Without reported tokens there is no usage, and a command has none either."""
    async with opened(tmp_path, ScriptedModel(says("Hello."))) as agent:
        reply, help_text = await agent.respond(said("Hi")), await agent.respond(said("/help"))

    assert reply is not None
    assert reply.usage is None
    assert help_text is not None
    assert help_text.usage is None
