"""Creates the embedder that the settings name. Loads no model and sends no request.

The default is the model that ships with Nacre, so that search by meaning needs neither a key nor a network.
A provider that the settings name is used, or it fails; it is never replaced silently.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from nacre.memory.contracts.embedder import Embedder
from nacre.memory.contracts.embedding_jobs import JobRules
from nacre.memory.contracts.index_settings import LocalSettings
from nacre.memory.contracts.settings import MemorySearchSettings, at_home
from nacre.memory.embedders.e5 import E5Embedder
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.models.completions.keys import from_environment
from nacre.runtime.models.embedding.fallback import FallbackEmbedder
from nacre.runtime.settings.sections.models import ProviderSettings

if TYPE_CHECKING:
    from nacre.runtime.models.embedding.http.daily_budget import EmbeddingBudget
    from nacre.runtime.models.embedding.http.endpoint import EmbeddingEndpoint

LOCAL = ("", "local", "gguf")
DEFAULT_GGUF = "hf:ggml-org/embeddinggemma-300m-qat-q8_0-GGUF/embeddinggemma-300m-qat-Q8_0.gguf"
"""The model of `gguf` without a `local.modelPath` (seed 001, "Local mode")."""

AUTO_ORDER = ("openai", "gemini", "voyage", "mistral")
"""`auto` uses the first of these that has a key (seed 001, "Vector memory search")."""


Lend: TypeAlias = Callable[[Hashable, Callable[[], Embedder]], Embedder]
"""Returns the shared embedder of a key, created on first use. Equal keys produce equal vectors."""

_REMOTE = {"model", "output_dimensionality", "remote"}


def new_for_each(_key: Hashable, make: Callable[[], Embedder]) -> Embedder:
    """An embedder that is not shared."""
    return make()


def embedder_for(
    settings: MemorySearchSettings,
    providers: Mapping[str, ProviderSettings],
    *,
    now_seconds: Callable[[], float],
    home: Path,
    models_folder: Path,
    budget: Callable[[], EmbeddingBudget] | None = None,
    local: Callable[[], Embedder] = E5Embedder,
    lent: Lend = new_for_each,
) -> Embedder | None:
    """The embedder that `memorySearch` asks for; `None` for the provider `none`.

    `providers` is `models.providers`. `memorySearch.remote` and `model` belong to the first provider only; a
    fallback uses its usual model, and its address and key from `models.providers`. `budget` counts the tokens
    sent to remote providers; `lent` may return one embedder to several agents. Models are downloaded into
    `models_folder` unless the settings name another.

    Raises:
        ConfigError: a provider is unknown and has no address, or has no model.
    """

    def made(name: str, settings: MemorySearchSettings) -> Embedder | None:
        if name == "none":
            return None
        if name in LOCAL:
            return _local(name, settings.local, home, models_folder, local, lent)
        if name == "sentence-transformers":
            return lent((name, settings.model), lambda: _sentence_transformer(settings.model))
        key = name, settings.model_dump_json(include=_REMOTE), _providers_json(providers)
        endpoint = _endpoint(name, settings, providers)
        return lent(key, lambda: _remote(endpoint, now_seconds, budget and budget(), _job_rules(settings)))

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
    except ConfigError as error:
        raise ConfigError(
            f"memorySearch.fallback is {settings.fallback!r}, which has no usual embedding model. "
            f"Use {_known_providers()}."
        ) from error
    if second is None or second.facts.fingerprint == first.facts.fingerprint:
        return first
    return FallbackEmbedder(first, second)


def _of_the_fallback(settings: MemorySearchSettings) -> MemorySearchSettings:
    """The settings without the address and model of the first embedder."""
    first = {"remote": None, "local": LocalSettings(), "model": None, "output_dimensionality": None}
    return settings.model_copy(update={"provider": settings.fallback, **first})


def provider_name(
    settings: MemorySearchSettings, providers: Mapping[str, ProviderSettings], home: Path
) -> str:
    """The provider that `memorySearch.provider` selects, in lower case.

    `auto`, or no name with settings in `memorySearch.remote`, selects a `local.modelPath` that is a file, then
    the first of `AUTO_ORDER` that has a key in the settings or the environment, then the local model. Without
    a name and such settings, it is the local model, even if keys exist for other purposes.
    """
    name = (settings.provider or "").strip().lower()
    if name not in ("", "auto"):
        return name
    if _is_file(settings.local.model_path, home):
        return "local"
    if not name and settings.remote is None:
        return name
    return next(
        (each for each in AUTO_ORDER if _has_key(_endpoint(each, settings, providers), settings)), "local"
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
    # slow imports that the default model does not need
    from nacre.memory.embedders.gguf import FileOnDisk, GgufEmbedder
    from nacre.runtime.models.embedding.download import RemoteModelFile

    if not source.startswith(("hf:", "https://", "http://")):
        file = Path(at_home(source, home))
        return lent(file, lambda: GgufEmbedder(FileOnDisk(file)))
    folder = Path(at_home(settings.model_cache_dir, home)) if settings.model_cache_dir else models_folder
    return lent((source, folder), lambda: GgufEmbedder(RemoteModelFile(source, folder)))


def _known_providers() -> str:
    from nacre.runtime.models.embedding.http.endpoint import PROVIDERS

    return ", ".join(("none", "local", "gguf", *PROVIDERS))


def _endpoint(
    name: str, settings: MemorySearchSettings, providers: Mapping[str, ProviderSettings]
) -> EmbeddingEndpoint:
    # see above
    from nacre.runtime.models.embedding.http.endpoint import endpoint_for

    return endpoint_for(name, settings, providers)


def _remote(
    endpoint: EmbeddingEndpoint,
    now_seconds: Callable[[], float],
    budget: EmbeddingBudget | None,
    job_rules: JobRules | None,
) -> Embedder:
    # see above
    from nacre.runtime.models.embedding.http_embedder import HttpEmbedder

    return HttpEmbedder(endpoint, now_seconds=now_seconds, budget=budget, job_rules=job_rules)


def _sentence_transformer(model: str | None) -> Embedder:
    from nacre.memory.embedders.sentence_transformer import SentenceTransformerEmbedder

    if not model or not model.strip():
        raise ConfigError(
            "memorySearch.model is missing: the provider 'sentence-transformers' has no usual model. "
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
    """The settings of all providers as one text."""
    return json.dumps({name: provider.model_dump_json() for name, provider in sorted(providers.items())})


def _is_file(model_path: str | None, home: Path) -> bool:
    return bool(model_path) and Path(at_home(model_path or "", home)).is_file()


def _has_key(endpoint: EmbeddingEndpoint, settings: MemorySearchSettings) -> bool:
    if endpoint.api_key or from_environment(*endpoint.key_variables):
        return True
    # an address in the settings is meant to be used, even without a key
    return bool(settings.remote and (settings.remote.base_url or settings.remote.headers))
