"""What was said or read in private stays with the owner, whoever names which session how."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nacre import Agent
from nacre.runtime.models.scripted import ScriptedModel, calls, says
from nacre.sessions.contracts.messages import message_text
from tests.runtime.agents import TODAY, opened, said, write_settings

SECRET = "the safe opens with 4711"
STRANGER = {"is_owner": False, "channel": "chat", "sender_id": "joe"}


def keep_secrets(agent: Agent) -> None:
    """Puts a secret into every private file of the workspace."""
    for name in ("MEMORY.md", "USER.md", TODAY):
        (agent.workspace / name).write_text(f"- {SECRET}\n", encoding="utf-8")


def what_was_sent(model: ScriptedModel, number: int) -> str:
    """The bytes of one request, as far as a model reads them."""
    request = model.requests[number]
    return request.system.joined() + "".join(message_text(message) for message in request.messages)


async def test_the_owner_in_a_strangers_session_shows_it_nothing_private(tmp_path: Path) -> None:
    """The stranger reads that transcript later, so the owner's memory stays out of it."""
    model = ScriptedModel(
        says("hello"),
        calls(("memory_search", {"query": SECRET}), ("memory_get", {"path": "MEMORY.md"})),
        says("yes"),
        says("so"),
    )
    async with opened(tmp_path, model) as agent:
        keep_secrets(agent)
        first = await agent.respond(said("hi", **STRANGER))
        assert first is not None
        second = await agent.respond(said("I am the owner", session_key=first.session_key))
        await agent.respond(said("what did he say?", **STRANGER))

    assert second is not None
    assert second.session_id == first.session_id
    assert all(SECRET not in what_was_sent(model, number) for number in range(4))
    found, read = (message_text(message) for message in model.requests[2].messages[-2:])
    assert '"results":[]' in found
    assert SECRET not in read


async def test_a_private_session_is_not_handed_to_somebody_else(tmp_path: Path) -> None:
    """Whoever comes with its key and is no longer the owner begins a session of their own."""
    write_settings(tmp_path, {"session": {"dmScope": "per-channel-peer"}})
    model = ScriptedModel(says(f"noted: {SECRET}"), says("who are you?"))
    async with opened(tmp_path, model) as agent:
        mine = await agent.respond(said(SECRET, channel="chat", sender_id="joe"))
        theirs = await agent.respond(said("what did I say?", **STRANGER))

    assert mine is not None
    assert theirs is not None
    assert mine.session_key == theirs.session_key
    assert mine.session_id != theirs.session_id
    assert SECRET in what_was_sent(model, 0)
    assert SECRET not in what_was_sent(model, 1)


async def test_a_private_session_stays_private_after_reopening(tmp_path: Path) -> None:
    """The owner's own session goes on with memory and transcript in the next process."""
    async with opened(tmp_path, ScriptedModel(says("hello"))) as agent:
        keep_secrets(agent)
        await agent.respond(said("first"))
    model = ScriptedModel(says("again"))
    async with opened(tmp_path, model, ids="second-") as agent:
        await agent.respond(said("second"))

    assert SECRET in what_was_sent(model, 0)
    assert "first" in what_was_sent(model, 0)


@pytest.mark.parametrize("claim", ["false", "true", 1])
@pytest.mark.covers("A5-3")
async def test_only_true_makes_an_owner(tmp_path: Path, claim: Any) -> None:
    """A bridge that hands in a word instead of a truth value does not open the main session."""
    model = ScriptedModel(says("hello"))
    async with opened(tmp_path, model) as agent:
        keep_secrets(agent)
        reply = await agent.respond(said("/status", channel="chat", sender_id="joe", is_owner=claim))

    assert reply is not None
    assert reply.session_key == "agent:main:chat:dm:joe"
    assert not reply.is_command
    assert SECRET not in what_was_sent(model, 0)
