"""Pruning in a conversation: what the model is sent, what stays on disk, and that it stays so."""

from __future__ import annotations

import base64
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from nacre import Attachment
from nacre.runtime.contracts.events import CompactionEnded
from nacre.runtime.contracts.model import ModelRequest
from nacre.runtime.models.scripted import Clock, ScriptedModel, calls, says
from nacre.sessions.contracts.messages import Image, Message, ToolResultMessage, Usage, message_text
from nacre.sessions.view.sent_view import IMAGE_GONE
from tests.runtime.agents import START, entries, events_of, opened, said, transcript_file, write_settings
from tests.runtime.turn.inbound.test_images import png
from tests.servers.provider_server import ProviderServer
from tests.servers.provider_wire import usage

PAGE = "The hive needs sugar before the frost comes.\n" * 150


def settings(window_tokens: int = 32_000, **pruning: Any) -> dict[str, Any]:
    """A window without reserve: flush at 28,000 tokens; pruning as asked."""
    return {
        "agents": {
            "defaults": {
                "contextTokens": window_tokens,
                "compaction": {"reserveTokens": 0, "reserveTokensFloor": 0},
                "contextPruning": {"mode": "cache-ttl", **pruning},
            }
        }
    }


def used(tokens: int) -> Usage:
    return Usage(input_tokens=tokens, output_tokens=10)


def results(request: ModelRequest) -> list[str]:
    """The tool results of a request."""
    return [message_text(message) for message in request.messages if isinstance(message, ToolResultMessage)]


def stored_results(state_dir: Path) -> list[str]:
    """The tool results as they stand in the transcript's file."""
    stored = entries(transcript_file(state_dir))
    messages = [entry["message"] for entry in stored if entry["type"] == "message"]
    return [message["content"][0]["text"] for message in messages if message["role"] == "toolResult"]


def sent(messages: tuple[Message, ...]) -> str:
    """Messages byte for byte as a provider gets them, times aside."""
    return json.dumps([{**message.to_json(), "timestamp": 0} for message in messages])


def reading(tokens: int) -> list[Any]:
    """A turn in which the page is read."""
    return [calls(("read", {"path": "page.md"})), says("Read.", usage=used(tokens))]


async def talk(state_dir: Path, clock: Clock, model: ScriptedModel, *words: str, ids: str = "") -> None:
    """Some turns; the page is there to be read."""
    (state_dir / "workspace").mkdir(parents=True, exist_ok=True)
    (state_dir / "workspace/page.md").write_text(PAGE)
    async with opened(state_dir, model, clock=clock, ids=ids) as agent:
        for text in words:
            await agent.respond(said(text))
    model.assert_complete()


async def test_pruned_results_stay_pruned_byte_for_byte_also_after_a_restart(tmp_path: Path) -> None:
    """W11-1: the request after a pruning begins like the pruned one, so that the provider's cache holds."""
    write_settings(tmp_path, settings())
    clock = Clock(START)
    model = ScriptedModel(
        *reading(3_000),
        *reading(6_000),
        *reading(9_000),
        says("ok", usage=used(10_000)),
        now_ms=clock.now_ms,
    )
    await talk(tmp_path, clock, model, "one", "two", "three", "four")
    assert all(text == PAGE.rstrip("\n") for text in results(model.requests[-1]))

    clock.advance(minutes=6)
    later = ScriptedModel(says("five", usage=used(8_000)), says("six"), now_ms=clock.now_ms)
    await talk(tmp_path, clock, later, "five", "six", ids="second-")
    first, second = later.requests
    assert "[Tool result trimmed: kept first 1500 chars and last 1500 chars of" in results(first)[0]
    assert len(results(first)[0]) < 3_200
    assert sent(second.messages[: len(first.messages)]) == sent(first.messages)

    write_settings(tmp_path, settings(softTrim={"headChars": 10}, hardClear={"placeholder": "other"}))
    restarted = ScriptedModel(says("seven"), now_ms=clock.now_ms)
    await talk(tmp_path, clock, restarted, "seven", ids="third-")
    [third] = restarted.requests
    assert sent(third.messages[: len(second.messages)]) == sent(second.messages)
    assert stored_results(tmp_path) == [PAGE.rstrip("\n")] * 3


async def test_time_is_up_once_and_then_waits(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The call after a pruning has touched the prompt anew; the log says so with numbers."""
    caplog.set_level(logging.INFO, logger="nacre.runtime.turn.window.pruning.session")
    write_settings(tmp_path, settings())
    clock = Clock(START)
    model = ScriptedModel(*reading(12_000), *[says("ok")] * 3, now_ms=clock.now_ms)
    await talk(tmp_path, clock, model, "1", "2", "3", "4")
    clock.advance(minutes=5)
    model = ScriptedModel(says("ok"), says("ok"), now_ms=clock.now_ms)
    await talk(tmp_path, clock, model, "5", "6", ids="second-")

    stored = entries(transcript_file(tmp_path))
    [record] = [entry["data"] for entry in stored if entry.get("customType") == "nacre.prune"]
    assert record["reason"] == "ttl"
    assert record["savedTokens"] > 500
    told = [record.getMessage() for record in caplog.records]
    assert "neither time nor size calls for it" in told[-1]
    assert "idle 0 s, ttl 300 s" in told[-1]
    assert any(text.startswith("pruned agent:main:main (ttl): 1 results") for text in told)


async def test_pruning_makes_room_before_a_compaction_is_due(tmp_path: Path) -> None:
    """What was saved is taken off the provider's last count: a window that has room is not compacted."""
    write_settings(tmp_path, settings())
    clock = Clock(START)
    quiet = [says("ok", usage=used(13_000))] * 2
    steps = [*reading(9_000), *reading(10_000), *reading(12_000), *quiet]
    await talk(tmp_path, clock, ScriptedModel(*steps, now_ms=clock.now_ms), "1", "2", "3", "4", "5")
    write_settings(tmp_path, settings(16_000, sizeTriggerRatio=0.5))
    full = ScriptedModel(says("Still here."))
    async with opened(tmp_path, full, clock=clock, ids="second-") as agent:
        events = await events_of(agent, said("6"))
    assert not any(isinstance(event, CompactionEnded) for event in events)
    assert all(len(text) < 3_200 for text in results(full.requests[0]))
    stored = entries(transcript_file(tmp_path))
    assert [entry["data"]["reason"] for entry in stored if entry.get("customType") == "nacre.prune"] == [
        "size"
    ]
    full.assert_complete()


async def test_an_image_is_sent_in_its_own_turn_and_three_more(tmp_path: Path) -> None:
    """Then a line stands in its place, in every later request the same; the transcript keeps it."""
    data = png(9, 6)
    model = ScriptedModel(*[says("ok")] * 6)
    async with opened(tmp_path, model) as agent:
        picture = Attachment(name="bee.png", mime_type="image/png", data=data)
        await agent.respond(said("look", attachments=(picture,)))
        for number in range(5):
            await agent.respond(said(str(number)))

    has_image = [
        any(isinstance(block, Image) for message in request.messages for block in message.content)
        for request in model.requests
    ]
    assert has_image == [True, True, True, True, False, False]
    assert IMAGE_GONE in message_text(model.requests[4].messages[0])
    assert sent(model.requests[5].messages[:9]) == sent(model.requests[4].messages[:9])
    assert base64.b64encode(data).decode() in transcript_file(tmp_path).read_text()


async def test_without_the_mode_nothing_is_pruned(tmp_path: Path) -> None:
    """Off is the default."""
    write_settings(tmp_path, {"agents": {"defaults": {"contextTokens": 32_000}}})
    clock = Clock(START)
    await talk(tmp_path, clock, ScriptedModel(*reading(3_000), *[says("ok")] * 3), "1", "2", "3", "4")
    clock.advance(hours=1)
    model = ScriptedModel(says("ok"))
    await talk(tmp_path, clock, model, "5", ids="second-")
    assert results(model.requests[0]) == [PAGE.rstrip("\n")]


async def test_cleared_results_never_reach_the_provider(tmp_path: Path) -> None:
    """On the wire old results are their placeholder; the last one, and all in the transcript, are whole."""
    pruning = settings(softTrimRatio=0.01, hardClearRatio=0.02, minPrunableToolChars=100)
    clock = Clock(START)
    async with ProviderServer() as server:
        pruning["models"] = {"providers": {"openai": {"baseUrl": server.url, "apiKey": "sk-secret-key"}}}
        pruning["agents"]["defaults"]["model"] = "openai/test-model"
        write_settings(tmp_path, pruning)
        for tokens in (3_000, 5_000, 7_000, 9_000):
            server.tool_calls(("read", {"path": "page.md"}), usage=usage(tokens, 10))
            server.reply("Read.", usage=usage(tokens, 10))
        server.reply("Done.")
        async with opened(tmp_path, None, clock=clock) as agent:
            (agent.workspace / "page.md").write_text(PAGE)
            for number in range(4):
                await agent.respond(said(f"read it, {number}"))
            clock.advance(minutes=6)
            await agent.respond(said("and now?"))

        whole = PAGE.rstrip("\n")
        wire = [
            [message["content"] for message in request["messages"] if message["role"] == "tool"]
            for request in server.requests
        ]
        assert wire[-2] == [whole] * 4
        assert wire[-1] == ["[Old tool result content cleared]"] * 3 + [whole]
        assert server.raw[-1].count(b"The hive needs sugar") == whole.count("The hive needs sugar")
    assert stored_results(tmp_path) == [whole] * 4
