"""What chat commands leave behind: sessions, files, words; and what they show to whom."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nacre.runtime.contracts.errors import ContextOverflow
from nacre.runtime.contracts.events import CompactionEnded, FlushEnded
from nacre.runtime.contracts.inbound import Attachment
from nacre.runtime.models.scripted import ScriptedModel, fails, says
from nacre.sessions.contracts.messages import Usage, message_text
from tests.runtime.agents import (
    events_of,
    kinds,
    opened,
    said,
    transcript_file,
    user_texts,
    window_settings,
    write_settings,
)

GROUP = {"chat_kind": "group", "channel": "chat", "chat_id": "club"}


def transcripts(state_dir: Path) -> int:
    return len(list((state_dir / "agents/main/sessions").glob("*.jsonl")))


@pytest.mark.covers("A12-2")
async def test_new_before_anything_was_said_stays_in_the_empty_session(tmp_path: Path) -> None:
    """Ten times `/new` does not leave ten sessions, nor an empty transcript."""
    async with opened(tmp_path, ScriptedModel()) as agent:
        first = await agent.respond(said("/new"))
        second = await agent.respond(said("/new"))

    assert first is not None
    assert second is not None
    assert first.session_id == second.session_id
    assert transcripts(tmp_path) == 0


async def test_new_with_a_file_goes_on_with_the_file(tmp_path: Path) -> None:
    """What came with the command is not thrown away."""
    model = ScriptedModel(says("A list of bees."))
    file = Attachment(name="bees.csv", mime_type="text/csv", data=b"a,b")
    async with opened(tmp_path, model) as agent:
        reply = await agent.respond(said("/new", attachments=(file,)))

    assert reply is not None
    assert reply.text == "A list of bees."
    assert "bees.csv" in user_texts(transcript_file(tmp_path))[0]


async def test_the_index_remembers_the_sessions_before_new(tmp_path: Path) -> None:
    """An older conversation can be found again by its key."""
    model = ScriptedModel(says("one"), says("NO_REPLY", purpose="flush"), says("two"))
    async with opened(tmp_path, model) as agent:
        old = await agent.respond(said("hello"))
        await agent.respond(said("/new"))
        await agent.respond(said("again"))

    assert old is not None
    index = json.loads((tmp_path / "agents/main/sessions/sessions.json").read_text(encoding="utf-8"))
    assert index["agent:main:main"]["previousSessionIds"] == [old.session_id]


@pytest.mark.covers("W13-2")
async def test_compacting_twice_flushes_and_compacts_once(tmp_path: Path) -> None:
    """The second `/compact` says that there is nothing to do, and asks no model."""
    write_settings(tmp_path, window_settings())
    long = "The hive needs sugar before the frost comes. " * 300
    model = ScriptedModel(
        *[says("noted", usage=Usage(input_tokens=1_000))] * 4,
        says("NO_REPLY", purpose="flush"),
        says("## Goal\nBees", purpose="compaction"),
    )
    async with opened(tmp_path, model) as agent:
        for _ in range(4):
            await agent.respond(said(long))
        first = await events_of(agent, said("/compact"))
        second = await events_of(agent, said("/compact"))
    model.assert_complete()

    assert [type(event) for event in first[:2]] == [FlushEnded, CompactionEnded]
    assert [event.problem[:18] for event in second if isinstance(event, CompactionEnded)] == [
        "Nothing to compact"
    ]
    assert kinds(transcript_file(tmp_path)).count("compaction") == 1


@pytest.mark.parametrize(("chat", "shown"), [({}, True), (GROUP, False)])
async def test_status_tells_the_workspace_only_in_private(
    tmp_path: Path, chat: dict[str, str], shown: bool
) -> None:
    """A path names the owner's account; in a group others read along."""
    async with opened(tmp_path, ScriptedModel()) as agent:
        reply = await agent.respond(said("/status", **chat))

    assert reply is not None
    assert (str(tmp_path) in reply.text) is shown


@pytest.mark.covers("A11-10")
async def test_a_message_too_long_for_the_window_says_what_helps(tmp_path: Path) -> None:
    """It is shown shorter and shorter first; the next message is answered, and no summary was asked for."""
    write_settings(tmp_path, window_settings())
    model = ScriptedModel(
        *[fails(ContextOverflow("Too long."), purpose="turn")] * 4,
        says("NO_REPLY", purpose="flush"),
        says("Here I am."),
    )
    async with opened(tmp_path, model) as agent:
        with pytest.raises(ContextOverflow, match=r"Too long\. If your last message is very long"):
            await agent.respond(said("The hive needs sugar before the frost comes. " * 4_000))
        reply = await agent.respond(said("hello?"))
    model.assert_complete()

    assert reply is not None
    assert reply.text == "Here I am."
    assert message_text(model.requests[-1].messages[-1]) == "hello?"
    assert len(user_texts(transcript_file(tmp_path))) == 2
