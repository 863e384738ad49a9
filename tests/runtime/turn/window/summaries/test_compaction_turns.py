"""Compactions as they happen in turns: what is asked, what stays, and what the owner is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nacre.runtime.contracts.errors import ContextOverflow, ModelAuthError
from nacre.runtime.contracts.events import CompactionEnded, ReplyReady, Warned
from nacre.runtime.models.scripted import ScriptedModel, ScriptedStep, fails, says
from nacre.sessions.contracts.messages import Usage, message_text
from tests.runtime.agents import (
    entries,
    events_of,
    index_lines,
    kinds,
    opened,
    said,
    transcript_file,
    window_settings,
    write_settings,
)

LONG = "The hive needs sugar before the frost comes. " * 300
"""About 3,000 tokens."""

SUMMARY = says("## Goal\nKeep bees.", purpose="compaction")
NO_NOTES = says("NO_REPLY", purpose="flush")
GARBAGE = says("Certainly!", purpose="compaction")


def used(tokens: int) -> Usage:
    return Usage(input_tokens=tokens - 10, output_tokens=10)


def compaction_settings(**compaction: Any) -> dict[str, Any]:
    """The small window of `window_settings` with other settings of compaction."""
    settings = window_settings()
    settings["agents"]["defaults"]["compaction"].update(compaction)
    return settings


def compactions(events: list[Any]) -> list[CompactionEnded]:
    return [event for event in events if isinstance(event, CompactionEnded)]


async def talked(tmp_path: Path, *steps: ScriptedStep, turns: int = 3, last: str = "and now?") -> list[Any]:
    """The events of a short last turn after so many long ones."""
    model = ScriptedModel(*[says("noted", usage=used(2_000))] * turns, *steps)
    async with opened(tmp_path, model) as agent:
        for number in range(turns):
            await agent.respond(said(f"{number}: {LONG}"))
        events = await events_of(agent, said(last))
    model.assert_complete()
    return events


async def test_an_overflow_without_a_usable_summary_ends_in_an_extract(tmp_path: Path) -> None:
    """The provider refuses the request and summarises badly: an extract makes room, and the owner is told."""
    write_settings(tmp_path, window_settings())
    events = await talked(
        tmp_path, fails(ContextOverflow("too long")), NO_NOTES, GARBAGE, GARBAGE, says("here I am")
    )

    assert [event.problem for event in compactions(events)] == [""]
    assert isinstance(events[-1], ReplyReady)
    [warning] = [event.message for event in events if isinstance(event, Warned)]
    assert warning.startswith("An extract stands for the older history, because: The answer was no summary")
    [stored] = [entry for entry in entries(transcript_file(tmp_path)) if entry["type"] == "compaction"]
    assert "The hive needs sugar before the frost comes" in stored["summary"]
    assert compactions(events)[0].transcript == transcript_file(tmp_path).name


async def test_a_summary_that_gains_nothing_is_not_stored(tmp_path: Path) -> None:
    """Asked by hand for a summary of little, a talkative model makes the context no longer."""
    settings = compaction_settings(keepRecentTokens=25)
    write_settings(tmp_path, settings)
    model = ScriptedModel(
        *[says("noted")] * 3, NO_NOTES, says("## Goal\n" + "Keep bees. " * 400, purpose="compaction")
    )
    async with opened(tmp_path, model) as agent:
        for text in ("The first thing to say.", "The second thing to say.", "The third thing to say."):
            await agent.respond(said(text))
        reply = await agent.respond(said("/compact"))
    model.assert_complete()

    assert reply is not None
    assert "would not make the history shorter" in reply.text
    assert "compaction" not in kinds(transcript_file(tmp_path))


async def test_compact_by_hand_keeps_the_tail(tmp_path: Path) -> None:
    """After `/compact` the newest turns are there word for word, as after any other compaction."""
    write_settings(tmp_path, window_settings())
    model = ScriptedModel(
        *[says("noted", usage=used(2_000))] * 4, says("the last answer"), NO_NOTES, SUMMARY, says("yes")
    )
    async with opened(tmp_path, model) as agent:
        for number in range(4):
            await agent.respond(said(f"{number}: {LONG}"))
        await agent.respond(said("the last words"))
        await agent.respond(said("/compact"))
        await agent.respond(said("do you remember?"))
    model.assert_complete()

    shown = [message_text(message) for message in model.requests[-1].messages]
    assert "Keep bees." in shown[0]
    assert shown[-3:] == ["the last words", "the last answer", "do you remember?"]
    assert f"3: {LONG}" in shown


async def test_a_second_pass_makes_the_room_that_the_first_did_not(tmp_path: Path) -> None:
    """A long message keeps the exchange before it in view, until that turns out to be too much."""
    write_settings(tmp_path, compaction_settings(memoryFlush={"enabled": False}))
    model = ScriptedModel(
        *[says("noted", usage=used(tokens)) for tokens in (2_000, 4_000, 8_000)],
        says("## Goal\n" + "Keep bees. " * 700, purpose="compaction"),
        SUMMARY,
        says("here we are", usage=used(3_000)),
    )
    last = LONG * 2
    async with opened(tmp_path, model) as agent:
        for number in range(3):
            await agent.respond(said(f"{number}: {LONG}"))
        events = await events_of(agent, said(last))
    model.assert_complete()

    first, second = compactions(events)
    assert (first.problem, second.problem) == ("", "")
    assert first.tokens_after > 12_000 > second.tokens_after
    assert [message_text(message) for message in model.requests[-1].messages][1:] == ["noted", last]


async def test_a_long_history_goes_on_where_the_last_attempt_broke_off(tmp_path: Path) -> None:
    """The parts that were read are in the transcript, also for another process, and no model sees them."""
    write_settings(tmp_path, compaction_settings(memoryFlush={"enabled": False}, maxSummaryTokens=300))
    long_turns = [says("noted", usage=used(2_000))] * 12
    model = ScriptedModel(
        *long_turns,
        says("## Goal\nPart one", purpose="compaction"),
        fails(ModelAuthError("The key has expired."), purpose="compaction"),
    )
    async with opened(tmp_path, model) as agent:
        for number in range(12):
            await agent.respond(said(f"{number}: {LONG}"))
        reply = await agent.respond(said("/compact"))
    model.assert_complete()
    assert reply is not None
    assert reply.text.startswith(
        "⚙️ Compaction failed: The key has expired. The history was left as it is. • Context "
    )
    assert kinds(transcript_file(tmp_path)).count("nacre.partial_summary") == 1

    def goes_on(request: Any) -> bool:
        return "<previous-summary>\n## Goal\nPart one\n</previous-summary>" in message_text(
            request.messages[0]
        )

    later = ScriptedModel(
        says("## Goal\nPart two", purpose="compaction", check=goes_on), says("yes", usage=used(3_000))
    )
    async with opened(tmp_path, later, ids="b") as agent:
        reply = await agent.respond(said("/compact"))
        await agent.respond(said("still there?"))
    later.assert_complete()
    assert reply is not None
    assert reply.text.startswith("⚙️ Compacted (")
    assert not any("Part one" in message_text(message) for message in later.requests[-1].messages)


async def test_configured_instructions_hold_in_automatic_compactions(tmp_path: Path) -> None:
    """What the owner always wants in a summary is asked for without `/compact`."""
    write_settings(tmp_path, compaction_settings(customInstructions="Write Portuguese."))
    model = ScriptedModel(
        says("noted", usage=used(2_000)),
        says("noted", usage=used(13_500)),
        NO_NOTES,
        says(SUMMARY.text, purpose="compaction", check=lambda asked: "Portuguese" in str(asked.messages)),
        says("sim"),
    )
    async with opened(tmp_path, model) as agent:
        for number in range(2):
            await agent.respond(said(f"{number}: {LONG}"))
        await agent.respond(said("and now?"))
    model.assert_complete()


async def test_a_nearly_full_context_is_told_once_in_each_cycle(tmp_path: Path) -> None:
    """Early enough for `/compact` with a focus; not again until history was compacted."""
    write_settings(tmp_path, compaction_settings(memoryFlush={"enabled": False}))
    model = ScriptedModel(
        says("ok", usage=used(10_000)),
        says("ok", usage=used(10_500)),
        says("ok", usage=used(10_600)),
    )
    async with opened(tmp_path, model) as agent:
        told = [await events_of(agent, said(text)) for text in ("one", "two", "three")]
    warnings = [[event.message for event in events if isinstance(event, Warned)] for events in told]
    assert warnings == [
        [],
        [],
        [
            "The context is more than 85 % full: above 12000 tokens older history becomes summary 1 of this "
            "session. /compact does it now, /new begins afresh."
        ],
    ]


async def test_totals_after_a_compaction_are_those_of_the_new_context(tmp_path: Path) -> None:
    """The index never shows the size of a context that is gone; `/new` begins with none."""
    write_settings(tmp_path, window_settings())
    cached = Usage(input_tokens=990, output_tokens=10, cache_read_tokens=3_500, cache_write_tokens=500)
    model = ScriptedModel(*[says("noted", usage=cached)] * 4, NO_NOTES, SUMMARY)
    async with opened(tmp_path, model) as agent:
        for number in range(4):
            await agent.respond(said(f"{number}: {LONG}"))
        before = index_lines(tmp_path)["agent:main:main"]
        await agent.respond(said("/compact"))
        after = index_lines(tmp_path)["agent:main:main"]
        await agent.respond(said("/new"))
        fresh = index_lines(tmp_path)["agent:main:main"]
    model.assert_complete()

    counters = ("inputTokens", "outputTokens", "cacheRead", "cacheWrite")
    assert [before[key] for key in ("totalTokens", *counters)] == [5_000, 990, 10, 3_500, 500]
    assert 0 < after["totalTokens"] < 12_000
    assert not set(counters) & set(after)
    assert (after["compactionCount"], fresh["compactionCount"]) == (1, 0)
    assert not {*counters, "totalTokens", "contextTokens", "memoryFlushAt"} & set(fresh)


@pytest.mark.parametrize(("tokens", "told"), [(24_000, True), (64_000, False)])
async def test_a_tight_window_is_told_when_the_agent_opens(tmp_path: Path, tokens: int, told: bool) -> None:
    """Under 32,000 tokens the owner learns how soon history will be compacted."""
    write_settings(tmp_path, window_settings(tokens))
    async with opened(tmp_path, ScriptedModel()) as agent:
        assert any(f"has only {tokens} tokens (from settings)" in notice for notice in agent.notices) is told


async def test_a_small_window_is_not_compacted_again_at_once(tmp_path: Path) -> None:
    """What a compaction keeps leaves room for a few turns, also where the usual tail would not."""
    settings = window_settings(16_000, enabled=False)
    settings["agents"]["defaults"]["memorySearch"] = {"enabled": False}
    write_settings(tmp_path, settings)
    counts = []
    async with opened(tmp_path, None) as agent:
        for number in range(27):
            text = (
                f"We decided in round {number} to feed hive {number}. " + "The garden is wet this week. " * 80
            )
            counts.append(len(compactions(await events_of(agent, said(text)))))
    assert 2 <= sum(counts) <= 7
    assert max(counts) == 1
    assert not any(counts[place] and counts[place + 1] for place in range(len(counts) - 1))
