"""How full the window is taken to be, whatever a provider reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.runtime.contracts.events import CompactionEnded, FlushEnded
from nacre.runtime.models.scripted import ScriptedModel, says
from nacre.sessions.contracts.messages import Usage
from tests.runtime.agents import events_of, opened, said, window_settings, write_settings

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
