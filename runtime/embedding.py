"""Which embedder the settings ask for: decisions and thin construction. Loads nothing and asks nobody.

Without a provider it is the model that arrives with the install, so that search by meaning needs neither
key nor network. A provider that is named is used or failed, never replaced in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from nacre.memory.embedder import Embedder
from nacre.memory.embedders.minilm import MiniLmEmbedder
from nacre.memory.settings import MemorySearchSettings, RemoteSettings
from nacre.runtime.embedding_budget import EmbeddingBudget
from nacre.runtime.errors import ConfigError
from nacre.runtime.fallback_embedder import FallbackEmbedder
from nacre.runtime.models.embedding_endpoint import EmbeddingEndpoint, is_secret_header
from nacre.runtime.models.litellm_loading import key_in_environment
from nacre.runtime.settings import ProviderSettings

LOCAL = ("", "local")
COMPACT = ("openai", "voyage")
"""Providers that are known to send vectors in base64."""

AUTO_ORDER = ("openai", "gemini", "voyage", "mistral")
"""Which provider `auto` takes: the first with a key (seed 001, "Vector memory search")."""


@dataclass(frozen=True, kw_only=True)
class Provider:
    """A provider's own address, its usual model, and what `models.providers` and the environment call it."""

    base_url: str
    model: str
    key_variables: tuple[str, ...]
    names: tuple[str, ...]
    needs_key: bool = True


PROVIDERS: Mapping[str, Provider] = {
    "openai": Provider(
        base_url="https://api.openai.com/v1",
        model="text-embedding-3-small",
        key_variables=("OPENAI_API_KEY",),
        names=("openai",),
    ),
    "gemini": Provider(
        base_url="https://generativelanguage.googleapis.com/v1beta",
        model="gemini-embedding-001",
        key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        names=("google", "gemini"),
    ),
    "voyage": Provider(
        base_url="https://api.voyageai.com/v1",
        model="voyage-4-large",
        key_variables=("VOYAGE_API_KEY",),
        names=("voyage",),
    ),
    "mistral": Provider(
        base_url="https://api.mistral.ai/v1",
        model="mistral-embed",
        key_variables=("MISTRAL_API_KEY",),
        names=("mistral",),
    ),
    "ollama": Provider(
        base_url="http://127.0.0.1:11434/v1",
        model="nomic-embed-text",
        key_variables=("OLLAMA_API_KEY",),
        names=("ollama",),
        needs_key=False,
    ),
}

INPUT_TOKENS: Mapping[str, int] = {
    "gemini-embedding": 2_048,
    "text-embedding-004": 2_048,
    "voyage": 32_000,
    "nomic-embed-text": 2_048,
    "mxbai-embed-large": 512,
    "snowflake-arctic-embed": 512,
    "all-minilm": 256,
}
"""The longest text of a model, by the beginning of its name."""

USUAL_INPUT_TOKENS = 8_192


def embedder_for(
    settings: MemorySearchSettings,
    providers: Mapping[str, ProviderSettings],
    *,
    now_seconds: Callable[[], float],
    budget: EmbeddingBudget | None = None,
) -> Embedder | None:
    """The embedder that `memorySearch` asks for; `None` for the provider `none`.

    `providers` is `models.providers`. `memorySearch.remote` and `model` are the first provider's alone; a
    fallback has its own model, and its address and key from `models.providers`. `budget` counts the tokens
    that go to remote providers.

    Raises:
        ConfigError: a provider is not known and has no address, or has no model.
    """

    def made(name: str, settings: MemorySearchSettings) -> Embedder | None:
        if name == "none":
            return None
        if name in LOCAL:
            return MiniLmEmbedder()
        # a command that searches with the local model has no use for the rest
        from nacre.runtime.models.http_embedder import HttpEmbedder

        return HttpEmbedder(endpoint_for(name, settings, providers), now_seconds=now_seconds, budget=budget)

    name = provider_name(settings, providers)
    first = made(name, settings)
    second_settings = settings.model_copy(
        update={"provider": settings.fallback, "remote": None, "model": None, "output_dimensionality": None}
    )
    fallback = provider_name(second_settings, providers) or "none"
    if first is None or fallback in ("none", name) or (name in LOCAL and fallback in LOCAL):
        return first
    second = made(fallback, second_settings)
    return first if second is None else FallbackEmbedder(first, second)


def provider_name(settings: MemorySearchSettings, providers: Mapping[str, ProviderSettings]) -> str:
    """The provider that `memorySearch.provider` means, in small letters.

    `auto`, and no name beside settings in `memorySearch.remote`, take the first of `AUTO_ORDER` that has a
    key in the settings or the environment, else the local model. No name and no such settings is the local
    model, whatever keys there are for other things.
    """
    name = (settings.provider or "").strip().lower()
    if name != "auto" and (name or settings.remote is None):
        return name
    return next(
        (each for each in AUTO_ORDER if _has_key(endpoint_for(each, settings, providers), settings)), "local"
    )


def endpoint_for(
    name: str, settings: MemorySearchSettings, providers: Mapping[str, ProviderSettings]
) -> EmbeddingEndpoint:
    """Where and how a remote provider is asked: `memorySearch.remote`, then `models.providers`, then its own.

    A name that is not known is an OpenAI-compatible server, if there is an address for it.

    Raises:
        ConfigError: there is no address, or no model.
    """
    known = PROVIDERS.get(name)
    names = known.names if known else (name,)
    shared = next((providers[key] for key in names if key in providers), ProviderSettings())
    remote = settings.remote or RemoteSettings()
    own_url = (remote.base_url or "").strip() or shared.base_url.strip()
    if known is None and not own_url:
        raise ConfigError(
            f"memorySearch.provider is {name!r}, which is not known. Use local, none, "
            f"{', '.join(PROVIDERS)}, or set memorySearch.remote.baseUrl to the address of an "
            "OpenAI-compatible server."
        )
    model = _plain_model(settings.model or "", name) or (known.model if known else "")
    if not model:
        raise ConfigError(
            f"memorySearch.model is missing: the provider {name!r} has no usual embedding model. Name one."
        )
    headers = remote.headers or {}
    written_key = (remote.api_key or "").strip()
    # the name of the variable in place of the key means the variable
    key = "" if known and written_key in known.key_variables else written_key
    return EmbeddingEndpoint(
        provider=name,
        model=model,
        base_url=_base_url(name, own_url or (known.base_url if known else "")),
        api_key=key or (None if written_key else shared.api_key.strip()) or None,
        key_variables=known.key_variables if known else (),
        needs_key=bool(known and known.needs_key and not own_url)
        and not any(is_secret_header(header) for header in headers),
        headers=headers,
        max_input_tokens=_input_tokens(model),
        dimensions=settings.output_dimensionality,
        compact=name in COMPACT and not own_url,
    )


def _has_key(endpoint: EmbeddingEndpoint, settings: MemorySearchSettings) -> bool:
    if endpoint.api_key or key_in_environment(*endpoint.key_variables):
        return True
    # whoever writes an address for embeddings wants it asked, with a key or without
    return bool(settings.remote and (settings.remote.base_url or settings.remote.headers))


def _plain_model(model: str, name: str) -> str:
    """The model's name without the provider's in front, as other programs write it."""
    model = model.strip()
    prefixes = ("models/", "gemini/", "google/") if name == "gemini" else (f"{name}/",)
    for prefix in prefixes:
        model = model.removeprefix(prefix)
    return model


def _base_url(name: str, url: str) -> str:
    url = url.rstrip("/")
    if name == "gemini":
        return url.partition("/openai")[0]
    if name == "ollama":
        # its own protocol's address, as most people write it
        return f"{url.removesuffix('/api').removesuffix('/v1')}/v1"
    return url


def _input_tokens(model: str) -> int:
    plain = model.rpartition("/")[2].lower()
    limits = (tokens for start, tokens in INPUT_TOKENS.items() if plain.startswith(start))
    return next(limits, USUAL_INPUT_TOKENS)
