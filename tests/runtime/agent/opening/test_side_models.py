"""Other models than the one that answers, for summaries and for flushes: chosen in the settings file."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from nacre.runtime.contracts.events import CompactionEnded, FlushEnded, ReplyReady, Warned
from tests.runtime.agents import events_of, opened, said, window_settings, write_settings
from tests.servers.provider_server import ProviderServer
from tests.servers.provider_wire import Step, error, reply, stall

LONG = "We decided to move to Lisbon in May. " * 330


class Provider:
    """Three models at one address; `broken` ones refuse every request, a `stalling` one never ends."""

    def __init__(self, *broken: str, stalling: str = "") -> None:
        self.broken = broken
        self.stalling = stalling
        self.asked: Counter[tuple[str, str]] = Counter()

    def __call__(self, request: dict[str, Any]) -> Step:
        text = json.dumps(request["messages"][-1]["content"])
        purpose = "turn"
        if "memory flush" in text:
            purpose = "flush"
        elif "<conversation>" in text:
            purpose = "compaction"
        model = request["model"].split("/")[-1]
        self.asked[model, purpose] += 1
        if model == self.stalling:
            return stall("## Goal")
        if model in self.broken:
            return error(401, "invalid key")
        return reply({"turn": "ok", "flush": "NO_REPLY", "compaction": "## Goal\nBees"}[purpose])


async def compacted(tmp_path: Path, provider: Provider, **compaction: Any) -> list[Any]:
    """The events of a conversation that outgrows its window, with other models for notes and summaries."""
    settings = window_settings(model="openai/notes")
    defaults = settings["agents"]["defaults"]
    defaults["model"] = "openai/large"
    defaults["compaction"] |= {"model": "openai/small", **compaction}
    async with ProviderServer(responder=provider) as server:
        settings["models"] = {"providers": {"openai": {"baseUrl": server.url, "apiKey": "sk-secret-key"}}}
        write_settings(tmp_path, settings)
        async with opened(tmp_path) as agent:
            events = []
            for number in range(4):
                events += await events_of(agent, said(f"{number}: {LONG}"))
            return events


async def test_summaries_and_notes_come_from_the_models_that_were_chosen(tmp_path: Path) -> None:
    """The model that answers is asked for answers alone."""
    provider = Provider()
    events = await compacted(tmp_path, provider)

    assert {model for model, purpose in provider.asked if purpose == "flush"} == {"notes"}
    assert {model for model, purpose in provider.asked if purpose == "compaction"} == {"small"}
    assert {model for model, purpose in provider.asked if purpose == "turn"} == {"large"}
    assert {event.problem for event in events if isinstance(event, CompactionEnded)} == {""}


async def test_a_summary_model_that_fails_is_followed_by_the_one_that_answers(tmp_path: Path) -> None:
    """A refused key costs no compaction, and the owner learns who wrote the summary."""
    provider = Provider("small")
    events = await compacted(tmp_path, provider)

    assert provider.asked["large", "compaction"] >= provider.asked["small", "compaction"] > 0
    assert {event.problem for event in events if isinstance(event, CompactionEnded)} == {""}
    warning, *_ = [event.message for event in events if isinstance(event, Warned)]
    assert ("openai/large" in warning, "openai/small" in warning) == (True, True)
    assert "sk-secret-key" not in warning


@pytest.mark.covers("A12-11")
async def test_a_flush_model_that_fails_has_no_other_model_behind_it(tmp_path: Path) -> None:
    """The choice is exact: an extract is noted instead, and the model that answers is not asked."""
    provider = Provider("notes")
    events = await compacted(tmp_path, provider)

    assert provider.asked["large", "flush"] == 0
    flushed = [event for event in events if isinstance(event, FlushEnded)]
    assert flushed
    assert all("openai/notes" in event.problem for event in flushed)
    assert flushed[0].status == "fallback"


@pytest.mark.slow
async def test_a_summary_model_that_stalls_is_given_up_in_time(tmp_path: Path) -> None:
    """Each part has its own time; then the model that answers writes the summary, and the turn goes on."""
    provider = Provider(stalling="small")
    events = await compacted(tmp_path, provider, timeoutSeconds=1.5)

    assert provider.asked["small", "compaction"] >= 3
    assert {event.problem for event in events if isinstance(event, CompactionEnded)} == {""}
    assert any(
        "took longer than 1.5 seconds" in event.message for event in events if isinstance(event, Warned)
    )
    assert len([event for event in events if isinstance(event, ReplyReady)]) == 4
