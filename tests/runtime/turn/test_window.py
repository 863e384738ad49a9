"""The window: how it is measured, flushed and compacted."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.runtime.contracts.errors import ContextOverflow, ModelAuthError, ModelUnavailable
from nacre.runtime.contracts.events import CompactionEnded, FlushEnded, ReplyReady, TurnFailed, Warned
from nacre.runtime.models.scripted import ScriptedModel, ScriptedStep, calls, fails, says
from nacre.runtime.turn.summaries import PARTIAL_SUMMARY_ENTRY
from nacre.sessions.contracts.messages import Usage, message_text
from tests.runtime.agents import (
    TODAY,
    append_talk,
    entries,
    events_of,
    kinds,
    opened,
    said,
    transcript_file,
    used,
    user_texts,
    window_settings,
    write_settings,
)

pytestmark = pytest.mark.usefixtures("steady_frame")


LONG = "The hive needs sugar before the frost comes. " * 265
"""About 3,000 tokens."""

SUMMARY = "## Goal\nKeep bees.\n"


def note(text: str) -> list[ScriptedStep]:
    """A flush turn that writes one note."""
    return [
        calls(("append", {"path": "anything.md", "text": text}), purpose="flush"),
        says("NO_REPLY", purpose="flush"),
    ]


@pytest.mark.covers("A12-1", "A12-2", "A12-8", "W9-1")
async def test_crossing_the_soft_threshold_flushes_once_and_silently(tmp_path: Path) -> None:
    """The note goes into today's log of the owner's zone; nobody reads the flush."""
    write_settings(tmp_path, window_settings())
    model = ScriptedModel(
        says("ok", usage=used(8_500)),
        *note("- Nora keeps bees"),
        says("two"),
        says("three", usage=used(8_900)),
    )
    async with opened(tmp_path, model) as agent:
        await agent.respond(said("one"))
        events = await events_of(agent, said("two?"))
        later = await events_of(agent, said("three?"))
    model.assert_complete()

    flushes = [event for event in events if isinstance(event, FlushEnded)]
    assert flushes == [FlushEnded(status="written", path=TODAY)]
    assert "- Nora keeps bees" in flushes[0].notes
    assert not any(isinstance(event, FlushEnded) for event in later)
    assert "Nora keeps bees" in (tmp_path / "workspace" / TODAY).read_text()
    assert not (tmp_path / "workspace/anything.md").exists()
    assert all("NO_REPLY" not in message_text(message) for message in model.requests[-1].messages)


async def test_over_the_line_history_becomes_a_summary_after_a_flush(tmp_path: Path) -> None:
    """Flush, then compaction; the next request begins with the summary and every word stays on disk."""
    write_settings(tmp_path, window_settings())
    model = ScriptedModel(
        says("noted", usage=used(3_000)),
        says("noted", usage=used(4_000)),
        says("noted", usage=used(13_500)),
        *note("- sugar before frost"),
        says(SUMMARY, purpose="compaction"),
        says("here we go on", usage=used(5_000)),
    )
    async with opened(tmp_path, model) as agent:
        for number in range(3):
            await agent.respond(said(f"{number}: {LONG}"))
        events = await events_of(agent, said("and now?"))
    model.assert_complete()

    happened = [event for event in events if isinstance(event, FlushEnded | CompactionEnded)]
    assert [type(event) for event in happened] == [FlushEnded, CompactionEnded]
    assert happened[1].problem == ""
    assert happened[1].tokens_after < happened[1].tokens_before
    first = message_text(model.requests[-1].messages[0])
    assert SUMMARY.strip() in first
    assert message_text(model.requests[-1].messages[-1]) == "and now?"
    assert len(user_texts(transcript_file(tmp_path))) == 4


@pytest.mark.covers("A12-3", "A12-9", "W9-5", "ASK-10", "SEED-16")
async def test_three_cycles_flush_three_times(tmp_path: Path) -> None:
    """Every cycle between two compactions has exactly one flush."""
    write_settings(tmp_path, window_settings())
    cycle = [
        says("noted", usage=used(3_000)),
        says("noted", usage=used(13_500)),
    ]
    steps = [says("begin", usage=used(1_000))]
    for number in range(3):
        steps += [*cycle, *note(f"- cycle {number}"), says(SUMMARY + f"{number}", purpose="compaction")]
    model = ScriptedModel(*steps, says("end", usage=used(2_000)))
    flushes = []
    async with opened(tmp_path, model) as agent:
        for number in range(8):
            events = await events_of(agent, said(f"{number}: {LONG}"))
            flushes += [event for event in events if isinstance(event, FlushEnded)]
    log = (tmp_path / "workspace" / TODAY).read_text()

    model.assert_complete()
    assert [event.status for event in flushes] == ["written"] * 3
    assert [log.count(f"- cycle {number}") for number in range(3)] == [1, 1, 1]
    assert kinds(transcript_file(tmp_path)).count("compaction") == 3


async def test_a_flush_that_the_model_refuses_is_written_by_extraction(tmp_path: Path) -> None:
    """A dead model costs the cycle its prose, not its notes; it is not asked again in this cycle."""
    write_settings(tmp_path, window_settings())
    model = ScriptedModel(
        says("fine", usage=used(8_500)),
        fails(ContextOverflow("too long"), purpose="flush"),
        says("two", usage=used(8_600)),
        says("three", usage=used(8_700)),
    )
    async with opened(tmp_path, model) as agent:
        await agent.respond(said("We decided to move to Lisbon in May."))
        events = await events_of(agent, said("ok?"))
        later = await events_of(agent, said("still there?"))
    model.assert_complete()

    [flush] = [event for event in events if isinstance(event, FlushEnded)]
    assert flush.status == "fallback"
    assert "too long" in flush.problem
    assert "Lisbon" in (tmp_path / "workspace" / TODAY).read_text()
    assert not any(isinstance(event, FlushEnded) for event in later)
    recorded = [
        entry for entry in entries(transcript_file(tmp_path)) if entry.get("customType") == "nacre.flush"
    ]
    assert [entry["data"]["status"] for entry in recorded] == ["fallback"]


@pytest.mark.parametrize(
    "summary",
    [
        [fails(ContextOverflow("too long"), purpose="compaction")] * 3,
        [fails(ModelAuthError("no key"), purpose="compaction")],
    ],
)
@pytest.mark.covers("W8-6", "W8-9", "ASK-2")
async def test_a_summary_that_failed_is_never_stored(tmp_path: Path, summary: list[ScriptedStep]) -> None:
    """Refused: the history stays whole and the turn goes on."""
    write_settings(tmp_path, window_settings())
    model = ScriptedModel(
        says("noted", usage=used(2_000)),
        says("noted", usage=used(13_500)),
        says("NO_REPLY", purpose="flush"),
        *summary,
        says("answered all the same", usage=used(13_900)),
    )
    async with opened(tmp_path, model) as agent:
        await agent.respond(said(f"0: {LONG}"))
        await agent.respond(said(f"1: {LONG}"))
        events = await events_of(agent, said("and now?"))
    model.assert_complete()

    [ended] = [event for event in events if isinstance(event, CompactionEnded)]
    assert ended.problem.endswith("The history is unchanged.")
    assert isinstance(events[-1], ReplyReady)
    assert "compaction" not in kinds(transcript_file(tmp_path))
    assert message_text(model.requests[-1].messages[0]).startswith("0: The hive")


@pytest.mark.parametrize(
    "answer",
    [
        says("", purpose="compaction"),
        says("cut off", stop_reason="length", purpose="compaction"),
        says("I cannot do that.", purpose="compaction"),
    ],
)
async def test_a_model_that_cannot_write_summaries_is_replaced_by_an_extract(
    tmp_path: Path, answer: ScriptedStep
) -> None:
    """Empty, cut or without a heading, and no better the second time: an extract stands in, and is told."""
    write_settings(tmp_path, window_settings())
    model = ScriptedModel(
        says("noted", usage=used(2_000)),
        says("noted", usage=used(13_500)),
        says("NO_REPLY", purpose="flush"),
        answer,
        answer,
        says("answered", usage=used(4_000)),
    )
    async with opened(tmp_path, model) as agent:
        await agent.respond(said(f"0: {LONG}"))
        await agent.respond(said(f"1: {LONG}"))
        events = await events_of(agent, said("and now?"))
    model.assert_complete()

    [ended] = [event for event in events if isinstance(event, CompactionEnded)]
    assert not ended.problem
    assert ended.tokens_after < ended.tokens_before
    [warned] = [event.message for event in events if isinstance(event, Warned)]
    assert warned.startswith("An extract replaces the older history, because: ")
    assert "compaction" in kinds(transcript_file(tmp_path))


@pytest.mark.covers("A11-8", "A11-9", "ASK-9")
async def test_an_overflow_flushes_compacts_and_asks_once_more(tmp_path: Path) -> None:
    """A window that the provider calls too small in mid-turn is made smaller, and the answer comes."""
    write_settings(tmp_path, window_settings())
    model = ScriptedModel(
        *[says("noted", usage=used(2_000))] * 3,
        fails(ContextOverflow("too long")),
        *note("- saved in time"),
        says(SUMMARY, purpose="compaction"),
        says("now it fits", usage=used(3_000)),
    )
    async with opened(tmp_path, model) as agent:
        for number in range(3):
            await agent.respond(said(f"{number}: {LONG}"))
        events = await events_of(agent, said("and now?"))
    model.assert_complete()

    assert [event.reason for event in events if isinstance(event, CompactionEnded)] == ["overflow"]
    assert isinstance(events[-1], ReplyReady)
    assert events[-1].reply.text == "now it fits"


@pytest.mark.covers("A10-6", "A11-8", "ATT-18")
async def test_a_second_overflow_in_a_turn_is_told(tmp_path: Path) -> None:
    """One compaction and one retry; then the error, with every word still on disk."""
    write_settings(tmp_path, window_settings())
    model = ScriptedModel(
        *[says("noted", usage=used(2_000))] * 3,
        fails(ContextOverflow("too long")),
        says("NO_REPLY", purpose="flush"),
        says(SUMMARY, purpose="compaction"),
        fails(ContextOverflow("still too long")),
    )
    async with opened(tmp_path, model) as agent:
        for number in range(3):
            await agent.respond(said(f"{number}: {LONG}"))
        events = await events_of(agent, said("and now?"))
    model.assert_complete()

    assert isinstance(events[-1], TurnFailed)
    assert "still too long" in str(events[-1].error)
    assert len(user_texts(transcript_file(tmp_path))) == 4


@pytest.mark.covers("A10-9", "A15-1")
async def test_compact_with_a_focus_flushes_and_compacts_by_hand(tmp_path: Path) -> None:
    """`/compact bees` saves notes, asks for a summary with that focus, and says what it gained."""
    write_settings(tmp_path, window_settings())
    model = ScriptedModel(
        *[says("noted", usage=used(2_000))] * 4,
        *note("- by hand"),
        says(SUMMARY, purpose="compaction"),
    )
    async with opened(tmp_path, model) as agent:
        for number in range(4):
            await agent.respond(said(f"{number}: {LONG}"))
        reply = await agent.respond(said("/compact bees"))
    model.assert_complete()

    assert reply is not None
    assert reply.text.startswith("⚙️ Compacted (")
    assert "bees" in message_text(model.requests[-1].messages[0])


@pytest.mark.covers("ASK-9")
async def test_leaving_a_session_saves_what_was_said_since_the_last_flush(tmp_path: Path) -> None:
    """`/new` flushes once more although this cycle had its flush."""
    write_settings(tmp_path, window_settings())
    model = ScriptedModel(
        says("ok", usage=used(8_500)),
        *note("- before"),
        says("two", usage=used(8_600)),
        says("three", usage=used(8_700)),
        *note("- on leaving"),
    )
    async with opened(tmp_path, model) as agent:
        for text in ("one", "two", "three", "/new"):
            await agent.respond(said(text))
        reply = await agent.respond(said("/new"))
    model.assert_complete()

    assert reply is not None
    assert "- on leaving" in (tmp_path / "workspace" / TODAY).read_text()


@pytest.mark.covers("A12-1", "A12-6")
async def test_flush_switched_off_is_never_asked_for(tmp_path: Path) -> None:
    """The setting holds on every path."""
    write_settings(tmp_path, window_settings(enabled=False))
    model = ScriptedModel(says("ok", usage=used(8_500)), says("two", usage=used(8_600)))
    async with opened(tmp_path, model) as agent:
        for text in ("one", "two", "/new"):
            await agent.respond(said(text))
    model.assert_complete()
    assert not (tmp_path / "workspace" / TODAY).exists()


@pytest.mark.slow
async def test_an_unreachable_model_does_not_lose_a_turns_words(tmp_path: Path) -> None:
    """A provider that stays away after retries fails the turn with a sentence."""
    model = ScriptedModel(*[fails(ModelUnavailable("gone"), after_text="I was about") for _ in range(1)])
    async with opened(tmp_path, model) as agent:
        events = await events_of(agent, said("hello"))
    assert isinstance(events[-1], TurnFailed)
    assert user_texts(transcript_file(tmp_path)) == ["hello"]


async def test_what_a_group_made_the_model_note_says_so(tmp_path: Path) -> None:
    """Notes of a group's flush stand in the group's own folder, under a heading that names its session."""
    write_settings(tmp_path, window_settings())
    model = ScriptedModel(says("ok", usage=used(8_500)), *note("- the club meets on Monday"), says("two"))
    group = {"chat_kind": "group", "channel": "chat", "chat_id": "club", "is_owner": False}
    async with opened(tmp_path, model) as agent:
        await agent.respond(said("we meet on Monday", **group))
        await agent.respond(said("right?", **group))
    model.assert_complete()
    workspace = tmp_path / "workspace"
    log = (workspace / "chats/chat-group-club" / Path(TODAY).name).read_text()
    assert log.startswith("## Notes from agent:main:chat:group:club\n\n- the club meets on Monday")
    assert not (workspace / TODAY).exists()


LONG_MEASURING = "The hive needs sugar before the frost comes. "


@pytest.mark.parametrize("tokens", [0, -500, 10**12])
@pytest.mark.covers("A9-1", "A9-8", "ASK-25")
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
            await agent.respond(said(LONG_MEASURING * 520))
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
            await agent.respond(said(f"{number}: {LONG_MEASURING * 300}"))
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
    append_talk(transcript_file(tmp_path), [LONG_MEASURING * 30] * 120)
    async with opened(tmp_path, None) as agent:
        events = await events_of(agent, said("Which boat do I have?"))

    stored = entries(transcript_file(tmp_path))
    [compaction] = [entry for entry in stored if entry["type"] == "compaction"]
    assert [event.problem for event in events if isinstance(event, CompactionEnded)] == [""]
    assert "My boat is called Marlin." in compaction["summary"]
    assert not [entry for entry in stored if entry.get("customType") == PARTIAL_SUMMARY_ENTRY]
