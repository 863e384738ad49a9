"""How often a turn makes room: until it is enough, and once when the provider itself says "too long"."""

from __future__ import annotations

from pathlib import Path

from nacre.runtime.contracts.errors import ContextOverflow
from nacre.runtime.contracts.events import CompactionEnded, ReplyReady, TurnFailed, Warned
from nacre.runtime.models.scripted import ScriptedModel, calls, fails, says
from nacre.sessions.contracts.messages import Usage, message_text
from tests.runtime.agents import (
    events_of,
    opened,
    said,
    transcript_file,
    user_texts,
    window_settings,
    write_settings,
)

LONG = "The hive needs sugar before the frost comes. " * 300
"""About 3,000 tokens."""

SHORT_SUMMARY = "## Goal\nKeep bees.\n"
WORDY_SUMMARY = f"## Goal\n{LONG * 4}"


def used(tokens: int) -> Usage:
    return Usage(input_tokens=tokens - 10, output_tokens=10)


async def test_a_compaction_that_made_too_little_room_is_followed_by_another(tmp_path: Path) -> None:
    """A wordy summary leaves the window over its line; before the model is asked, that is summarised too."""
    write_settings(tmp_path, window_settings(enabled=False))
    model = ScriptedModel(
        *[says("noted", usage=used(2_000))] * 6,
        says("noted", usage=used(13_500)),
        says(WORDY_SUMMARY, purpose="compaction"),
        says(SHORT_SUMMARY, purpose="compaction"),
        says("here we go on", usage=used(5_000)),
    )
    async with opened(tmp_path, model) as agent:
        for number in range(7):
            await agent.respond(said(f"{number}: {LONG}"))
        events = await events_of(agent, said("and now?"))
    model.assert_complete()

    first, second = (event for event in events if isinstance(event, CompactionEnded))
    assert (first.problem, second.problem) == ("", "")
    assert first.tokens_after > 12_000 >= second.tokens_after
    assert SHORT_SUMMARY.strip() in message_text(model.requests[-1].messages[0])
    assert isinstance(events[-1], ReplyReady)


async def test_a_turn_overflows_once_however_many_steps_it_has(tmp_path: Path) -> None:
    """Room was made and a tool was called; the next "too long" is told instead of compacting again."""
    write_settings(tmp_path, window_settings(enabled=False))
    model = ScriptedModel(
        *[says("noted", usage=used(2_000))] * 3,
        fails(ContextOverflow("too long")),
        says(SHORT_SUMMARY, purpose="compaction"),
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
    assert len(user_texts(transcript_file(tmp_path))) == 4


async def test_half_a_window_is_no_cause_for_a_warning(tmp_path: Path) -> None:
    """Between half of the compaction line and 85 % of it nothing is said; above that the owner is told."""
    write_settings(tmp_path, window_settings(enabled=False))
    model = ScriptedModel(
        says("ok", usage=used(7_000)),
        says("ok", usage=used(9_500)),
        says("ok", usage=used(11_000)),
        says("ok", usage=used(11_100)),
    )
    async with opened(tmp_path, model) as agent:
        told = [await events_of(agent, said(text)) for text in ("one", "two", "three", "four")]

    warned = [any(isinstance(event, Warned) for event in events) for events in told]
    assert warned == [False, False, False, True]
