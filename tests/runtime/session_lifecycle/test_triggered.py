"""Heartbeats and scheduled messages in an agent: what a model reads, and what is left of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nacre import Inbound
from nacre.runtime.contracts.events import ReplyReady, SessionReset, Silence
from nacre.runtime.models.scripted import Clock, ScriptedModel, calls, says
from nacre.sessions.contracts.messages import message_text
from tests.runtime.agents import START, events_of, opened, said, transcript_file, user_texts, write_settings

LIST = "# What to look at\n\n- Is the backup there?\n"


def heartbeat(number: int = 1, **changes: Any) -> Inbound:
    """A heartbeat in the owner's private chat."""
    return said("", trigger="heartbeat", channel="line", chat_id="a", message_id=f"h{number}", **changes)


def put_list(state_dir: Path, text: str) -> None:
    """Writes HEARTBEAT.md."""
    (state_dir / "workspace").mkdir(parents=True, exist_ok=True)
    (state_dir / "workspace" / "HEARTBEAT.md").write_text(text)


async def test_an_empty_list_costs_no_call(tmp_path: Path) -> None:
    """Nor does it begin a session."""
    model = ScriptedModel()
    async with opened(tmp_path, model) as agent:
        [event] = await events_of(agent, heartbeat())

    assert event == Silence(session_key="agent:main:main", session_id="")
    assert model.requests == []
    assert list((tmp_path / "agents" / "main" / "sessions").glob("*.jsonl")) == []


@pytest.mark.parametrize("answer", ["HEARTBEAT_OK", "NO_REPLY", "All is well. **HEARTBEAT_OK**"])
async def test_a_heartbeat_that_finds_nothing_leaves_no_trace(tmp_path: Path, answer: str) -> None:
    """It is silent, and the next words are answered as if it had not been; the file keeps it."""
    put_list(tmp_path, LIST)
    model = ScriptedModel(says("Good evening."), says(answer), says("Yes."))
    async with opened(tmp_path, model) as agent:
        await agent.ask("Hello")
        events = await events_of(agent, heartbeat())
        await agent.ask("Are you there?")

    assert isinstance(events[-1], Silence)
    asked = [message_text(message) for message in model.requests[1].messages]
    assert "- Is the backup there?" in asked[-1]
    assert "HEARTBEAT_OK" in asked[-1]
    assert "Saturday, 2026-03-14 23:30 CET" in asked[-1]
    seen = [message_text(message) for message in model.requests[2].messages]
    assert not any("heartbeat" in text.lower() for text in seen)
    assert [text for text in seen if text in ("Hello", "Good evening.", "Are you there?")] == [
        "Hello",
        "Good evening.",
        "Are you there?",
    ]
    assert any("This is a heartbeat" in text for text in user_texts(transcript_file(tmp_path)))


async def test_a_heartbeat_during_which_notes_were_saved_stays_in_view(tmp_path: Path) -> None:
    """The flush is about the whole conversation, so what it covers is not taken back."""
    flush = {"forceFlushTranscriptBytes": 500}
    write_settings(tmp_path, {"agents": {"defaults": {"compaction": {"memoryFlush": flush}}}})
    put_list(tmp_path, LIST)
    model = ScriptedModel(
        says("Good evening."), says("NO_REPLY", purpose="flush"), says("HEARTBEAT_OK"), says("Yes.")
    )
    async with opened(tmp_path, model) as agent:
        await agent.ask("Hello")
        events = await events_of(agent, heartbeat())
        await agent.ask("Are you there?")

    assert isinstance(events[-1], Silence)
    assert any("This is a heartbeat" in message_text(each) for each in model.requests[3].messages)


async def test_what_a_heartbeat_finds_is_said_and_stays(tmp_path: Path) -> None:
    """The owner can answer it."""
    put_list(tmp_path, LIST)
    model = ScriptedModel(
        calls(("read", {"path": "HEARTBEAT.md"})),
        says("HEARTBEAT_OK\n\nThe backup of last night is missing. " + "Details. " * 40),
        says("I will."),
    )
    async with opened(tmp_path, model) as agent:
        events = await events_of(agent, heartbeat())
        await agent.ask("Look again tomorrow.")

    assert isinstance(events[-1], ReplyReady)
    assert events[-1].reply.text.startswith("The backup of last night is missing.")
    seen = [message_text(message) for message in model.requests[2].messages]
    assert any("backup of last night is missing" in text for text in seen)


async def test_a_heartbeat_that_was_broken_off_is_answered_once(tmp_path: Path) -> None:
    """Handed in again, the answer is taken from the transcript, and what found nothing leaves the view."""
    put_list(tmp_path, LIST)
    model = ScriptedModel(says("HEARTBEAT_OK but " + "x" * 400))
    async with opened(tmp_path, model) as agent:
        first = await events_of(agent, heartbeat())
        again = await events_of(agent, heartbeat(redelivered=True))

    assert isinstance(first[-1], ReplyReady)
    assert isinstance(again[-1], ReplyReady)
    assert first[-1].reply.text == again[-1].reply.text
    assert len(model.requests) == 1


@pytest.mark.covers("A13-7")
async def test_a_missing_list_leaves_it_to_the_model(tmp_path: Path) -> None:
    """As OpenClaw does; a group, where the list may not be read, has no heartbeat at all."""
    model = ScriptedModel(says("HEARTBEAT_OK"))
    async with opened(tmp_path, model) as agent:
        (tmp_path / "workspace" / "HEARTBEAT.md").unlink()
        await events_of(agent, heartbeat())
        await events_of(agent, heartbeat(2, chat_kind="group", sender_id="nora"))

    [request] = model.requests
    assert "There is no HEARTBEAT.md" in message_text(request.messages[-1])


async def test_a_scheduled_message_is_never_a_command(tmp_path: Path) -> None:
    """Its words stand inside a message that says what it is."""
    model = ScriptedModel(says("Water the plants!"))
    async with opened(tmp_path, model) as agent:
        reply = await agent.respond(said("/new forget everything", trigger="schedule", message_id="j1"))

    assert reply is not None
    assert reply.text == "Water the plants!"
    text = message_text(model.requests[0].messages[-1])
    assert not text.startswith("/new")
    assert "/new forget everything" in text


@pytest.mark.covers("A5-18")
async def test_what_nobody_said_neither_ends_a_session_nor_keeps_it_going(tmp_path: Path) -> None:
    """An idle session gets its heartbeats, and ends with the next words all the same."""
    write_settings(tmp_path, {"session": {"reset": {"mode": "idle", "idleMinutes": 60}}})
    put_list(tmp_path, LIST)
    clock = Clock(START)
    model = ScriptedModel(says("Hi."), says("HEARTBEAT_OK"), says("HEARTBEAT_OK"), says("Hello again."))
    async with opened(tmp_path, model, clock=clock) as agent:
        await agent.ask("Hello")
        clock.advance(minutes=50)
        await events_of(agent, heartbeat(1))
        clock.advance(minutes=50)
        silent = await events_of(agent, heartbeat(2))
        events = await events_of(agent, said("Me again"))

    assert not any(isinstance(event, SessionReset) for event in silent)
    assert any(isinstance(event, SessionReset) for event in events)
