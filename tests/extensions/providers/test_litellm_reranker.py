"""Re-rankers of providers through the real litellm, asked over HTTP on loopback."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nacre.extensions.providers.litellm import LiteLLMReranker
from nacre.memory.search.rerankers.reranker import RerankingFailed
from nacre.runtime.models.scripted import Clock
from nacre.runtime.models.spending import SpendingLedger, spending
from tests.extensions.providers.json_service import usage_folder
from tests.extensions.providers.rerank_server import RerankServer

TEXTS = ["The router is an Omada.", "Rosa keeps the garden hive.", "The hive of Rosa swarms in May."]
QUESTION = "When swarms the hive?"


@pytest.fixture
def server() -> Iterator[RerankServer]:
    """One that answers rightly unless told otherwise."""
    with RerankServer() as running:
        yield running


@asynccontextmanager
async def opened(
    server: RerankServer,
    name: str,
    key: str | None = "sk-secret",
    *,
    url: str = "",
    folder: Path | None = None,
    cap_usd: float | None = None,
) -> AsyncIterator[LiteLLMReranker]:
    """A loaded re-ranker that asks this server."""
    with usage_folder(folder) as usage:
        ledger = SpendingLedger(usage, agent_id="main", now=Clock(), cap_usd=lambda: cap_usd)
        reranker = LiteLLMReranker(
            name, base_url=url or server.url, api_key=key, now_seconds=lambda: 0.0, ledger=ledger
        )
        await reranker.load()
        try:
            yield reranker
        finally:
            await reranker.close()


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("cohere/rerank-v3.5", "/v2/rerank"),
        ("jina_ai/jina-reranker-v2-base-multilingual", "/v1/rerank"),
        ("hosted_vllm/BAAI/bge-reranker-v2-m3", "/rerank"),
        ("infinity/bge-reranker-base", "/rerank"),
        ("huggingface/BAAI/bge-reranker-base", "/rerank"),
    ],
)
async def test_each_provider_is_asked_in_its_own_words(server: RerankServer, name: str, path: str) -> None:
    """Question, texts and key arrive, and no words to litellm itself; the numbers come in our order."""
    async with opened(server, name) as reranker:
        numbers = await reranker.relevance(QUESTION, TEXTS)
    assert numbers == pytest.approx([0.25, 0.5, 0.75])
    [asked], [where], [headers] = server.requests, server.paths, server.headers
    assert where == path
    assert asked["query"] == QUESTION
    assert (asked.get("documents") or asked.get("texts")) == TEXTS
    assert headers["authorization"].lower() == "bearer sk-secret"
    assert not {"num_retries", "max_retries", "drop_params", "timeout"} & set(asked)


async def test_a_server_of_ones_own_needs_no_key(
    server: RerankServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """litellm refuses to ask such a one without any."""
    for name in ("COHERE_API_KEY", "CO_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    async with opened(server, "cohere/rerank-english", key=None) as reranker:
        assert len(await reranker.relevance(QUESTION, TEXTS)) == 3


def scores(*pairs: tuple[Any, Any]) -> tuple[int, str]:
    """An answer with these texts and numbers."""
    return 200, json.dumps({"results": [{"index": at, "relevance_score": score} for at, score in pairs]})


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ((500, '{"message": "down"}'), "failed at the provider"),
        ((401, '{"message": "bad key sk-secret"}'), r"key for the re-ranker .* was refused"),
        ((429, '{"message": "slow down"}'), "limits how often"),
        ((402, '{"message": "no credit"}'), "no credit left"),
        ((413, '{"message": "too long"}'), "refuses texts of this length"),
        ((404, '{"message": "no such model"}'), "does not know the model"),
        ((200, "<html>hello</html>"), "jina_ai/m"),
        ((200, '{"results": null}'), "jina_ai/m"),
        ((200, '{"results": [{"index": "one"}]}'), "jina_ai/m"),
        (scores((0, 0.5), (1, 0.4)), "2 scores for 3 texts"),
        (scores((0, 0.5), (1, 0.4), (3, 0.1)), "returned the index 3 twice or beyond"),
        (scores((0, 0.5), (1, 0.4), (-1, 0.1)), "returned the index -1 twice or beyond"),
        (scores((0, 0.5), (1, 0.4), (1, 0.1)), "returned the index 1 twice or beyond"),
    ],
)
async def test_a_wrong_answer_becomes_a_sentence(
    server: RerankServer, answer: tuple[int, str], sentence: str
) -> None:
    """Without the key, and asked once."""
    server.answer = answer
    async with opened(server, "jina_ai/m") as reranker:
        with pytest.raises(RerankingFailed, match=sentence) as caught:
            await reranker.relevance(QUESTION, TEXTS)
    assert "sk-secret" not in str(caught.value)
    assert len(server.requests) == 1


async def test_notes_and_key_do_not_go_to_another_host(server: RerankServer) -> None:
    """A server that sends on to another gets no further."""
    with RerankServer() as other:
        server.location = f"{other.url}/v1/rerank"
        async with opened(server, "jina_ai/m") as reranker:
            with pytest.raises(RerankingFailed, match="sends requests on"):
                await reranker.relevance(QUESTION, TEXTS)
        assert other.requests == []


async def test_nobody_there_is_told_with_the_address() -> None:
    """A server that is gone."""
    with RerankServer() as server:
        url = server.url
    async with opened(server, "jina_ai/m", url=url) as reranker:
        with pytest.raises(RerankingFailed, match=r"http://127\.0\.0\.1"):
            await reranker.relevance(QUESTION, TEXTS)


async def test_a_question_is_reserved_counted_and_stopped_by_the_cap(
    server: RerankServer, tmp_path: Path
) -> None:
    """Four fifths of the cap pay for one question; the next is refused before anything is sent."""
    async with opened(server, "cohere/rerank-v3.5", folder=tmp_path, cap_usd=0.004) as reranker:
        await reranker.relevance(QUESTION, TEXTS)
        with pytest.raises(RerankingFailed, match=r"usage\.dailyCapUsd"):
            await reranker.relevance(QUESTION, TEXTS)
    assert len(server.requests) == 1
    assert [(spent.purpose, spent.usage.cost_usd) for spent in spending(tmp_path)] == [("rerank", 0.002)]
    assert not list((tmp_path / "reserved").iterdir())


async def test_a_re_ranker_of_unknown_price_is_refused_under_a_cap(server: RerankServer) -> None:
    """Unless it is on this machine, as a server of one's own is."""
    async with opened(server, "hosted_vllm/house-made", cap_usd=1.0) as own:
        assert len(await own.relevance(QUESTION, TEXTS)) == 3
    async with opened(server, "cohere/house-made", url="http://192.0.2.1", cap_usd=1.0) as far:
        with pytest.raises(RerankingFailed, match="price of 'cohere/house-made' is unknown"):
            await far.relevance(QUESTION, TEXTS)
    assert len(server.requests) == 1
