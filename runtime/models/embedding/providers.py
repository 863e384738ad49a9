"""Remote embedding providers: where they are, their usual models, how the settings change that. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nacre.memory.contracts.settings import MemorySearchSettings, RemoteSettings
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.models.embedding.http.endpoint import EmbeddingEndpoint, is_secret_header
from nacre.runtime.settings.models import ProviderSettings

COMPACT = ("openai", "voyage")
"""Providers that are known to send vectors in base64."""


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
            f"memorySearch.provider is {name!r}, which is not known. Use local, gguf, none, "
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
