"""How full the window is taken to be, whatever a provider reports, and how often room is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.runtime.contracts.errors import ContextOverflow
from nacre.runtime.contracts.events import CompactionEnded, FlushEnded, TurnFailed
from nacre.runtime.models.scripted import ScriptedModel, calls, fails, says
from nacre.runtime.turn.window.summaries.summariser import PARTIAL_SUMMARY_ENTRY
from nacre.sessions.contracts.messages import Usage
from tests.runtime.agents import (
    append_talk,
    entries,
    events_of,
    opened,
    said,
    transcript_file,
    window_settings,
    write_settings,
)

LONG = "The hive needs sugar before the frost comes. "


@pytest.mark.parametrize("tokens", [0, -500, 10**12])
async def test_a_usage_that_cannot_be_is_not_believed(tmp_path: Path, tokens: int) -> None:
    """Sums over many calls, zeros and nonsense neither flush nor compact a short conversation."""
    model = ScriptedModel(*[says("ok", usage=Usage(input_tokens=tokens))] * 3)
    async with opened(tmp_path, model) as agent:
        events = [event for _ in range(3) for event in await events_of(agent, said("hi"))]
        status = await agent.respond(said("/status"))

    assert not any(isinstance(event, FlushEnded | CompactionEnded) for event in events)
    assert status is not None
    assert "(estimated)" in status.text


async def test_a_usage_over_the_window_counts_when_the_estimate_agrees(tmp_path: Path) -> None:
    """An owner's window may be smaller than the model's, and then it is full."""
    write_settings(tmp_path, window_settings())
    model = ScriptedModel(
        says("ok", usage=Usage(input_tokens=1_000)),
        says("ok", usage=Usage(input_tokens=30_000)),
        says("NO_REPLY", purpose="flush"),
        says("## Goal\nBees", purpose="compaction"),
        says("ok"),
    )
    async with opened(tmp_path, model) as agent:
        for _ in range(2):
            await agent.respond(said(LONG * 500))
        events = await events_of(agent, said("hi"))
    model.assert_complete()

    assert [event.tokens_before > 30_000 for event in events if isinstance(event, CompactionEnded)] == [True]


async def test_a_turn_makes_room_once_however_many_steps_it_has(tmp_path: Path) -> None:
    """Room was made and a tool was called; the next "too long" is told instead of compacting again."""
    write_settings(tmp_path, window_settings(enabled=False))
    model = ScriptedModel(
        *[says("noted", usage=Usage(input_tokens=2_000))] * 3,
        fails(ContextOverflow("too long")),
        says("## Goal\nKeep bees.\n", purpose="compaction"),
        calls(("list", {}), usage=Usage(input_tokens=5_000)),
        fails(ContextOverflow("still too long")),
    )
    async with opened(tmp_path, model) as agent:
        for number in range(3):
            await agent.respond(said(f"{number}: {LONG * 300}"))
        events = await events_of(agent, said("what is there?"))
    model.assert_complete()

    assert [event.reason for event in events if isinstance(event, CompactionEnded)] == ["overflow"]
    assert isinstance(events[-1], TurnFailed)
    assert "still too long" in str(events[-1].error)


async def test_a_long_history_is_extracted_in_one_request(tmp_path: Path) -> None:
    """Nothing limits what the offline responder reads, so the first fact is no summary's summary."""
    write_settings(tmp_path, window_settings(enabled=False))
    async with opened(tmp_path, None) as agent:
        await agent.respond(said("My boat is called Marlin."))
    append_talk(transcript_file(tmp_path), [LONG * 30] * 120)
    async with opened(tmp_path, None) as agent:
        events = await events_of(agent, said("Which boat do I have?"))

    stored = entries(transcript_file(tmp_path))
    [compaction] = [entry for entry in stored if entry["type"] == "compaction"]
    assert [event.problem for event in events if isinstance(event, CompactionEnded)] == [""]
    assert "My boat is called Marlin." in compaction["summary"]
    assert not [entry for entry in stored if entry.get("customType") == PARTIAL_SUMMARY_ENTRY]
