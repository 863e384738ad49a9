"""The endpoints of embedding models: known providers, with the changes of the settings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import field, replace

from nacre.extensions.providers.completions.addresses import without_credentials
from nacre.memory.contracts.settings import MemorySearchSettings, RemoteSettings
from nacre.record import Record
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.settings.disk.variables import unset_in
from nacre.runtime.settings.sections.models import ProviderSettings

_SECRET_HEADER = ("authorization", "cookie", "key", "token", "secret", "password", "credential")


class EmbeddingEndpoint(Record):
    """The address, key and model of an embedding provider.

    `key_variables` are read without an `api_key`; `needs_key` is false for servers that answer without a key.
    `dimensions` asks for shorter vectors. With `compact` the server is asked for numbers in base64, which
    takes a quarter of their length in digits; if it refuses that, it is asked again without.
    """

    provider: str
    model: str
    base_url: str
    api_key: str | None = field(default=None, repr=False)
    key_variables: tuple[str, ...] = ()
    needs_key: bool = True
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    max_input_tokens: int = 8_192
    dimensions: int | None = None
    compact: bool = False
    unusable: str = ""
    """Why no request is possible, as a sentence; empty otherwise."""

    @property
    def name(self) -> str:
        """`provider/model`."""
        return f"{self.provider}/{self.model}"

    @property
    def secrets(self) -> tuple[str, ...]:
        """Header values that must not appear in any message."""
        return tuple(value for name, value in self.headers.items() if is_secret_header(name))

    @property
    def fingerprint(self) -> str:
        """A hash of what changes the vectors: address, model, length, and headers without secrets."""
        headers = sorted(
            [name.lower(), value] for name, value in self.headers.items() if not is_secret_header(name)
        )
        facts: list[object] = [without_credentials(self.base_url), self.model, headers]
        if self.dimensions is not None:
            facts.append(self.dimensions)
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


_USUAL = (
    EmbeddingEndpoint(
        provider="openai",
        model="text-embedding-3-small",
        base_url="https://api.openai.com/v1",
        key_variables=("OPENAI_API_KEY",),
        compact=True,
    ),
    EmbeddingEndpoint(
        provider="gemini",
        model="gemini-embedding-001",
        base_url="https://generativelanguage.googleapis.com/v1beta",
        key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    ),
    EmbeddingEndpoint(
        provider="voyage",
        model="voyage-4-large",
        base_url="https://api.voyageai.com/v1",
        key_variables=("VOYAGE_API_KEY",),
        compact=True,
    ),
    EmbeddingEndpoint(
        provider="mistral",
        model="mistral-embed",
        base_url="https://api.mistral.ai/v1",
        key_variables=("MISTRAL_API_KEY",),
    ),
    EmbeddingEndpoint(
        provider="ollama",
        model="nomic-embed-text",
        base_url="http://127.0.0.1:11434/v1",
        key_variables=("OLLAMA_API_KEY",),
        needs_key=False,
    ),
)
PROVIDERS: Mapping[str, EmbeddingEndpoint] = {endpoint.provider: endpoint for endpoint in _USUAL}
"""The address, the default model and the key variables of each provider."""

INPUT_TOKENS: Mapping[str, int] = {
    "gemini-embedding": 2_048,
    "text-embedding-004": 2_048,
    "voyage": 32_000,
    "nomic-embed-text": 2_048,
    "mxbai-embed-large": 512,
    "snowflake-arctic-embed": 512,
    "all-minilm": 256,
}
"""The longest input of a model, by the beginning of its name."""


def endpoint_for(
    name: str, settings: MemorySearchSettings, providers: Mapping[str, ProviderSettings]
) -> EmbeddingEndpoint:
    """The endpoint of a provider: from `memorySearch.remote`, then `models.providers`, then its defaults.

    An unknown name with an address is an OpenAI-compatible server.

    Raises:
        ConfigError: there is no address, or no model.
    """
    known = PROVIDERS.get(name) or EmbeddingEndpoint(provider=name, model="", base_url="", needs_key=False)
    names = ("google", name) if name == "gemini" else (name,)
    shared = next((providers[key] for key in names if key in providers), ProviderSettings())
    remote = settings.remote or RemoteSettings()
    own_url = (remote.base_url or "").strip() or shared.base_url.strip()
    if not (own_url or known.base_url):
        raise ConfigError(
            f"memorySearch.provider is {name!r}, which is unknown. Use local, gguf, none, "
            f"{', '.join(PROVIDERS)}, or set memorySearch.remote.baseUrl to the address of an "
            "OpenAI-compatible server."
        )
    model = _plain_model(settings.model or "", name) or known.model
    if not model:
        raise ConfigError(
            f"memorySearch.model is missing: the provider {name!r} has no default embedding model. Name one."
        )
    plain = model.rpartition("/")[2].lower()
    limits = (tokens for start, tokens in INPUT_TOKENS.items() if plain.startswith(start))
    headers = remote.headers or {}
    written_key = (remote.api_key or "").strip()
    # The name of the variable in place of the key means the variable's value.
    key = "" if written_key in known.key_variables else written_key
    return replace(
        known,
        model=model,
        base_url=_base_url(name, own_url or known.base_url),
        api_key=key or (None if written_key else shared.api_key.strip()) or None,
        needs_key=known.needs_key and not own_url and not any(map(is_secret_header, headers)),
        headers=headers,
        max_input_tokens=next(limits, EmbeddingEndpoint.max_input_tokens),
        dimensions=settings.output_dimensionality,
        unusable=unset_in(remote.model_dump(), "" if written_key and remote.base_url else shared),
    )


def is_secret_header(name: str) -> bool:
    """Whether a header of this name probably contains a key."""
    return any(part in name.lower() for part in _SECRET_HEADER)


def _plain_model(model: str, name: str) -> str:
    """The name of a model without a prefix of its provider, which other programs write."""
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
        # people often write the address of Ollama's own protocol
        return f"{url.removesuffix('/api').removesuffix('/v1')}/v1"
    return url
