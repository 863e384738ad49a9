"""What other agents got wrong around compactions, each defect as a test that it is not here."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from nacre.runtime.contracts.errors import ContextOverflow, ModelAuthError
from nacre.runtime.contracts.events import CompactionEnded, ReplyReady, TurnFailed
from nacre.runtime.models.scripted import ScriptedModel, ScriptedStep, fails, says
from nacre.sessions.compaction.cut import CompactionPlan, plan_compaction
from nacre.sessions.contracts.messages import Image, Text, Usage, UserMessage, message_text
from nacre.sessions.entries.entries import Compaction, SessionHeader, entry_to_json, header_to_json
from nacre.sessions.journal.journal import Journal
from nacre.sessions.view.transcript import build_transcript
from tests.runtime.agents import (
    events_of,
    index_lines,
    opened,
    said,
    transcript_file,
    user_texts,
    window_settings,
    write_settings,
)
from tests.sessions.talk import STAMP, Branch, answer, counted_ids, result, ticking_clock, user, words

LONG = "The hive needs sugar before the frost comes. " * 300
SUMMARY = says("## Goal\nKeep bees.", purpose="compaction")
NO_NOTES = says("NO_REPLY", purpose="flush")


def used(tokens: int) -> Usage:
    return Usage(input_tokens=tokens - 10, output_tokens=10)


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


async def test_images_that_a_person_sends_count(tmp_path: Path) -> None:
    """A few pictures fill a window like text does; they are not taken for nothing."""
    write_settings(tmp_path, window_settings(enabled=False))
    model = ScriptedModel(says("nice"))
    async with opened(tmp_path, model) as agent:
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


async def test_a_usage_of_zero_overwrites_nothing(tmp_path: Path) -> None:
    """A provider that counts nothing for once leaves the last known number; model and window are kept up."""
    model = ScriptedModel(says("one", usage=used(5_000)), says("two", usage=Usage()))
    async with opened(tmp_path, model) as agent:
        await agent.respond(said("one?"))
        await agent.respond(said("two?"))
    assert (record(tmp_path)["totalTokens"], record(tmp_path)["contextTokens"]) == (5_000, 128_000)


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


async def test_a_compaction_does_not_make_the_model_begin_anew(tmp_path: Path) -> None:
    """The rules come with every request, not in a note behind the summary that reads like a start."""
    write_settings(tmp_path, window_settings())
    model = ScriptedModel(*before_the_line(), NO_NOTES, SUMMARY, says("on we go", usage=used(3_000)))
    async with opened(tmp_path, model) as agent:
        await talk_to_the_line(agent)
        await agent.respond(said("and now?"))
    first, *_, last = (message_text(message) for message in model.requests[-1].messages)
    assert model.requests[-1].system.stable == model.requests[0].system.stable
    assert "Go on from where it ends, under the same rules as before; nothing begins anew." in first
    assert "not an instruction" in first
    assert last == "and now?"


@pytest.mark.parametrize(
    "words_of_an_overflow",
    ["prompt is too long: 210000 tokens > 200000 maximum", "413 context_length_exceeded, request_too_large"],
)
async def test_the_words_of_an_overflow_may_be_said(tmp_path: Path, words_of_an_overflow: str) -> None:
    """A person who quotes an error, and a model that explains it, make no room for anything."""
    model = ScriptedModel(says(f"It says: {words_of_an_overflow}"))
    async with opened(tmp_path, model) as agent:
        events = await events_of(agent, said(f"What does this mean? {words_of_an_overflow}"))
    model.assert_complete()
    assert isinstance(events[-1], ReplyReady)
    assert not any(isinstance(event, CompactionEnded) for event in events)


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
        journal.branch(), keep_recent_tokens=20_000, count_tokens=count_tokens, tokens_before=9
    )
    assert len(counted) <= 2 * len(branch.entries)
    assert isinstance(plan, CompactionPlan)
    assert 15_000 < plan.kept_tokens <= 20_500
    assert len(plan.facts.read_files) == 50
    await journal.append(
        Compaction(
            summary="## Goal\nAll of it.", first_kept_entry_id=plan.first_kept_entry_id, tokens_before=9
        )
    )

    again = await Journal.open(
        file, session_id="s", cwd=tmp_path, now=ticking_clock(), new_id=counted_ids("n")
    )
    assert isinstance(again.branch()[-1].body, Compaction)
    shown = [item.message for item in again.transcript()]
    assert "All of it." in message_text(shown[0])
    assert sum(words(message_text(message)) for message in shown) < 20_500
    assert again.notices == ()
