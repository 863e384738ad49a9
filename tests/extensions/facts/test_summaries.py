"""Summaries of compactions become notes in private chats, unless told otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nacre.extensions.facts.extension import keeps_summaries
from nacre.runtime.contracts.policy import ChatPolicy
from nacre.runtime.models.scripted import ScriptedModel, says
from nacre.runtime.settings.sections.channels import Binding
from nacre.runtime.settings.sections.memory import FactsSettings
from nacre.runtime.tools.function import ToolChat
from nacre.sessions.index.record import Origin
from tests.runtime.agents import opened, said, window_settings, write_settings

SUMMARY = "## Goal\nTo move to Porto.\n\n## Key Decisions\n- **Flat**: the one by the river"


def _chat(kind: str, *, is_owner: bool) -> ToolChat:
    policy = ChatPolicy(chat_kind=kind, is_owner=is_owner, session_key_is_private=kind == "direct")
    origin = Origin(chat_kind=kind, channel="telegram", account="default", chat_id="7", sender_id="9")
    return ToolChat(
        session_key="k", session_id="s", channel="telegram", policy=policy, workspace=Path(), origin=origin
    )


@pytest.mark.parametrize(
    ("setting", "bindings", "private", "group"),
    [
        ({}, [], True, False),
        ({"compactionSummaries": "off"}, [], False, False),
        ({"compactionSummaries": "on"}, [], True, True),
        ({}, [({"channel": "telegram"}, False)], False, False),
        ({}, [({"channel": "telegram"}, True)], True, True),
        ({}, [({"channel": "irc"}, True)], True, False),
        (
            {},
            [({"channel": "telegram"}, False), ({"channel": "telegram", "peer": {"id": "7"}}, True)],
            True,
            True,
        ),
        (
            {},
            [({"channel": "telegram"}, True), ({"channel": "telegram", "peer": {"id": "7"}}, None)],
            True,
            True,
        ),
    ],
)
@pytest.mark.covers("FACT-12")
def test_a_binding_decides_before_the_setting(
    setting: dict[str, Any], bindings: list[tuple[Any, Any]], private: bool, group: bool
) -> None:
    """On for personal use, off for others; the most specific binding that says something counts."""
    facts = FactsSettings.model_validate(setting)
    bound = [
        Binding.model_validate({"agentId": "main", "match": match, "compactionSummaries": keeps})
        for match, keeps in bindings
    ]
    assert keeps_summaries(_chat("direct", is_owner=True), facts, bound) is private
    assert keeps_summaries(_chat("group", is_owner=True), facts, bound) is group


@pytest.mark.covers("FACT-11")
async def test_a_summary_of_the_owners_chat_is_recalled_later(tmp_path: Path) -> None:
    """It is a note of the owner's, with the session that it sums up as its source."""
    write_settings(
        tmp_path, {**window_settings(200_000, enabled=False), "memory": {"facts": {"enabled": True}}}
    )
    model = ScriptedModel(
        says("A long answer. " * 4_000), says("Short."), says(SUMMARY, purpose="compaction")
    )
    async with opened(tmp_path, model) as agent:
        await agent.respond(said("First. " * 3_000))
        reply = await agent.respond(said("Second. " * 20_000))
        assert reply is not None
        await agent.respond(said("/compact"))

        (note,) = (await agent.memory.known("owner")).notes
        assert note.text.startswith("## Goal\nTo move to Porto.")
        assert note.source == f"compaction of session {reply.session_id}"
        (chunk,) = (await agent.memory.recall("owner", "the flat by the river", k=1)).memory_chunks
        assert chunk.note == note
