"""What one part of a session keeps while another changes the view: pruning, going back, compaction, flush."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from nacre import Agent
from nacre.runtime.contracts.events import CompactionEnded, FallbackAnswered, FlushEnded, ReplyReady
from nacre.runtime.contracts.model import ModelRequest
from nacre.runtime.models.scripted import Clock, ScriptedModel, calls, says
from nacre.sessions.contracts.messages import ToolResultMessage, message_text
from tests.runtime.agents import (
    LONG,
    START,
    TODAY,
    events_of,
    opened,
    said,
    transcript_file,
    used,
    user_texts,
    window_settings,
    write_settings,
)
from tests.servers import provider_wire as wire
from tests.servers.provider_server import ProviderServer

PAGE = "The hive needs sugar before the frost comes.\n" * 450

QUIET = says("NO_REPLY", purpose="flush")
BEGINNING = says("## Original Request\nRead it.", purpose="compaction")
"""The summary of a turn's beginning, where the cut falls into the turn."""
SUMMARY = says("## Goal\nKeep bees.", purpose="compaction")
GROUP = {"chat_kind": "group", "channel": "chat", "chat_id": "club"}


def results(request: ModelRequest) -> list[str]:
    return [message_text(message) for message in request.messages if isinstance(message, ToolResultMessage)]


async def reply_to(agent: Agent, text: str, **where: Any) -> str:
    reply = await agent.respond(said(text, **where))
    assert reply is not None
    return reply.text


@pytest.mark.covers("ASK-25")
async def test_what_was_pruned_stays_so_after_going_back_forking_and_compacting(tmp_path: Path) -> None:
    """The provider's cache holds what is left of the conversation, so what is left is sent as it was."""
    defaults: dict[str, Any] = {
        "contextTokens": 32_000,
        "contextPruning": {"mode": "cache-ttl"},
        "compaction": {"reserveTokens": 0, "reserveTokensFloor": 0, "keepRecentTokens": 4_000},
    }
    write_settings(tmp_path, {"agents": {"defaults": defaults}})
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace/page.md").write_text(PAGE)
    reading = [[calls(("read", {"path": "page.md"})), says("Read.")] for _ in range(5)]
    model = ScriptedModel(*[step for turn in reading for step in turn], says("More."))
    clock = Clock(START)
    async with opened(tmp_path, model, clock=clock) as agent:
        for number in range(5):
            await agent.respond(said(f"Read it, {number}"))
        clock.advance(minutes=20)
        await agent.respond(said("And more"))
        pruned = results(model.requests[-1])
        model.add(QUIET, says("Again."))
        await agent.respond(said("/rewind 1"))
        await agent.respond(said("And again"))
        gone_back = results(model.requests[-1])
        model.add(says("Forked."))
        await agent.respond(said("/fork here"))
        await agent.respond(said("And here"))
        forked = results(model.requests[-1])
        model.add(QUIET, SUMMARY, BEGINNING, says("Compacted."))
        assert "Compacted (" in await reply_to(agent, "/compact")
        await agent.respond(said("And now"))
        kept = results(model.requests[-1])
    model.assert_complete()

    assert len(pruned) == 5
    assert len(pruned[0]) < 4_000 < len(pruned[-1])
    assert gone_back == pruned
    assert forked == pruned
    assert 0 < len(kept) < 5
    assert kept == pruned[-len(kept) :]


@pytest.mark.covers("ASK-21")
async def test_a_tools_result_in_the_middle_of_a_turn_is_flushed_and_compacted(tmp_path: Path) -> None:
    """The window is looked at before every call of the model: the turn goes on behind a summary."""
    write_settings(tmp_path, window_settings())
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace/page.md").write_text(PAGE)
    model = ScriptedModel(
        says("noted", usage=used(3_000)),
        says("noted", usage=used(3_000)),
        calls(("read", {"path": "page.md"}), usage=used(2_500)),
        calls(("read", {"path": "page.md"}), usage=used(11_500)),
        calls(("append", {"text": "- sugar before frost"}), purpose="flush"),
        QUIET,
        SUMMARY,
        says("It needs sugar.", usage=used(9_000)),
    )
    async with opened(tmp_path, model) as agent:
        for number in range(2):
            await agent.respond(said(f"{number}: {LONG}"))
        events = await events_of(agent, said("What does the page say?"))

    happened = [event for event in events if isinstance(event, FlushEnded | CompactionEnded)]
    assert [type(event) for event in happened] == [FlushEnded, CompactionEnded]
    assert isinstance(events[-1], ReplyReady)
    texts = [message_text(message) for message in model.requests[-1].messages]
    assert "Keep bees." in texts[0]
    assert "What does the page say?" in texts
    assert any("- sugar before frost" in text for text in texts)
    assert len(user_texts(transcript_file(tmp_path))) == 3


@pytest.mark.covers("ASK-1")
async def test_a_compaction_brings_todays_log_back_into_view(tmp_path: Path) -> None:
    """The notes that were saved before it are read with the very next request."""
    write_settings(tmp_path, window_settings())
    model = ScriptedModel(
        *[says("noted", usage=used(3_000))] * 4,
        calls(("append", {"text": "- sugar before frost"}), purpose="flush"),
        QUIET,
        SUMMARY,
        says("Sugar."),
        says("Yes."),
    )
    async with opened(tmp_path, model) as agent:
        for number in range(4):
            await agent.respond(said(f"{number}: {LONG}"))
        assert "Compacted (" in await reply_to(agent, "/compact")
        await agent.respond(said("What does it need?"))
        await agent.respond(said("Sure?"))

    for request in model.requests[-2:]:
        recalled = [text for text in map(message_text, request.messages) if "- sugar before frost" in text]
        assert len(recalled) == 1
        assert TODAY in recalled[0]


class Refusing:
    """Two models of known windows at one address; from `refuses` on the larger one is at its limit."""

    def __init__(self) -> None:
        self.refuses = False
        self.asked: Counter[tuple[str, str]] = Counter()

    def __call__(self, request: dict[str, Any]) -> wire.Step:
        tools = [tool["function"]["name"] for tool in request.get("tools", [])]
        purpose = "flush" if tools == ["append"] else "turn" if tools else "side"
        self.asked[request["model"], purpose] += 1
        if self.refuses and request["model"] == "gpt-4o":
            return wire.error(429, retry_after=600)
        headings = re.findall(r"## [A-Z][A-Za-z &]+", json.dumps(request["messages"][-1]["content"]))
        answers = {"flush": "NO_REPLY", "turn": "ok", "side": "\n".join(f"{head}\nx" for head in headings)}
        tokens = len(json.dumps(request["messages"])) // 4
        return wire.reply(answers[purpose] or "name", usage=wire.usage(tokens, 5))


@pytest.mark.slow
async def test_a_fallback_with_a_small_window_gets_a_conversation_that_fits_and_stays_so(
    tmp_path: Path,
) -> None:
    """Flushed and compacted once, and not again while it answers; the index tells its window."""
    provider = Refusing()
    model = {"primary": "openai/gpt-4o", "fallbacks": ["openai/gpt-3.5-turbo"]}
    async with ProviderServer(responder=provider) as server:
        providers = {"openai": {"baseUrl": server.url, "apiKey": "sk-secret-key"}}
        write_settings(
            tmp_path, {"agents": {"defaults": {"model": model}}, "models": {"providers": providers}}
        )
        async with opened(tmp_path) as agent:
            for number in range(6):
                await agent.respond(said(f"{number}: {LONG}"))
            provider.refuses = True
            first = await events_of(agent, said("and now?"))
            second = await events_of(agent, said("and then?"))

    assert [type(event) for event in first if isinstance(event, FlushEnded | CompactionEnded)] == [
        FlushEnded,
        CompactionEnded,
    ]
    assert not any(isinstance(event, FlushEnded | CompactionEnded) for event in second)
    for events in (first, second):
        assert [event.model_name for event in events if isinstance(event, FallbackAnswered)] == [
            "openai/gpt-3.5-turbo"
        ]
        assert isinstance(events[-1], ReplyReady)
    assert provider.asked["gpt-4o", "turn"] == 7
    index = json.loads((tmp_path / "agents/main/sessions/sessions.json").read_text(encoding="utf-8"))
    record = index["agent:main:main"]
    assert (record["model"], record["contextTokens"]) == ("gpt-3.5-turbo", 16_385)


@pytest.mark.slow
async def test_a_window_that_nobody_knows_is_as_large_as_what_it_refused(tmp_path: Path) -> None:
    """Notes come from the model, room is made at once, and the next turns are not refused again."""
    most_tokens = 24_000
    refused: list[int] = []

    def local_model(request: dict[str, Any]) -> wire.Step:
        tokens = len(json.dumps(request["messages"])) // 4
        if tokens > most_tokens:
            refused.append(tokens)
            return wire.overflow(most_tokens, tokens)
        if request.get("tools"):
            is_flush = [tool["function"]["name"] for tool in request["tools"]] == ["append"]
            return wire.reply("NO_REPLY" if is_flush else "ok", usage=wire.usage(tokens, 5))
        return wire.reply("## Goal\nKeep bees.")

    async with ProviderServer(responder=local_model) as server:
        providers = {"openai": {"baseUrl": server.url, "apiKey": "sk-secret-key"}}
        model = {"model": "openai/of-my-own"}
        write_settings(tmp_path, {"agents": {"defaults": model}, "models": {"providers": providers}})
        async with opened(tmp_path) as agent:
            turns = [await events_of(agent, said(f"{number}: {LONG}")) for number in range(10)]

    assert all(isinstance(events[-1], ReplyReady) for events in turns)
    flushes = [event for events in turns for event in events if isinstance(event, FlushEnded)]
    compactions = [event for events in turns for event in events if isinstance(event, CompactionEnded)]
    assert {event.problem for event in (*flushes, *compactions)} == {""}
    assert all(event.tokens_after < most_tokens // 2 for event in compactions)
    assert len(refused) == 1


@pytest.mark.covers("ASK-25")
async def test_no_command_of_the_owner_shows_a_group_anything_private(tmp_path: Path) -> None:
    """Flush, summary, fork, resume and `/reset soft` in a group send no private file and leave no note."""
    memory = tmp_path / "workspace/memory"
    memory.mkdir(parents=True)
    (tmp_path / "workspace/MEMORY.md").write_text("SECRET of the owner")
    (tmp_path / "workspace/USER.md").write_text("SECRET name")
    (tmp_path / "workspace" / TODAY).write_text("- SECRET log\n")
    write_settings(tmp_path, window_settings())
    owner = {**GROUP, "sender_id": "me"}
    note = calls(("append", {"text": "- the club meets in May"}), purpose="flush")
    model = ScriptedModel(*[says("noted", usage=used(3_000))] * 4, note, QUIET, SUMMARY, says("May."))
    async with opened(tmp_path, model) as agent:
        for number in range(4):
            await agent.respond(said(f"{number}: {LONG}", **GROUP, sender_id="eve", is_owner=False))
        told = [await reply_to(agent, "/compact", **owner), await reply_to(agent, "When?", **owner)]
        model.add(says("Still May."), QUIET)
        told += [
            await reply_to(agent, text, **owner)
            for text in ("/reset soft", "/status", "/fork here", "/resume", "/rewind", "Sure?", "/new")
        ]
    model.assert_complete()

    for request in model.requests:
        texts = [message_text(message) for message in request.messages]
        assert "SECRET" not in "\n".join([request.system.joined(), *texts]), request.purpose
    assert "SECRET" not in "\n".join(told)
    assert [path.name for path in memory.iterdir()] == [Path(TODAY).name]
    notes = tmp_path / "workspace/chats/chat-group-club" / Path(TODAY).name
    assert "Notes from agent:main:chat:group:club" in notes.read_text()
