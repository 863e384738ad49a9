"""Notes that wait for the owner: from a flush and a group to `/review`, through whole turns."""

from __future__ import annotations

import re
from pathlib import Path

from nacre import Agent, Inbound
from nacre.runtime.contracts.events import FlushEnded
from nacre.runtime.models.scripted import ScriptedModel, calls, says
from tests.runtime.agents import LONG, TODAY, events_of, opened, said, write_settings

REVIEW = {
    "memory": {"writes": "review"},
    "agents": {"defaults": {"compaction": {"memoryFlush": {"forceFlushTranscriptBytes": 20_000}}}},
}


async def _told(agent: Agent, text: str) -> str:
    reply = await agent.respond(said(text))
    assert reply is not None
    return reply.text


async def test_a_flush_waits_and_is_accepted_in_the_chat(tmp_path: Path) -> None:
    """The note is not there until the owner says so, after a restart too; the flush tells that it waits."""
    write_settings(tmp_path, REVIEW)
    model = ScriptedModel(
        says("ok"),
        calls(("append", {"path": "x.md", "text": "- Buy sugar."}), purpose="flush"),
        says("NO_REPLY", purpose="flush"),
        says("ok"),
    )
    log = tmp_path / "workspace" / TODAY
    async with opened(tmp_path, model) as agent:
        await agent.respond(said(LONG))
        flushed = [each for each in await events_of(agent, said(LONG)) if isinstance(each, FlushEnded)]
        before = log.exists() and "sugar" in log.read_text()
    async with opened(tmp_path, ScriptedModel(), ids="later") as agent:
        shown = await _told(agent, "/review")
        [found] = re.findall(r"\*\*([0-9a-f]{8})\*\*", shown)
        accepted = await _told(agent, f"/review accept {found}")
        again = await _told(agent, f"/review accept {found}")
        empty = await _told(agent, "/review")

    assert [(each.status, each.path) for each in flushed] == [("proposed", TODAY)]
    assert not before
    assert "+- Buy sugar." in shown
    assert accepted == f"Written into {TODAY} ({found})."
    assert again != accepted
    assert empty == "Nothing waits for review."
    assert log.read_text().count("- Buy sugar.") == 1


async def test_what_a_group_has_noted_waits_and_no_group_sees_the_list(tmp_path: Path) -> None:
    """The model is told that it waits; `/review` is for the private chat, where its text is edited."""
    write_settings(tmp_path, REVIEW)
    model = ScriptedModel(
        calls(("append", {"path": "chats/telegram-group-7/notes.md", "text": "- Bea likes rye."})),
        says("Noted."),
        says("Which list?"),
    )
    group = {"chat_kind": "group", "channel": "telegram", "chat_id": "7"}
    async with opened(tmp_path, model) as agent:
        await agent.respond(said("Bea likes rye.", **group))
        in_group = await agent.respond(Inbound(text="/review", is_owner=True, **group))
        shown = await _told(agent, "/review")
        [found] = re.findall(r"\*\*([0-9a-f]{8})\*\*", shown)
        edited = await _told(agent, f"/review edit {found} - Bea likes oats.")

    note = tmp_path / "workspace/chats/telegram-group-7/notes.md"
    assert in_group is None or "rye" not in in_group.text
    assert "+- Bea likes rye." in shown
    assert edited == "Your text is written into chats/telegram-group-7/notes.md."
    assert note.read_text() == "- Bea likes oats.\n"
