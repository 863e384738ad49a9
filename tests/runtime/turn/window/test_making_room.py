"""How often a turn makes room when the provider itself says that a request is too long."""

from __future__ import annotations

from pathlib import Path

from nacre.runtime.contracts.errors import ContextOverflow
from nacre.runtime.contracts.events import CompactionEnded, TurnFailed
from nacre.runtime.models.scripted import ScriptedModel, calls, fails, says
from nacre.sessions.contracts.messages import Usage
from tests.runtime.agents import events_of, opened, said, window_settings, write_settings

LONG = "The hive needs sugar before the frost comes. " * 300
"""About 3,000 tokens."""

SUMMARY = "## Goal\nKeep bees.\n"


def used(tokens: int) -> Usage:
    return Usage(input_tokens=tokens - 10, output_tokens=10)


async def test_a_turn_makes_room_once_however_many_steps_it_has(tmp_path: Path) -> None:
    """Room was made and a tool was called; the next "too long" is told instead of compacting again."""
    write_settings(tmp_path, window_settings(enabled=False))
    model = ScriptedModel(
        *[says("noted", usage=used(2_000))] * 3,
        fails(ContextOverflow("too long")),
        says(SUMMARY, purpose="compaction"),
        calls(("list", {}), usage=used(5_000)),
        fails(ContextOverflow("still too long")),
    )
    async with opened(tmp_path, model) as agent:
        for number in range(3):
            await agent.respond(said(f"{number}: {LONG}"))
        events = await events_of(agent, said("what is there?"))
    model.assert_complete()

    assert [event.reason for event in events if isinstance(event, CompactionEnded)] == ["overflow"]
    assert isinstance(events[-1], TurnFailed)
    assert "still too long" in str(events[-1].error)
