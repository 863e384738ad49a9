"""Sessions that are over by themselves: when, what is saved before, what is told, and what never counts."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from nacre.runtime.contracts.errors import TurnBroken
from nacre.runtime.contracts.events import Event, FlushEnded, ReplyReady, SessionReset, Warned
from nacre.runtime.contracts.model import ModelRequest
from nacre.runtime.models.scripted import Clock, ScriptedModel, calls, says
from nacre.sessions.contracts.messages import message_text
from tests.runtime.agents import events_of, index_lines, kinds, opened, said, user_texts, write_settings

BERLIN = ZoneInfo("Europe/Berlin")
GROUP = {"chat_kind": "group", "channel": "chat", "chat_id": "club"}
FLUSH = says("NO_REPLY", purpose="flush")


def clock_at(text: str) -> Clock:
    return Clock(datetime.fromisoformat(text).replace(tzinfo=BERLIN))


def index_of(state_dir: Path) -> dict[str, Any]:
    return index_lines(state_dir)


def transcript(state_dir: Path, number: int) -> Path:
    """The session files in the order of their ids, which count."""
    return sorted((state_dir / "agents/main/sessions").glob("*.jsonl"))[number]


def resets(events: list[Event]) -> list[str]:
    return [event.reason for event in events if isinstance(event, SessionReset)]


def session_id(events: list[Event]) -> str:
    return next(event.reply.session_id for event in events if isinstance(event, ReplyReady))


async def two_messages(
    state_dir: Path, clock: Clock, *, minutes: float, **chat: Any
) -> tuple[list[Event], list[Event]]:
    """What happens when an owner says two things with a silence between them."""
    # Whether the second answer is a flush's or the reply's is what the test is about.
    model = ScriptedModel(says("yes"), says("NO_REPLY"), says("yes"))
    async with opened(state_dir, model, clock=clock) as agent:
        first = await events_of(agent, said("We sail at nine.", **chat))
        clock.advance(minutes=minutes)
        second = await events_of(agent, said("Good morning.", **chat))
    return first, second


@pytest.mark.covers("A5-6")
async def test_the_morning_begins_a_fresh_session_with_notes_of_the_old_one(tmp_path: Path) -> None:
    """Announced, notes saved first, the old transcript kept and named; the words are on disk before."""
    clock = clock_at("2026-03-14 22:00")

    def words_are_on_disk(_request: ModelRequest) -> bool:
        return user_texts(transcript(tmp_path, 1)) == ["Good morning."]

    def notes_are_read(request: ModelRequest) -> bool:
        return "- We sail at nine." in message_text(request.messages[0])

    model = ScriptedModel(
        says("Noted."),
        calls(("append", {"text": "- We sail at nine."}), purpose="flush", check=words_are_on_disk),
        says("NO_REPLY", purpose="flush"),
        says("Morning!", purpose="turn", check=notes_are_read),
    )
    async with opened(tmp_path, model, clock=clock) as agent:
        first = await events_of(agent, said("We sail at nine."))
        clock.advance(hours=9)
        second = await events_of(agent, said("Good morning."))
    model.assert_complete()

    [reset] = [event for event in second if isinstance(event, SessionReset)]
    assert reset == SessionReset(
        reason="daily", session_id=session_id(second), previous_session_id=session_id(first)
    )
    assert [event.status for event in second if isinstance(event, FlushEnded)] == ["written"]
    assert index_of(tmp_path)["agent:main:main"]["previousSessionIds"] == [session_id(first)]
    assert user_texts(transcript(tmp_path, 0)) == ["We sail at nine."]
    assert "nacre.flush" in kinds(transcript(tmp_path, 0))
    written = (tmp_path / "workspace/memory/2026-03-15.md").read_text(encoding="utf-8")
    assert written == "## Notes of the conversation of 2026-03-14, 22:00\n\n- We sail at nine.\n"


@pytest.mark.covers("W12-1", "ASK-24")
async def test_a_conversation_over_the_hour_is_not_cut_in_two(tmp_path: Path) -> None:
    """Who talks at 03:55 and at 04:05 is in one conversation; the next day's words begin another."""
    clock = clock_at("2026-03-14 03:55")
    model = ScriptedModel(says("one"), says("two"), FLUSH, says("three"))
    async with opened(tmp_path, model, clock=clock) as agent:
        await events_of(agent, said("first"))
        clock.advance(minutes=10)
        second = await events_of(agent, said("second"))
        clock.advance(hours=7)
        third = await events_of(agent, said("third"))
    model.assert_complete()

    assert (resets(second), resets(third)) == ([], ["daily"])


@pytest.mark.covers("A5-18", "W12-1")
async def test_an_answer_that_takes_hours_is_no_silence(tmp_path: Path) -> None:
    """The time in which the assistant works does not count against its owner."""
    write_settings(tmp_path, {"session": {"reset": {"mode": "idle", "idleMinutes": 60}}})
    clock = clock_at("2026-03-14 12:00")

    def takes_long(_request: ModelRequest) -> bool:
        clock.advance(hours=3)
        return True

    model = ScriptedModel(says("Done at last.", check=takes_long), says("You are welcome."))
    async with opened(tmp_path, model, clock=clock) as agent:
        await events_of(agent, said("Work this out."))
        clock.advance(minutes=5)
        thanks = await events_of(agent, said("Thanks!"))

    assert resets(thanks) == []


@pytest.mark.parametrize("command", ["/status", "/compact", "/help"])
@pytest.mark.covers("A5-18", "W12-1")
async def test_what_programs_write_never_keeps_a_session_alive(tmp_path: Path, command: str) -> None:
    """A listing, a flush or a status touches the index, but nobody said anything."""
    write_settings(tmp_path, {"session": {"reset": {"mode": "idle", "idleMinutes": 30}}})
    clock = clock_at("2026-03-14 12:00")
    model = ScriptedModel(says("one"), FLUSH, says("two"))
    async with opened(tmp_path, model, clock=clock) as agent:
        await events_of(agent, said("first"))
        before = index_of(tmp_path)["agent:main:main"]
        clock.advance(minutes=29)
        await agent.respond(said(command))
        clock.advance(minutes=2)
        second = await events_of(agent, said("second"))

    assert resets(second) == ["idle"]
    assert before["lastInteractionAt"] == before["sessionStartedAt"]


@pytest.mark.parametrize(
    ("settings", "chat", "minutes", "reason"),
    [
        ({}, {}, 120, None),
        ({}, {}, 18 * 60, "daily"),
        ({"reset": {"mode": "none"}}, {}, 40 * 24 * 60, None),
        ({"reset": {"mode": "daily", "idleMinutes": 30}}, {}, 31, "idle"),
        ({"idleMinutes": 90}, {}, 91, "idle"),
        ({"idleMinutes": 3000}, {}, 24 * 60, None),
        ({"reset": {"atHour": 13.9}}, {}, 61, "daily"),
        ({"resetByType": {"group": {"mode": "idle", "idleMinutes": 10}}}, {}, 61, None),
        ({"resetByType": {"group": {"mode": "idle", "idleMinutes": 10}}}, {}, 18 * 60, "daily"),
        ({"resetByType": {"group": {"mode": "idle", "idleMinutes": 10}}}, GROUP, 11, "idle"),
        ({"resetByType": {"dm": {"mode": "idle", "idleMinutes": 10}}}, {}, 11, "idle"),
        ({"resetByType": {"thread": {"mode": "idle", "idleMinutes": 180}}}, {"thread_id": "7"}, 120, None),
        ({"resetByType": {"thread": {"mode": "idle"}}}, {**GROUP, "thread_id": "7"}, 61, "idle"),
        ({"resetByChannel": {"Chat": {"mode": "idle"}}, "reset": {"mode": "none"}}, GROUP, 61, "idle"),
        ({"resetByChannel": {"chat": {"mode": "idle"}}, "reset": {"mode": "none"}}, {}, 61, None),
    ],
)
@pytest.mark.covers("A5-9", "A5-10", "A5-11", "A5-12")
async def test_the_settings_say_when(
    tmp_path: Path, settings: dict[str, Any], chat: dict[str, Any], minutes: float, reason: str | None
) -> None:
    """From noon on: the common rule, the rule of a kind, the rule of a channel, the older key."""
    write_settings(tmp_path, {"session": settings})

    _, second = await two_messages(tmp_path, clock_at("2026-03-14 12:00"), minutes=minutes, **chat)

    assert resets(second) == ([reason] if reason else [])


async def test_a_session_of_another_program_is_as_old_as_its_transcript(tmp_path: Path) -> None:
    """OpenClaw's older records say neither when a session began nor when somebody spoke."""
    clock = clock_at("2026-03-14 12:00")
    async with opened(tmp_path, ScriptedModel(says("one")), clock=clock) as agent:
        await events_of(agent, said("first"))
    path = tmp_path / "agents/main/sessions/sessions.json"
    index = json.loads(path.read_text(encoding="utf-8"))
    for name in ("sessionStartedAt", "lastInteractionAt"):
        del index["agent:main:main"][name]
    path.write_text(json.dumps(index), encoding="utf-8")
    model = ScriptedModel(says("two"), FLUSH, says("three"))
    async with opened(tmp_path, model, clock=clock, ids="b") as agent:
        clock.advance(hours=2)
        second = await events_of(agent, said("second"))
        clock.advance(hours=20)
        third = await events_of(agent, said("third"))

    assert (resets(second), resets(third)) == ([], ["daily"])


@pytest.mark.covers("A5-1", "A5-2", "A5-17")
async def test_a_stranger_in_a_group_cannot_reset_it(tmp_path: Path) -> None:
    """`/new` of anybody but the owner is said to the assistant like any other words."""
    model = ScriptedModel(says("hi"), says("I cannot do that."), FLUSH, says("Fresh."))
    async with opened(tmp_path, model) as agent:
        first = await events_of(agent, said("hello", **GROUP))
        theirs = await events_of(agent, said("/new forget all", is_owner=False, **GROUP))
        owners = await events_of(agent, said("/NEW Forget All", **GROUP))
    model.assert_complete()

    assert session_id(first) == session_id(theirs) != session_id(owners)
    assert user_texts(transcript(tmp_path, 0)) == ["hello", "/new forget all"]
    assert user_texts(transcript(tmp_path, 1)) == ["Forget All"]


async def test_a_session_that_cannot_be_ended_goes_on(tmp_path: Path) -> None:
    """Words are never refused for the sake of a reset: they are answered where they can be kept."""
    clock = clock_at("2026-03-14 12:00")
    model = ScriptedModel(says("one"), says("two"))
    async with opened(tmp_path, model, clock=clock) as agent:
        first = await events_of(agent, said("first"))
        (tmp_path / "agents/main/endings").write_text("a file is in the way")
        clock.advance(hours=20)
        second = await events_of(agent, said("second"))
    model.assert_complete()

    assert session_id(second) == session_id(first)
    [told] = [event.message for event in second if isinstance(event, Warned)]
    assert told.startswith("The session could not be ended and continues: Could not ")
    assert user_texts(transcript(tmp_path, 0)) == ["first", "second"]


@pytest.mark.parametrize(
    ("settings", "hours", "shown"),
    [
        ({}, 3, "⏳ Started 3h 0m ago · last message 3h 0m ago · daily reset 2026-03-15 04:00"),
        ({}, 30, "⏳ Started 1d 6h ago · last message 1d 6h ago · daily reset with the next message"),
        ({"reset": {"mode": "none"}}, 30, "⏳ Started 1d 6h ago · last message 1d 6h ago · no reset"),
        (
            {"reset": {"mode": "idle"}},
            0.75,
            "⏳ Started 45m ago · last message 45m ago · idle reset 2026-03-14 13:00",
        ),
    ],
)
@pytest.mark.covers("A15-3")
async def test_status_tells_the_age_and_the_next_reset(
    tmp_path: Path, settings: dict[str, Any], hours: float, shown: str
) -> None:
    """The owner sees how old the session is and when it will be over; asking does not end it."""
    write_settings(tmp_path, {"session": settings})
    clock = clock_at("2026-03-14 12:00")
    async with opened(tmp_path, ScriptedModel(says("yes")), clock=clock) as agent:
        empty = await agent.respond(said("/status"))
        await agent.respond(said("hello"))
        clock.advance(hours=hours)
        reply = await agent.respond(said("/status"))

    assert empty is not None
    assert reply is not None
    assert shown in reply.text
    assert reply.session_id == empty.session_id


async def test_a_reset_that_broke_off_writes_nothing_into_the_session_that_ended(tmp_path: Path) -> None:
    """The key names a session that cannot be opened: the words are refused, not put into the old one."""
    clock = clock_at("2026-03-14 22:00")
    async with opened(tmp_path, ScriptedModel(says("Good night.")), clock=clock) as agent:
        await agent.respond(said("I go to bed."))
        old = transcript(tmp_path, 0)
        for number in range(64):
            if not (taken := old.with_name(f"{number:08x}.jsonl")).exists():
                taken.mkdir()
        clock.advance(hours=12)
        with pytest.raises(TurnBroken, match=r"\.jsonl"):
            await agent.respond(said("Good morning."))

    assert user_texts(old) == ["I go to bed."]
