"""What happens to an index when its embedder is another than before: a provider's new model, a fallback."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nacre.cli.memory.text import index_problems
from nacre.extensions.providers.embedding.endpoint import EmbeddingEndpoint
from nacre.extensions.providers.embedding.http_embedder import HttpEmbedder
from nacre.extensions.providers.embedding.open_embedder import FallbackEmbedder
from nacre.memory.contracts.settings import MemorySearchSettings
from nacre.memory.engine import MemoryEngine
from nacre.memory.workspace.folder import FolderWorkspace
from nacre.runtime.models.scripted import Clock
from nacre.runtime.recall.open_memory import open_memory
from nacre.runtime.settings.config import load_config
from tests.extensions.providers.embedding.embedding_server import Answer, Asked, EmbeddingServer


class ChangingServer(EmbeddingServer):
    """Knows a provider that is down (`/down/v1`) and one with short vectors (while `short` is set).

    The request of the number `fails_at` is answered with an error.
    """

    short = False
    fails_at = 0

    def route(self, asked: Asked, method: str, raw: bytes) -> Answer | None:
        """An error for the one that is down, three numbers for each text from the other."""
        if asked.path.startswith("/down"):
            return Answer({"error": {"message": "no such account"}}, 401)
        self.fails_at -= 1
        if self.fails_at == 0:
            return Answer({"error": {"message": "broken"}}, 400)
        if not self.short:
            return None
        texts = json.loads(raw)["input"]
        return Answer({"data": [{"index": at, "embedding": [1.0, 2.0, 3.0]} for at in range(len(texts))]})


@pytest.fixture
def server() -> Iterator[ChangingServer]:
    """A server on loopback."""
    with ChangingServer() as server:
        yield server


def written(state_dir: Path, *names: str) -> None:
    """A note of one chunk for each name."""
    notes = state_dir / "workspace" / "memory"
    notes.mkdir(parents=True, exist_ok=True)
    for name in names:
        (notes / f"{name}.md").write_text(f"{name.title()} keeps bees behind the mill.\n")


@asynccontextmanager
async def memory(
    state_dir: Path, server: EmbeddingServer, *, path: str = "", tokens: int | None = None, **search: Any
) -> AsyncIterator[MemoryEngine]:
    """The engine of a state folder; ollama stands by on the same server."""
    remote = {"baseUrl": f"{server.url}{path}/v1", "apiKey": "sk-secret", "dailyTokens": tokens}
    settings = {
        "agents": {"defaults": {"memorySearch": {"provider": "openai", "remote": remote, **search}}},
        "models": {"providers": {"ollama": {"baseUrl": f"{server.url}/ollama/v1"}}},
    }
    state_dir.mkdir(exist_ok=True)
    (state_dir / "nacre.json5").write_text(json.dumps(settings))
    engine = await open_memory(load_config({"HOME": str(state_dir)}, state_dir=state_dir), Clock())
    assert engine is not None
    try:
        yield engine
    finally:
        await engine.close()


async def test_vectors_of_another_length_are_told_and_never_mixed(
    tmp_path: Path, server: ChangingServer
) -> None:
    """A provider that puts another model behind the name does not empty the search in silence."""
    written(tmp_path, "anna", "boris")
    async with memory(tmp_path, server) as engine:
        await engine.sync(reason="test")
        server.short = True
        written(tmp_path, "clara")
        report = await engine.sync(reason="test")
        found = await engine.search("who keeps bees")
        status = await engine.status()

    assert report.problem
    assert report.problem in status.last_sync_problem
    assert (status.vectors, status.dimensions, status.pending_vectors) == (2, 64, 1)
    assert (found.mode, len(found.hits)) == ("lexical", 3)
    assert found.degraded

    async with memory(tmp_path, server, outputDimensionality=3) as engine:
        mended = await engine.sync(reason="test")
        again = await engine.search("who keeps bees")
    assert (mended.problem, mended.embedded, again.mode) == ("", 3, "hybrid")


async def test_an_index_gets_no_vectors_of_a_fallback_before_it_is_its_own(
    tmp_path: Path, server: ChangingServer
) -> None:
    """The first embedder fails at the very first request, and the pass goes on to nobody."""
    written(tmp_path, "anna", "boris")
    endpoints = [
        EmbeddingEndpoint(provider=name, model="m", base_url=f"{server.url}{path}/v1", needs_key=False)
        for name, path in (("one", "/down"), ("two", ""))
    ]
    both = FallbackEmbedder(*(HttpEmbedder(each, now_seconds=lambda: 0.0) for each in endpoints))
    engine = await MemoryEngine.open(
        workspace=FolderWorkspace(tmp_path / "workspace", lock_dir=tmp_path / "locks"),
        index_path=tmp_path / "index.sqlite",
        settings=MemorySearchSettings(),
        embedder=both,
        now=Clock(),
    )
    first = await engine.sync(reason="test")
    before = await engine.status()
    second = await engine.sync(reason="test")
    await engine.close()
    await both.close()

    assert "two" in first.problem
    assert (first.embedded, before.vectors, before.cached_vectors) == (0, 0, 0)
    assert (second.embedded, second.problem) == (2, "")


async def test_a_sync_says_that_a_fallback_made_the_vectors(tmp_path: Path, server: ChangingServer) -> None:
    """Whoever runs it learns that the named provider did not."""
    written(tmp_path, "anna")
    async with memory(tmp_path, server, path="/down", fallback="ollama") as engine:
        report = await engine.sync(reason="test")

    assert (report.embedded, report.problem) == (1, "")
    assert report.fallback is not None
    assert "HTTP 401" in report.fallback.sentence
    assert index_problems(report) == [report.fallback.sentence]


async def test_a_spent_budget_is_no_failure_of_the_provider(tmp_path: Path, server: ChangingServer) -> None:
    """The vectors that are there stay, and nothing goes to the fallback."""
    written(tmp_path, "anna", "boris")
    async with memory(tmp_path, server, fallback="ollama") as engine:
        await engine.sync(reason="test")
    written(tmp_path, "clara")
    async with memory(tmp_path, server, fallback="ollama", tokens=3) as engine:
        report = await engine.sync(reason="test")
        found = await engine.search("who keeps bees")
        status = await engine.status()

    assert "budget of 3 tokens a day" in report.problem
    assert (status.provider, status.vectors, status.pending_vectors) == ("openai", 2, 1)
    assert found.mode == "hybrid"
    assert not [asked for asked in server.asked if asked.path.startswith("/ollama")]


async def test_each_request_is_stored_before_the_next(tmp_path: Path, server: ChangingServer) -> None:
    """Long notes need several requests; when one of them fails, the others were not in vain."""
    notes = tmp_path / "workspace" / "memory"
    notes.mkdir(parents=True)
    for number in range(12):
        (notes / f"{number}.md").write_text(f"{number} " + "蜂" * 1_500)
    server.fails_at = 8
    async with memory(tmp_path, server, chunking={"tokens": 2_000, "overlap": 0}) as engine:
        first = await engine.sync(reason="test")
        second = await engine.sync(reason="test")

    assert first.problem
    assert 0 < first.embedded < 12
    assert (second.problem, first.embedded + second.embedded) == ("", 12)
    sent = Counter(text for asked in server.asked for text in asked.body["input"] if "蜂" in text)
    assert set(sent.values()) == {1}, "what was answered is not asked for again"
