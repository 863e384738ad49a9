"""Whole turns over HTTP while providers fail: a fallback answers, nothing is lost, nothing is said twice."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nacre import Agent
from nacre.runtime.contracts.errors import AllModelsFailed, BadModelReply, ContextOverflow
from nacre.runtime.contracts.events import (
    AnswerDiscarded,
    CompactionEnded,
    Event,
    FallbackAnswered,
    ReplyReady,
    TextStreamed,
    TurnFailed,
)
from tests.runtime.agents import (
    agent_in,
    entries,
    events_of,
    said,
    transcript_file,
    user_texts,
    write_settings,
)
from tests.servers import provider_wire as wire
from tests.servers.provider_server import ProviderServer

LONG = "The hive needs sugar before the frost comes. " * 270
FALLBACK = "openai/second"
LARGE, SMALL = "openai/gpt-4o", "openai/gpt-3.5-turbo"
"""Models whose windows are known: 128,000 and 16,385 tokens."""


async def open_agent(state_dir: Path, server: ProviderServer, **defaults: Any) -> Agent:
    """An agent with a model and a fallback, both at the server."""
    model = {"primary": "openai/first", "fallbacks": [FALLBACK]}
    write_settings(
        state_dir,
        {
            "agents": {"defaults": {"model": model, **defaults}},
            "models": {"providers": {"openai": {"baseUrl": server.url, "apiKey": "sk-secret-key"}}},
        },
    )
    return await agent_in(state_dir)


def asked(server: ProviderServer) -> list[str]:
    """The models that were asked, in order."""
    return [str(request["model"]) for request in server.requests]


def visible(events: list[Event]) -> str:
    """What a person sees in the end who takes away what is void."""
    text = ""
    for event in events:
        if isinstance(event, TextStreamed):
            text += event.text
        elif isinstance(event, AnswerDiscarded):
            text = ""
    return text


def said_by_models(state_dir: Path) -> list[str]:
    """What stands in the transcript as a model's answer."""
    return [
        block["text"]
        for entry in entries(transcript_file(state_dir))
        if entry["type"] == "message" and entry["message"]["role"] == "assistant"
        for block in entry["message"]["content"]
    ]


async def assert_fallback_answers(state_dir: Path, *faults: wire.Step, **defaults: Any) -> list[Event]:
    """A turn whose first model fails so; gives its events."""
    async with ProviderServer() as server:
        server.add(*faults)
        server.reply("Here.")
        async with await open_agent(state_dir, server, **defaults) as agent:
            events = await events_of(agent, said("hello"))
        assert asked(server) == ["first"] * len(faults) + ["second"]
    assert isinstance(events[-1], ReplyReady)
    assert events[-1].reply.text == "Here."
    assert visible(events) == "Here."
    assert [event.model_name for event in events if isinstance(event, FallbackAnswered)] == [FALLBACK]
    assert user_texts(transcript_file(state_dir)) == ["hello"]
    assert said_by_models(state_dir) == ["Here."]
    return events


@pytest.mark.parametrize(
    "fault",
    [
        wire.error(429, retry_after=120),
        wire.error(401),
        wire.error(402, "Payment required"),
        wire.error(400, "messages[3].role is odd"),
        wire.error(404, "The model does not exist"),
    ],
    ids=["rate-limit", "key", "credit", "format", "unknown-model"],
)
async def test_a_refusal_leads_to_the_fallback(tmp_path: Path, fault: wire.Step) -> None:
    """At once, and the owner is told who answered and why."""
    await assert_fallback_answers(tmp_path, fault)


async def test_the_window_that_is_told_is_that_of_the_model_that_answered(tmp_path: Path) -> None:
    """Of a fallback with a smaller window; while the first model is left alone, `/status` says so."""
    async with ProviderServer() as server:
        server.error(429, retry_after=120)
        server.reply("Here.")
        async with await open_agent(
            tmp_path, server, model={"primary": LARGE, "fallbacks": [SMALL]}
        ) as agent:
            await agent.respond(said("hello"))
            status = await agent.respond(said("/status"))
    index = json.loads((tmp_path / "agents/main/sessions/sessions.json").read_text(encoding="utf-8"))
    assert index["agent:main:main"]["contextTokens"] == 16_385
    assert status is not None
    assert any(LARGE in line and SMALL in line for line in status.text.splitlines())
    assert "/16.4k (" in status.text


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [
        wire.error(500),
        wire.drop("The hive "),
        wire.reply("The hive ", ending="cut"),
    ],
    ids=["500", "half-closed", "cut"],
)
async def test_trouble_on_the_line_is_tried_again_and_then_left(tmp_path: Path, fault: wire.Step) -> None:
    """Once more after two seconds, then the fallback; what had been said is void, and kept aside."""
    events = await assert_fallback_answers(tmp_path, fault, fault)
    aside = [
        entry
        for entry in entries(transcript_file(tmp_path))
        if entry.get("customType") == "nacre.broken_answer"
    ]
    assert len(aside) == sum(isinstance(event, AnswerDiscarded) for event in events)
    assert len(aside) == (2 if fault.text else 0)


async def test_a_web_page_leads_to_the_fallback_at_once(tmp_path: Path) -> None:
    """An address that answers with a page will do so again; nothing is tried twice."""
    await assert_fallback_answers(tmp_path, wire.Step(body="<html>"))


@pytest.mark.covers("A17-4")
async def test_a_stalled_answer_leads_to_the_fallback(tmp_path: Path) -> None:
    """The silent stream is given up and not asked again; its beginning is not said twice."""
    events = await assert_fallback_answers(tmp_path, wire.stall("The hive "), modelTimeoutSeconds=1)
    assert any(isinstance(event, AnswerDiscarded) for event in events)


async def test_a_cooling_model_is_not_asked_in_the_next_turn_nor_after_a_restart(tmp_path: Path) -> None:
    """The limit is remembered on disk; each turn tells who answered."""
    async with ProviderServer() as server:
        server.error(429, retry_after=120)
        for _ in range(3):
            server.reply("Here.")
        async with await open_agent(tmp_path, server) as agent:
            await agent.respond(said("one"))
            await agent.respond(said("two"))
        async with await open_agent(tmp_path, server) as agent:
            events = await events_of(agent, said("three"))
        assert asked(server) == ["first", "second", "second", "second"]
    assert any(isinstance(event, FallbackAnswered) for event in events)


@pytest.mark.covers("W16-1", "ASK-22")
async def test_a_malformed_transcript_takes_no_model_from_other_sessions(tmp_path: Path) -> None:
    """W16-1: both models refuse one session's request; the next session is answered by the first."""
    async with ProviderServer() as server:
        server.error(400, "messages[3].role is odd")
        server.error(400, "messages[3].role is odd")
        server.reply("Here.")
        async with await open_agent(tmp_path, server) as agent:
            with pytest.raises(AllModelsFailed, match=r"All models failed \(2\).*\(format\)"):
                await agent.respond(said("broken"))
            await agent.respond(said("hello", session_key="agent:main:other"))
        assert asked(server) == ["first", "second", "first"]


async def test_an_overflow_asks_no_other_model_and_keeps_the_session(tmp_path: Path) -> None:
    """A second overflow ends the turn with what to do; every word is on disk and the session goes on."""
    async with ProviderServer() as server:
        for _ in range(3):
            server.reply("ok", usage=wire.usage(2_000, 10))
        server.overflow(window_tokens=20_000, asked_tokens=20_400)
        server.reply("NO_REPLY")
        server.reply("## Goal\nBees.")
        server.overflow(window_tokens=20_000, asked_tokens=20_400)
        server.reply("Still here.")
        async with await open_agent(tmp_path, server, contextTokens=20_000) as agent:
            for number in range(3):
                await agent.respond(said(f"{number}: {LONG}"))
            events = await events_of(agent, said("and now?"))
            answer = await agent.respond(said("hello?"))
        assert set(asked(server)) == {"first"}
    assert isinstance(events[-1], TurnFailed)
    assert isinstance(events[-1].error, ContextOverflow)
    assert sum(isinstance(event, CompactionEnded) for event in events) == 1
    assert answer is not None
    assert answer.text == "Still here."
    assert [text.split(":")[0] for text in user_texts(transcript_file(tmp_path))] == [
        "0",
        "1",
        "2",
        "and now?",
        "hello?",
    ]


async def test_a_smaller_fallback_gets_a_conversation_that_fits(tmp_path: Path) -> None:
    """It is compacted first, by the fallback itself, because the first model is left alone by then."""
    purposes: list[tuple[str, str]] = []

    def answer(request: Mapping[str, Any]) -> wire.Step:
        last = json.dumps(request["messages"][-1]["content"])
        kinds = {"memory flush": "flush", "<conversation>": "compaction"}
        purpose = next((kind for words, kind in kinds.items() if words in last), "turn")
        purposes.append((request["model"], purpose))
        if request["model"] == "gpt-4o" and len(purposes) > 6:
            return wire.error(429, retry_after=120)
        if purpose == "turn":
            return wire.reply("Here.", usage=wire.usage(len(json.dumps(request["messages"])) // 4, 10))
        return wire.reply("NO_REPLY" if purpose == "flush" else "## Goal\nFeed the bees.")

    model = {"primary": "openai/gpt-4o", "fallbacks": ["openai/gpt-3.5-turbo"]}
    async with (
        ProviderServer(responder=answer) as server,
        await open_agent(tmp_path, server, model=model) as agent,
    ):
        for number in range(6):
            await agent.respond(said(f"{number}: {LONG}"))
        events = await events_of(agent, said("and now?"))

    assert purposes[6] == ("gpt-4o", "turn")
    assert {name for name, _ in purposes[7:]} == {"gpt-3.5-turbo"}
    assert [purpose for _, purpose in purposes[7:]].count("turn") == 1
    assert purposes[-1] == ("gpt-3.5-turbo", "turn")
    [compacted] = [event for event in events if isinstance(event, CompactionEnded)]
    assert compacted.problem == ""
    assert compacted.tokens_after < 9_000
    assert isinstance(events[-1], ReplyReady)
    assert len(user_texts(transcript_file(tmp_path))) == 7


async def test_an_answer_outside_the_protocol_is_told_when_nobody_is_left(tmp_path: Path) -> None:
    """With one model its own error is told, not a list of one."""
    async with ProviderServer() as server:
        server.error(400, "messages[3].role is odd")
        async with await open_agent(tmp_path, server, model="openai/first") as agent:
            with pytest.raises(BadModelReply, match="malformed"):
                await agent.respond(said("hello"))
