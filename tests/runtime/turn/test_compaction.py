"""Compactions in turns, and summaries that are no use."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from nacre.runtime.contracts.errors import ContextOverflow, ModelAuthError
from nacre.runtime.contracts.events import CompactionEnded, ReplyReady, TurnFailed, Warned
from nacre.runtime.models.scripted import ScriptedModel, ScriptedStep, fails, says
from nacre.sessions.compaction.cut import CompactionPlan, plan_compaction, transcript_tokens
from nacre.sessions.contracts.messages import Image, Text, Usage, UserMessage, message_text
from nacre.sessions.entries.entries import Compaction, SessionHeader, entry_to_json, header_to_json
from nacre.sessions.journal.journal import Journal
from nacre.sessions.view.transcript import build_transcript
from tests.runtime.agents import (
    LONG,
    entries,
    events_of,
    index_lines,
    kinds,
    opened,
    said,
    transcript_file,
    used,
    user_texts,
    window_settings,
    write_settings,
)
from tests.sessions.talk import STAMP, Branch, answer, counted_ids, result, ticking_clock, user, words

pytestmark = pytest.mark.usefixtures("steady_frame")


SUMMARY = says("## Goal\nKeep bees.", purpose="compaction")
NO_NOTES = says("NO_REPLY", purpose="flush")
GARBAGE = says("Certainly!", purpose="compaction")


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


@pytest.mark.covers("A11-8", "ASK-2")
async def test_an_overflow_without_a_usable_summary_ends_in_an_extract(tmp_path: Path) -> None:
    """The provider refuses the request and summarizes badly: an extract makes room, and the owner is told."""
    write_settings(tmp_path, window_settings())
    events = await talked(
        tmp_path, fails(ContextOverflow("too long")), NO_NOTES, GARBAGE, GARBAGE, says("here I am")
    )

    assert [event.problem for event in compactions(events)] == [""]
    assert isinstance(events[-1], ReplyReady)
    [warning] = [event.message for event in events if isinstance(event, Warned)]
    assert warning.startswith("An extract replaces the older history, because: The answer was not a summary")
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


@pytest.mark.covers("A10-9", "ASK-4", "ASK-20")
async def test_compact_by_hand_keeps_the_tail(tmp_path: Path) -> None:
    """After `/compact` the newest turns are there word for word, as after any other compaction. A second one
    at once asks no model: what stays was flushed with what went."""
    write_settings(tmp_path, window_settings())
    model = ScriptedModel(
        *[says("noted", usage=used(2_000))] * 4, says("the last answer"), NO_NOTES, SUMMARY, says("yes")
    )
    async with opened(tmp_path, model) as agent:
        for number in range(4):
            await agent.respond(said(f"{number}: {LONG}"))
        for text in ("the last words", "/compact", "/compact"):
            await agent.respond(said(text))
        await agent.respond(said("do you remember?"))
    model.assert_complete()

    shown = [message_text(message) for message in model.requests[-1].messages]
    assert "Keep bees." in shown[0]
    assert shown[-3:] == ["the last words", "the last answer", "do you remember?"]
    assert f"3: {LONG}" in shown


@pytest.mark.covers("W8-2", "ASK-20")
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


@pytest.mark.covers("ASK-6")
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
        "⚙️ Compaction failed: The key has expired. The history is unchanged. • Context "
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


@pytest.mark.covers("W8-8", "ASK-19")
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


@pytest.mark.covers("ASK-7", "ATT-18")
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
            "session. /compact does it now, /new begins a new session."
        ],
    ]


@pytest.mark.covers("A9-8", "W7-3", "W7-5", "W8-13", "ASK-11")
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
@pytest.mark.covers("A9-6")
async def test_a_tight_window_is_told_when_the_agent_opens(tmp_path: Path, tokens: int, told: bool) -> None:
    """Under 32,000 tokens the owner learns how soon history will be compacted."""
    write_settings(tmp_path, window_settings(tokens))
    async with opened(tmp_path, ScriptedModel()) as agent:
        assert any(f"has only {tokens} tokens (from settings)" in notice for notice in agent.notices) is told


@pytest.mark.parametrize(("tokens", "facts"), [(16_000, 0), (24_000, 200)])
@pytest.mark.covers("ASK-3")
async def test_a_small_window_is_not_compacted_again_at_once(tmp_path: Path, tokens: int, facts: int) -> None:
    """What a compaction keeps leaves room for a few turns, also where the usual tail would not.

    Files of the workspace leave less room for the tail.
    """
    settings = window_settings(tokens, enabled=False)
    settings["agents"]["defaults"]["memorySearch"] = {"enabled": False}
    write_settings(tmp_path, settings)
    (tmp_path / "workspace").mkdir(exist_ok=True)
    (tmp_path / "workspace" / "USER.md").write_text("- The owner likes bees and wet gardens.\n" * facts)
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


def record(tmp_path: Path) -> dict[str, Any]:
    """The main session's line in the index."""
    line = index_lines(tmp_path)["agent:main:main"]
    assert isinstance(line, dict)
    return line


def before_the_line() -> list[ScriptedStep]:
    """Three long turns, of which the last one reports a window that is over the line."""
    return [says("noted", usage=used(tokens)) for tokens in (3_000, 4_000, 13_500)]


async def talk_to_the_line(agent: Any) -> None:
    for number in range(3):
        await agent.respond(said(f"{number}: {LONG}"))


@pytest.mark.covers("A9-7", "W7-1")
async def test_images_that_a_person_sends_count(tmp_path: Path) -> None:
    """A few pictures fill a window like text does; they are not taken for nothing."""
    write_settings(tmp_path, window_settings(enabled=False))
    model = ScriptedModel(says("nice"))
    async with opened(tmp_path, model) as agent:
        await agent.respond(said("hi"))
        before = await agent.respond(said("/status"))
        session = transcript_file(tmp_path)
        picture = UserMessage(
            content=(Text(text="x"), *[Image(data="", mime_type="image/png")] * 5), timestamp_ms=1
        )
        journal = await Journal.open(
            session, session_id="", cwd=tmp_path, now=ticking_clock(), new_id=counted_ids("p")
        )
        await journal.append(picture)
        after = await agent.respond(said("/status"))
    assert before is not None
    assert after is not None
    assert shown_tokens(after.text) - shown_tokens(before.text) == pytest.approx(6_000, abs=100)


def shown_tokens(status: str) -> float:
    """The tokens that `/status` shows, to a tenth of a thousand."""
    return float(status.split("Context: ")[1].split("k/")[0]) * 1_000


@pytest.mark.covers("W7-4", "A11-11", "ASK-1")
async def test_an_automatic_compaction_tells_its_size_too(tmp_path: Path) -> None:
    """Should the answer behind it fail, the index shows the new context and not the one that is gone."""
    write_settings(tmp_path, window_settings())
    model = ScriptedModel(*before_the_line(), NO_NOTES, SUMMARY, fails(ModelAuthError("expired")))
    async with opened(tmp_path, model) as agent:
        await talk_to_the_line(agent)
        assert record(tmp_path)["totalTokens"] == 13_500
        events = await events_of(agent, said("and now?"))
    model.assert_complete()

    [ended] = [event for event in events if isinstance(event, CompactionEnded)]
    assert isinstance(events[-1], TurnFailed)
    assert record(tmp_path)["totalTokens"] == ended.tokens_after < 12_000
    assert record(tmp_path)["compactionCount"] == 1


@pytest.mark.covers("A9-4")
async def test_a_usage_of_zero_overwrites_nothing(tmp_path: Path) -> None:
    """A provider that counts nothing for once leaves the last known number; model and window are kept up."""
    model = ScriptedModel(says("one", usage=used(5_000)), says("two", usage=Usage()))
    async with opened(tmp_path, model) as agent:
        await agent.respond(said("one?"))
        await agent.respond(said("two?"))
    assert (record(tmp_path)["totalTokens"], record(tmp_path)["contextTokens"]) == (5_000, 128_000)


@pytest.mark.covers("W8-7")
async def test_two_equal_summaries_are_two_compactions(tmp_path: Path) -> None:
    """Nothing looks a summary up by its text: the second one counts from its own place."""
    branch = Branch([user("one"), answer("two"), user("three"), answer("four")])
    branch.compact("e3", "The same.")
    branch.say(user("five"))
    branch.say(answer("six " * 30))
    plan = plan_compaction(branch.entries, keep_recent_tokens=10, count_tokens=words, tokens_before=0)
    assert isinstance(plan, CompactionPlan)
    branch.compact(plan.first_kept_entry_id, "The same.")
    shown = [message_text(item.message) for item in build_transcript(branch.entries)]
    assert shown[0].count("The same.") == 1
    assert not {"one", "two", "three", "four"} & set(shown)


@pytest.mark.covers("W8-10", "ASK-17", "ASK-18")
async def test_a_compaction_does_not_make_the_model_begin_anew(tmp_path: Path) -> None:
    """The rules come with every request, not in a note behind the summary that reads like a start."""
    write_settings(tmp_path, window_settings())
    model = ScriptedModel(*before_the_line(), NO_NOTES, SUMMARY, says("on we go", usage=used(3_000)))
    async with opened(tmp_path, model) as agent:
        await talk_to_the_line(agent)
        await agent.respond(said("and now?"))
    first, *_, last = (message_text(message) for message in model.requests[-1].messages)
    assert model.requests[-1].system.stable == model.requests[0].system.stable
    assert "not an instruction" in first
    assert last == "and now?"


@pytest.mark.parametrize(
    "words_of_an_overflow",
    ["prompt is too long: 210000 tokens > 200000 maximum", "413 context_length_exceeded, request_too_large"],
)
@pytest.mark.covers("W8-11")
async def test_the_words_of_an_overflow_may_be_said(tmp_path: Path, words_of_an_overflow: str) -> None:
    """A person who quotes an error, and a model that explains it, make no room for anything."""
    model = ScriptedModel(says(f"It says: {words_of_an_overflow}"))
    async with opened(tmp_path, model) as agent:
        events = await events_of(agent, said(f"What does this mean? {words_of_an_overflow}"))
    model.assert_complete()
    assert isinstance(events[-1], ReplyReady)
    assert not any(isinstance(event, CompactionEnded) for event in events)


@pytest.mark.covers("W8-12", "A11-10", "ASK-21")
async def test_a_failed_recovery_keeps_the_session_and_every_word(tmp_path: Path) -> None:
    """After a second overflow the conversation is where it was, under the same id, and goes on."""
    write_settings(tmp_path, window_settings())
    model = ScriptedModel(
        *[says("noted", usage=used(2_000))] * 3,
        fails(ContextOverflow("too long")),
        NO_NOTES,
        SUMMARY,
        fails(ContextOverflow("still too long")),
        says("here I am", usage=used(3_000)),
    )
    async with opened(tmp_path, model) as agent:
        await talk_to_the_line(agent)
        session_id = record(tmp_path)["sessionId"]
        failed = await events_of(agent, said("and now?"))
        reply = await agent.respond(said("once more"))
    model.assert_complete()

    assert isinstance(failed[-1], TurnFailed)
    assert reply is not None
    assert record(tmp_path)["sessionId"] == session_id
    assert [text[:8] for text in user_texts(transcript_file(tmp_path))[3:]] == ["and now?", "once mor"]


@pytest.mark.covers("A10-5", "ASK-16")
async def test_a_message_that_waits_during_a_compaction_is_answered_once(tmp_path: Path) -> None:
    """Queued words survive the compaction of the turn before them, on disk and in order."""
    write_settings(tmp_path, window_settings())
    model = ScriptedModel(
        *before_the_line(), NO_NOTES, SUMMARY, says("first", usage=used(5_000)), says("second")
    )
    async with opened(tmp_path, model) as agent:
        await talk_to_the_line(agent)
        replies = await asyncio.gather(agent.respond(said("one?")), agent.respond(said("two?")))
    model.assert_complete()
    assert [reply and reply.text for reply in replies] == ["first", "second"]
    assert user_texts(transcript_file(tmp_path))[3:] == ["one?", "two?"]


@pytest.mark.covers("A10-2")
async def test_a_large_session_is_compacted_and_opens_again(tmp_path: Path) -> None:
    """Six thousand messages with calls: a sensible cut, each counted at most twice, a sound file after it."""
    branch = Branch()
    for number in range(1_500):
        branch.say(user(f"question {number} " + "w " * 20))
        branch.say(answer("", f"c{number}", path=f"notes/{number % 50}.md"))
        branch.say(result(f"c{number}", "line " * 200))
        branch.say(answer(f"answer {number} " + "w " * 40))
    file = tmp_path / "large.jsonl"
    header = header_to_json(SessionHeader(id="s", timestamp=STAMP, cwd="/"))
    lines = [json.dumps(line) for line in (header, *map(entry_to_json, branch.entries))]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")

    journal = await Journal.open(
        file, session_id="s", cwd=tmp_path, now=ticking_clock(), new_id=counted_ids()
    )
    counted: list[str] = []

    def count_tokens(text: str) -> int:
        counted.append(text)
        return words(text)

    plan = plan_compaction(
        journal.tree.branch(), keep_recent_tokens=20_000, count_tokens=count_tokens, tokens_before=9
    )
    assert len(counted) <= 2 * len(branch.entries)
    assert isinstance(plan, CompactionPlan)
    branch_ids = [entry.id for entry in journal.tree.branch()]
    kept = journal.tree.branch()[branch_ids.index(plan.first_kept_entry_id) :]
    assert 15_000 < transcript_tokens(kept, words) <= 20_500
    assert len(plan.facts.read_files) == 50
    await journal.append(
        Compaction(
            summary="## Goal\nAll of it.", first_kept_entry_id=plan.first_kept_entry_id, tokens_before=9
        )
    )

    again = await Journal.open(
        file, session_id="s", cwd=tmp_path, now=ticking_clock(), new_id=counted_ids("n")
    )
    assert isinstance(again.tree.branch()[-1].body, Compaction)
    shown = [item.message for item in again.transcript()]
    assert "All of it." in message_text(shown[0])
    assert sum(words(message_text(message)) for message in shown) < 20_500
    assert again.notices == ()
