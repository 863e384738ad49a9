"""The embedder of the settings, and its fallback. Nothing is loaded or sent here.

A named provider is used or fails; it is never replaced silently. The vectors of an embedder and of its
fallback cannot be compared: the facts change with the switch, and the index makes its vectors again. A
question never switches, so that a search never uses the wrong kind of vector. The index decides when the
first embedder is tried again, because all processes share it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nacre.extensions.providers.completions.keys import from_environment
from nacre.extensions.providers.embedding.batch_jobs import JobRules
from nacre.extensions.providers.embedding.endpoint import PROVIDERS, EmbeddingEndpoint, endpoint_for
from nacre.extensions.providers.embedding.http_embedder import HttpEmbedder
from nacre.memory.contracts.embedder import (
    BudgetUsedUp,
    Embedder,
    EmbedderFacts,
    EmbeddingFailed,
    TextRefused,
    fallback_of,
    lack_of,
)
from nacre.memory.contracts.embedding_jobs import EmbeddingJobs, jobs_of
from nacre.memory.contracts.settings import LocalSettings, MemorySearchSettings, at_home
from nacre.memory.embedders.e5 import E5Embedder
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.providers.opening import ProviderMissing, new_for_each
from nacre.runtime.settings.sections.models import ProviderSettings

if TYPE_CHECKING:
    from nacre.extensions.providers.embedding.daily_budget import EmbeddingBudget
    from nacre.runtime.providers.provider import Lend, OpenOther

log = logging.getLogger(__name__)

LOCAL = ("", "local", "gguf")
DEFAULT_GGUF = "hf:ggml-org/embeddinggemma-300m-qat-q8_0-GGUF/embeddinggemma-300m-qat-Q8_0.gguf"
"""The model of `gguf` without a `local.modelPath` (seed 001, "Local mode")."""

AUTO_ORDER = ("openai", "gemini", "voyage", "mistral")
"""`auto` takes the first of these with a key (seed 001, "Vector memory search")."""

IN_THIS_PROCESS = ("", "auto", "none", "local", "gguf", "sentence-transformers")
"""Values of `memorySearch.provider` that name no remote provider; `auto` may choose one."""

_REMOTE = {"model", "output_dimensionality", "remote"}


def embedder_for(
    settings: MemorySearchSettings,
    providers: Mapping[str, ProviderSettings],
    *,
    now_seconds: Callable[[], float],
    home: Path,
    models_folder: Path,
    budget: Callable[[], EmbeddingBudget] | None = None,
    local: Callable[[], Embedder] = E5Embedder,
    other: OpenOther = lambda _settings: None,
    lent: Lend = new_for_each,
) -> Embedder | None:
    """The embedder of `memorySearch`; `None` for the provider `none`.

    `providers` is `models.providers`. `memorySearch.remote` and `model` are the first provider's alone; a
    fallback has its own model, and its address and key from `models.providers`. `budget` counts the tokens
    that go to remote providers; `other` opens embedders of other packages; `lent` may give one embedder to
    several agents. Models are downloaded into `models_folder` unless the settings name another.

    Raises:
        ConfigError: a provider is not known and has no address, or has no model.
    """

    def made(name: str, settings: MemorySearchSettings) -> Embedder | None:
        if name == "none":
            return None
        if name in LOCAL:
            return _local(name, settings.local, home, models_folder, local, lent)
        if name == "sentence-transformers":
            return lent((name, settings.model), lambda: _sentence_transformer(settings.model))
        if (embedder := other(settings)) is not None:
            return embedder
        key = name, settings.model_dump_json(include=_REMOTE), _providers_json(providers)
        endpoint, job_rules = endpoint_for(name, settings, providers), _job_rules(settings)
        remote = partial(HttpEmbedder, endpoint, now_seconds=now_seconds, job_rules=job_rules)
        return lent(key, lambda: remote(budget=budget and budget()))

    name = provider_name(settings, providers, home)
    first = made(name, settings)
    if first is None or settings.fallback.strip().lower() in ("", "none"):
        return first
    second_settings = _of_the_fallback(settings)
    fallback = provider_name(second_settings, providers, home) or "none"
    if fallback == "none" or (fallback == name and name not in LOCAL):
        return first
    try:
        second = made(fallback, second_settings)
    except ProviderMissing:
        raise
    except ConfigError as error:
        raise ConfigError(
            f"memorySearch.fallback is {settings.fallback!r}, which has no default embedding model. "
            f"Use {', '.join(('none', 'local', 'gguf', *PROVIDERS))}."
        ) from error
    if second is None or second.facts.fingerprint == first.facts.fingerprint:
        return first
    return FallbackEmbedder(first, second)


def _of_the_fallback(settings: MemorySearchSettings) -> MemorySearchSettings:
    """The settings without those of the first embedder."""
    first = {"remote": None, "local": LocalSettings(), "model": None, "output_dimensionality": None}
    return settings.model_copy(update={"provider": settings.fallback, **first})


def provider_name(
    settings: MemorySearchSettings, providers: Mapping[str, ProviderSettings], home: Path
) -> str:
    """The provider of `memorySearch.provider`, in lower case.

    `auto`, and no name with settings in `memorySearch.remote`, mean a `local.modelPath` that is a file, then
    the first of `AUTO_ORDER` with a key in the settings or the environment, else the local model. No name and
    no such settings mean the local model.
    """
    name = (settings.provider or "").strip().lower()
    if name not in ("", "auto"):
        return name
    if _is_file(settings.local.model_path, home):
        return "local"
    if not name and settings.remote is None:
        return name
    return next(
        (each for each in AUTO_ORDER if _has_key(endpoint_for(each, settings, providers), settings)), "local"
    )


def _local(
    name: str,
    settings: LocalSettings,
    home: Path,
    models_folder: Path,
    shipped: Callable[[], Embedder],
    lent: Lend,
) -> Embedder:
    source = (settings.model_path or "").strip() or (DEFAULT_GGUF if name == "gguf" else "")
    if not source or (not name and not _is_file(source, home)):
        return lent("shipped", shipped)
    from nacre.extensions.providers.embedding.local_models import FileOnDisk, GgufEmbedder, RemoteModelFile

    if not source.startswith(("hf:", "https://", "http://")):
        file = Path(at_home(source, home))
        return lent(file, lambda: GgufEmbedder(FileOnDisk(file)))
    folder = Path(at_home(settings.model_cache_dir, home)) if settings.model_cache_dir else models_folder
    return lent((source, folder), lambda: GgufEmbedder(RemoteModelFile(source, folder)))


def _sentence_transformer(model: str | None) -> Embedder:
    from nacre.extensions.providers.embedding.local_models import SentenceTransformerEmbedder

    if not model or not model.strip():
        raise ConfigError(
            "memorySearch.model is missing: the provider 'sentence-transformers' has no default model. "
            "Name one, or the folder of one."
        )
    return SentenceTransformerEmbedder(model.strip())


def _job_rules(settings: MemorySearchSettings) -> JobRules | None:
    batch = settings.remote.batch if settings.remote is not None else None
    if batch is None or not batch.enabled:
        return None
    return JobRules(
        wait=batch.wait,
        concurrency=batch.concurrency,
        poll_seconds=batch.poll_interval_ms / 1000,
        timeout_seconds=batch.timeout_minutes * 60,
    )


def _providers_json(providers: Mapping[str, ProviderSettings]) -> str:
    """The settings of all providers as one text, which is part of the key of a shared embedder."""
    return json.dumps({name: provider.model_dump_json() for name, provider in sorted(providers.items())})


def _is_file(model_path: str | None, home: Path) -> bool:
    return bool(model_path) and Path(at_home(model_path or "", home)).is_file()


def _has_key(endpoint: EmbeddingEndpoint, settings: MemorySearchSettings) -> bool:
    if endpoint.api_key or from_environment(*endpoint.key_variables):
        return True
    # an address or headers for embeddings mean that the provider is wanted, even without a key
    return bool(settings.remote and (settings.remote.base_url or settings.remote.headers))


class FallbackEmbedder:
    """A `WithFallback` (see there for its methods)."""

    def __init__(self, first: Embedder, second: Embedder) -> None:
        self.first = first
        self.second = second
        self.problem = ""
        self.news: str | None = None
        self.on_switch: Callable[[], None] = lambda: None

    @property
    def facts(self) -> EmbedderFacts:
        return self._active.facts

    @property
    def jobs(self) -> EmbeddingJobs | None:
        return jobs_of(self._active)

    @property
    def lack(self) -> str:
        return lack_of(self._active)

    @property
    def reason(self) -> str:
        """Why the second is in use, as a sentence; empty while the first is."""
        fallback = fallback_of(self)
        return fallback.sentence if fallback else ""

    async def embed_query(self, text: str) -> Sequence[float]:
        return await self._active.embed_query(text)

    async def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return await self.in_use().embed_documents(texts)

    async def close(self) -> None:
        await self.first.close()
        await self.second.close()

    def in_use(self) -> Embedder:
        return self.second if self.problem else _Watched(self)

    def noted(self, news: str) -> None:
        if self.news == news:
            self.news = None

    def follow(self, problem: str) -> None:
        self.problem = problem

    def come_back(self) -> None:
        self._switch("")
        log.info("%s makes the embeddings again", self.first.facts.provider)

    def leave(self, problem: str) -> None:
        """Uses the second, because the first failed; does nothing if it is in use already."""
        if not self.problem:
            self._switch(problem)
            log.warning("%s", self.reason)

    @property
    def _active(self) -> Embedder:
        return self.second if self.problem else self.first

    def _switch(self, problem: str) -> None:
        self.problem = self.news = problem
        self.on_switch()


class _Watched:
    """The first embedder. If it fails, the pair switches; its caller never gets vectors of the second."""

    def __init__(self, pair: FallbackEmbedder) -> None:
        self._pair = pair
        self.facts = pair.first.facts
        self.jobs = jobs_of(pair.first)

    async def embed_query(self, text: str) -> Sequence[float]:
        return await self._pair.first.embed_query(text)

    async def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """See `Embedder`. A refused text and a used-up budget are no reason to switch."""
        if self._pair.problem:
            raise EmbeddingFailed(self._pair.reason)
        try:
            return await self._pair.first.embed_documents(texts)
        except (TextRefused, BudgetUsedUp):
            raise
        except EmbeddingFailed as error:
            self._pair.leave(str(error))
            raise EmbeddingFailed(self._pair.reason) from error

    async def close(self) -> None:
        """The pair closes it."""
