"""What the owner is told beside the answer: what was cut, lost or repaired, each once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from nacre.runtime.contracts.events import Event, FlushEnded, ReplyReady, Warned
from nacre.runtime.models.scripted import ScriptedModel, calls, says
from nacre.sessions.contracts.messages import message_text
from tests.runtime.agents import events_of, opened, said, transcript_file


def warnings(events: list[Event]) -> list[str]:
    return [event.message for event in events if isinstance(event, Warned)]


@pytest.mark.covers("A1-9")
async def test_a_file_that_was_cut_is_told_once(tmp_path: Path) -> None:
    """The owner learns that MEMORY.md no longer fits, on the first turn and not on each."""
    async with opened(tmp_path, ScriptedModel(says("one"), says("two"))) as agent:
        (agent.workspace / "MEMORY.md").write_text("word " * 9_000, encoding="utf-8")
        first = await events_of(agent, said("hi"))
        second = await events_of(agent, said("hi"))

    [told] = warnings(first)
    assert told.startswith("MEMORY.md is too long for the context")
    assert warnings(second) == []


async def test_a_repaired_transcript_is_told_once(tmp_path: Path) -> None:
    """A line with an unknown parent is linked in, and the news of it is not repeated."""
    async with opened(tmp_path, ScriptedModel(says("one"), says("two"), says("three"))) as agent:
        await agent.respond(said("hi"))
        message = {"role": "user", "content": "hey", "timestamp": 1}
        line = {"type": "message", "id": "q1", "parentId": "gone", "timestamp": "", "message": message}
        with transcript_file(tmp_path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        first = await events_of(agent, said("hi"))
        second = await events_of(agent, said("hi"))

    assert "has the parent 'gone'" in warnings(first)[0]
    assert warnings(second) == []


async def test_a_transcript_that_is_gone_is_told(tmp_path: Path) -> None:
    """The session goes on under its key, and nobody has to wonder what it forgot."""
    model = ScriptedModel(says("one"), says("two"))
    async with opened(tmp_path, model) as agent:
        await agent.respond(said("the bees are back"))
        (gone := transcript_file(tmp_path)).unlink()
        events = await events_of(agent, said("hi"))

    assert gone.name in warnings(events)[0]
    assert isinstance(events[-1], ReplyReady)
    assert [message_text(message) for message in model.requests[-1].messages] == ["hi"]


async def test_a_workspace_that_is_gone_is_told_and_not_grown_anew(tmp_path: Path) -> None:
    """A mount that is not there: the conversation goes on, and nothing is written where it was."""
    model = ScriptedModel(
        says("one"),
        calls(("append", {"path": "memory/x.md", "text": "- x"})),
        says("I could not."),
        calls(("append", {"path": "x", "text": "- saved"}), purpose="flush"),
        says("NO_REPLY", purpose="flush"),
    )
    async with opened(tmp_path, model) as agent:
        await agent.respond(said("hi"))
        shutil.rmtree(agent.workspace)
        events = await events_of(agent, said("note this"))
        leaving = await events_of(agent, said("/new"))
        assert not agent.workspace.exists()
    model.assert_complete()

    assert warnings(events) == ["The workspace folder 'workspace' is gone: no note can be read or written."]
    assert isinstance(events[-1], ReplyReady)
    assert [event.status for event in leaving if isinstance(event, FlushEnded)] == ["failed"]
