"""Going back to an earlier session: what is offered to whom, and what comes with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nacre import Agent
from nacre.runtime.models.scripted import Clock, ScriptedModel, calls, says
from nacre.sessions.contracts.messages import message_text
from tests.runtime.agents import START, opened, said, write_settings

QUIET = {
    "agents": {"defaults": {"compaction": {"memoryFlush": {"enabled": False}}}},
    "hooks": {"internal": {"enabled": False}},
}
GROUP = {"chat_kind": "group", "channel": "chat", "chat_id": "club"}
ENOUGH = [says("yes", purpose="turn") for _ in range(9)]


async def tell(agent: Agent, text: str, **where: object) -> tuple[str, str]:
    """What is answered to a message, and in which session."""
    reply = await agent.respond(said(text, **where))
    assert reply is not None
    return reply.text, reply.session_id


async def two_sessions(agent: Agent, **where: object) -> tuple[str, str]:
    """An earlier session about bees and a present one about boats."""
    _, bees = await tell(agent, "The bees swarm in May", **where)
    await tell(agent, "/new", **where)
    _, boats = await tell(agent, "The boat leaks", **where)
    return bees, boats


@pytest.mark.covers("ASK-24")
async def test_an_earlier_session_goes_on_where_it_was_left(tmp_path: Path) -> None:
    """By its number in the list; the model reads that conversation, and the way back is told."""
    write_settings(tmp_path, QUIET)
    model = ScriptedModel(*ENOUGH)
    async with opened(tmp_path, model) as agent:
        bees, boats = await two_sessions(agent)
        listed, _ = await tell(agent, "/resume")
        back, session_id = await tell(agent, "/resume 1")
        await tell(agent, "When do they swarm?")
        await tell(agent, f"/resume {boats}")
        _, last = await tell(agent, "Is it mended?")

    assert listed.splitlines()[1].startswith("1. ")
    assert listed.endswith(f" · {bees[:8]} · The bees swarm in May")
    assert back.startswith("↩️ Back in the session of ")
    assert " · 2 messages. " in back
    assert f"/resume {boats[:8]}" in back
    assert (session_id, last) == (bees, boats)
    texts = [message_text(message) for message in model.requests[2].messages]
    assert any("bees swarm in May" in text for text in texts)
    assert not any("boat" in text for text in texts)
    record = json.loads((tmp_path / "agents/main/sessions/sessions.json").read_text())["agent:main:main"]
    assert (record["sessionId"], record["previousSessionIds"]) == (boats, [bees])


async def test_messages_are_counted_as_a_person_counts_them(tmp_path: Path) -> None:
    """A tool call and its result are none of the messages that going back finds."""
    write_settings(tmp_path, QUIET)
    model = ScriptedModel(calls(("list", {})), says("It is empty."))
    async with opened(tmp_path, model) as agent:
        await tell(agent, "What is in the folder?")
        await tell(agent, "/new")
        back, _ = await tell(agent, "/resume 1")
    assert " · 2 messages. " in back


async def test_notes_of_the_session_that_is_left_are_saved_first(tmp_path: Path) -> None:
    """As before `/new`, and once."""
    model = ScriptedModel(
        says("yes"),
        says("NO_REPLY", purpose="flush"),
        says("yes"),
        says("NO_REPLY", purpose="flush"),
        says("yes"),
    )
    async with opened(tmp_path, model) as agent:
        bees, _ = await two_sessions(agent)
        await tell(agent, f"/resume {bees[:8]}")
        assert (await tell(agent, "Go on"))[1] == bees

    model.assert_complete()


async def test_a_session_of_last_week_is_not_reset_before_a_word_is_said(tmp_path: Path) -> None:
    """Going back counts as beginning: neither the daily reset nor the idle one ends it at once."""
    write_settings(tmp_path, {**QUIET, "session": {"reset": {"mode": "daily", "idleMinutes": 60}}})
    clock = Clock(START)
    async with opened(tmp_path, ScriptedModel(*ENOUGH), clock=clock) as agent:
        bees, _ = await two_sessions(agent)
        clock.advance(days=7)
        await tell(agent, "/resume 1")
        _, session_id = await tell(agent, "And now?")

    assert session_id == bees


async def test_only_sessions_of_this_chat_are_offered(tmp_path: Path) -> None:
    """A group is shown neither the owner's own sessions nor anybody's words; ids of others are unknown."""
    write_settings(tmp_path, QUIET)
    async with opened(tmp_path, ScriptedModel(*ENOUGH)) as agent:
        bees, _ = await two_sessions(agent)
        club, _ = await two_sessions(agent, **GROUP)
        listed, _ = await tell(agent, "/resume", **GROUP)
        refused, session_id = await tell(agent, f"/resume {bees}", **GROUP)
        own, _ = await tell(agent, "/resume")

    assert len(listed.splitlines()) == 2
    assert listed.endswith(f" · {club[:8]}")
    assert refused == f"This chat has no earlier session {bees!r}. /resume lists them."
    assert session_id != bees
    assert club[:8] not in own


async def test_others_cannot_go_back(tmp_path: Path) -> None:
    """From somebody else the command is a text like any other."""
    write_settings(tmp_path, QUIET)
    async with opened(tmp_path, ScriptedModel(*ENOUGH)) as agent:
        await two_sessions(agent, **GROUP)
        answer, _ = await tell(agent, "/resume 1", **GROUP, is_owner=False, sender_id="joe")

    assert answer == "yes"


async def test_what_cannot_be_gone_back_to_is_told(tmp_path: Path) -> None:
    """No earlier session, the present one, a number too high, a session that was deleted."""
    write_settings(tmp_path, QUIET)
    async with opened(tmp_path, ScriptedModel(*ENOUGH)) as agent:
        nothing, _ = await tell(agent, "/resume")
        _, first = await tell(agent, "hi")
        present, _ = await tell(agent, f"/resume {first}")
        await tell(agent, "/new")
        too_high, _ = await tell(agent, "/resume 7")
        (tmp_path / f"agents/main/sessions/{first}.jsonl").rename(tmp_path / "gone")
        gone, _ = await tell(agent, f"/resume {first}")

    assert nothing == "This chat has no earlier session to go back to."
    assert present == "This is the current session."
    assert too_high == "This chat has no earlier session '7'. /resume lists them."
    assert gone == f"This chat has no earlier session {first!r}. /resume lists them."


async def test_a_transcript_that_was_brought_along_goes_on_in_private(tmp_path: Path) -> None:
    """One that tells no key is offered in the owner's private chat and nowhere else."""
    write_settings(tmp_path, QUIET)
    folder = tmp_path / "agents/main/sessions"
    folder.mkdir(parents=True)
    header = {
        "type": "session",
        "version": 3,
        "id": "feed-1",
        "timestamp": "2026-01-01T10:00:00.000Z",
        "cwd": "/",
    }
    message = {"role": "user", "content": "From long ago", "timestamp": 1767261600000}
    entry = {
        "type": "message",
        "id": "a1",
        "parentId": None,
        "timestamp": header["timestamp"],
        "message": message,
    }
    (folder / "feed-1.jsonl").write_text(f"{json.dumps(header)}\n{json.dumps(entry)}\n")
    model = ScriptedModel(*ENOUGH)
    async with opened(tmp_path, model) as agent:
        refused, _ = await tell(agent, "/resume feed-1", **GROUP)
        await tell(agent, "/resume feed-1")
        _, session_id = await tell(agent, "Do you remember?")

    assert refused.startswith("This chat has no earlier session")
    assert session_id == "feed-1"
    assert "From long ago" in message_text(model.requests[0].messages[0])


async def test_the_session_of_a_former_main_key_can_be_gone_on_with(tmp_path: Path) -> None:
    """After `session.mainKey` was changed, `/resume` offers what was said before; one line is left."""
    write_settings(tmp_path, QUIET)
    async with opened(tmp_path, ScriptedModel(*ENOUGH)) as agent:
        _, bees = await tell(agent, "The bees swarm in May")
    write_settings(tmp_path, {**QUIET, "session": {"mainKey": "home"}})
    async with opened(tmp_path, ScriptedModel(*ENOUGH), ids="later-") as agent:
        listed, _ = await tell(agent, "/resume")
        await tell(agent, "/resume 1")
        reply = await agent.respond(said("When?"))

    assert "The bees swarm in May" in listed
    assert reply is not None
    assert (reply.session_key, reply.session_id) == ("agent:main:home", bees)
    assert list(json.loads((tmp_path / "agents/main/sessions/sessions.json").read_text())) == [
        "agent:main:home"
    ]
