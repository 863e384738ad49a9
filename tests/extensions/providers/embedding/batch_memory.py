"""Notes and an engine over them whose embedder has batch jobs, for the tests of jobs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from nacre.extensions.providers.embedding.batch_jobs import JOB_TEXTS, JobRules
from nacre.extensions.providers.embedding.endpoint import EmbeddingEndpoint
from nacre.extensions.providers.embedding.http_embedder import HttpEmbedder
from nacre.memory.contracts.settings import MemorySearchSettings
from nacre.memory.engine import MemoryEngine
from nacre.memory.workspace.folder import FolderWorkspace
from nacre.runtime.models.scripted import Clock
from nacre.runtime.recall.open_memory import open_memory
from nacre.runtime.settings.config import load_config
from tests.extensions.providers.embedding.batch_server import BatchServer

PROVIDERS = ("openai", "voyage", "gemini")
NOTES = 60
"""More than are asked for at once."""


def written(state_dir: Path, count: int = NOTES, *, first: int = 0) -> None:
    """So many notes of one chunk each."""
    notes = state_dir / "workspace" / "memory"
    notes.mkdir(parents=True, exist_ok=True)
    for number in range(first, first + count):
        (notes / f"hive-{number:03}.md").write_text(f"Hive {number} gave {number * 7} jars of honey.\n")


@asynccontextmanager
async def opened(
    state_dir: Path,
    server: BatchServer,
    provider: str = "openai",
    daily_tokens: int | None = None,
    **batch: Any,
) -> AsyncIterator[MemoryEngine]:
    """The engine of a state folder with batch jobs switched on."""
    version = "v1beta" if provider == "gemini" else "v1"
    search = {
        "provider": provider,
        "remote": {
            "baseUrl": f"{server.url}/{version}",
            "apiKey": "sk-secret",
            "dailyTokens": daily_tokens,
            "batch": {"enabled": True, "pollIntervalMs": 0, **batch},
        },
    }
    state_dir.mkdir(exist_ok=True)
    settings = {"agents": {"defaults": {"memorySearch": search}}}
    (state_dir / "nacre.json5").write_text(json.dumps(settings))
    config = load_config({"HOME": str(state_dir)}, state_dir=state_dir)
    engine = await open_memory(config, Clock())
    assert engine is not None
    try:
        yield engine
    finally:
        await engine.close()


@asynccontextmanager
async def patient(
    state_dir: Path, server: BatchServer, rules: JobRules, waits: list[float], *, job_texts: int = JOB_TEXTS
) -> AsyncIterator[MemoryEngine]:
    """An engine that notes in `waits` what it would wait, with jobs of at most `job_texts`."""

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    endpoint = EmbeddingEndpoint(
        provider="openai", model="m", base_url=f"{server.url}/v1", api_key="sk-secret"
    )
    embedder = HttpEmbedder(endpoint, now_seconds=lambda: 0.0, job_rules=rules, sleep=sleep)
    assert embedder.jobs is not None
    embedder.jobs.provider.max_texts = job_texts
    engine = await MemoryEngine.open(
        workspace=FolderWorkspace(state_dir / "workspace", lock_dir=state_dir / "locks"),
        index_path=state_dir / "index.sqlite",
        settings=MemorySearchSettings(),
        embedder=embedder,
        now=Clock(),
    )
    try:
        yield engine
    finally:
        await engine.close()
        await embedder.close()


def ordinary_texts(server: BatchServer) -> int:
    """How many notes were sent in ordinary requests; what the scale is measured with is left out."""
    bodies = [asked.body for asked in server.asked]
    texts = [text for body in bodies for text in body.get("input", [])]
    texts += [
        request["content"]["parts"][0]["text"] for body in bodies for request in body.get("requests", [])
    ]
    return sum(" gave " in text for text in texts)
