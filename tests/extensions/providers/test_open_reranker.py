"""Which re-ranker the settings ask for, and an agent that is searched with one over HTTP."""

from __future__ import annotations

import json
from datetime import UTC
from pathlib import Path

import pytest

from nacre.extensions.providers.embedding.local_models import CrossEncoderReranker
from nacre.extensions.providers.extension import reranker_for
from nacre.extensions.providers.litellm import LiteLLMReranker, load_litellm
from nacre.memory.contracts.settings import RerankSettings
from nacre.runtime.contracts.clock import system_clock
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.models.spending import SpendingLedger
from nacre.runtime.recall.open_memory import open_memory
from nacre.runtime.settings.config import load_config
from nacre.runtime.settings.sections.models import ProviderSettings
from nacre.runtime.settings.spending import spending_ledger
from nacre.sessions.contracts.messages import Usage
from tests.extensions.providers.rerank_server import RerankServer
from tests.runtime.agents import write_settings


def chosen(**settings: object) -> object:
    """What these settings choose, with a key of Jina's among the providers."""
    return reranker_for(
        RerankSettings.model_validate(settings),
        {"jina_ai": ProviderSettings(api_key="sk-jina")},
        home=Path("/home/rosa"),
        now_seconds=lambda: 0.0,
        ledger=lambda: SpendingLedger(
            Path("/nowhere"), agent_id="main", now=system_clock(UTC), cap_usd=lambda: None
        ),
    )


def test_no_provider_is_no_re_ranker() -> None:
    """Nor is `none`, whatever the model."""
    assert chosen() is None
    assert chosen(provider="none", model="x") is None


def test_a_provider_needs_a_model() -> None:
    """There is no usual one."""
    with pytest.raises(ConfigError, match=r"query\.rerank\.model is missing"):
        chosen(provider="cohere")


def test_local_and_remote_ones_are_told_apart() -> None:
    """A folder may begin with `~`; a provider in front of the model's name is not doubled."""
    local = chosen(provider="sentence-transformers", model="~/models/ranker")
    remote = chosen(provider="Jina_AI", model="jina_ai/jina-reranker-v2")
    assert isinstance(local, CrossEncoderReranker)
    assert local.name == "sentence-transformers//home/rosa/models/ranker"
    assert isinstance(remote, LiteLLMReranker)
    assert remote.name == "jina_ai/jina-reranker-v2"


async def test_the_settings_file_is_enough(tmp_path: Path) -> None:
    """Address and key come from the settings; the report names the re-ranker, a dead one is told."""
    with RerankServer() as server:
        await load_litellm("x/y")  # which a busy machine may take longer for than a search waits
        asked: dict[str, object] = {
            "provider": "jina_ai",
            "model": "m",
            "baseUrl": server.url,
            "apiKey": "sk-own",
        }
        asked |= {"timeoutMs": 60_000}
        search = {"provider": "none", "query": {"minScore": 0, "rerank": asked}}
        write_settings(tmp_path, {"agents": {"defaults": {"memorySearch": search}}})
        config = load_config({"HOME": str(tmp_path)}, state_dir=tmp_path)
        notes = config.folders.workspace / "memory"
        notes.mkdir(parents=True)
        for day, text in enumerate(("The hive swarms in May.", "Rosa painted the hive blue in April."), 1):
            (notes / f"2026-03-0{day}.md").write_text(text)
        engine = await open_memory(config, system_clock(UTC))
        assert engine is not None
        report = await engine.search("When was the hive painted blue?")
        server.answer = 500, json.dumps({"message": "down"})
        degraded = await engine.search("When was the hive painted blue?")
        await engine.close()
    assert report.reranked_by == "jina_ai/m"
    assert report.hits[0].path == "memory/2026-03-02.md"
    assert server.headers[0]["authorization"] == "Bearer sk-own"
    assert "jina_ai/m" in degraded.degraded


async def test_a_search_goes_on_by_words_when_the_cap_is_reached(tmp_path: Path) -> None:
    """Neither the embedding provider nor the re-ranker is asked, and the report says why."""
    search = {
        "provider": "openai",
        "remote": {"baseUrl": "http://192.0.2.1/v1", "apiKey": "sk-own"},
        "query": {"minScore": 0, "rerank": {"provider": "cohere", "model": "rerank-v3.5", "apiKey": "k"}},
    }
    write_settings(
        tmp_path, {"agents": {"defaults": {"memorySearch": search}}, "usage": {"dailyCapUsd": 0.01}}
    )
    config = load_config({"HOME": str(tmp_path)}, state_dir=tmp_path)
    await load_litellm("x/y")
    ledger = spending_ledger(config, system_clock(UTC))
    await ledger.spend("turn", "a/b", Usage(input_tokens=1, cost_usd=0.01), at_ms=1)
    notes = config.folders.workspace / "memory"
    notes.mkdir(parents=True)
    (notes / "2026-03-01.md").write_text("The hive swarms in May.")
    (notes / "2026-03-02.md").write_text("Rosa painted the hive.")
    engine = await open_memory(config, system_clock(UTC))
    assert engine is not None
    report = await engine.search("When does the hive swarm?")
    await engine.close()
    assert report.hits[0].path == "memory/2026-03-01.md"
    assert "usage.dailyCapUsd" in report.degraded
    assert not report.reranked_by
