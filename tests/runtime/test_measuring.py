"""How full the window is taken to be, whatever a provider reports."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from nacre.runtime.compactor import SummaryLimits, summarise
from nacre.runtime.events import CompactionEnded, FlushEnded
from nacre.runtime.testing import ScriptedModel, says
from nacre.sessions.cut import CompactionPlan
from nacre.sessions.messages import Usage, user_message
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


async def test_a_long_history_is_cut_into_parts_off_the_event_loop() -> None:
    """Counting megabytes takes seconds, in which other sessions go on."""
    threads: set[int] = set()

    def count_tokens(text: str) -> int:
        threads.add(threading.get_ident())
        return len(text) // 4

    summary = await summarise(
        CompactionPlan(
            first_kept_entry_id="a",
            to_summarise=(user_message(LONG * 10, timestamp_ms=1),),
            turn_prefix=(user_message(LONG, timestamp_ms=2),),
            is_split_turn=True,
            tokens_before=100,
            previous_summary=None,
            read_files=(),
            modified_files=(),
            kept_tokens=1,
        ),
        focus="",
        ask=ScriptedModel(says("Bees."), says("Sugar.")).stream,
        limits=SummaryLimits(part_tokens=1_000, summary_tokens=300),
        count_tokens=count_tokens,
        now_ms=lambda: 3,
    )

    assert "Bees." in summary
    assert threads
    assert threading.get_ident() not in threads
