"""Which embedder the settings ask for, and the one that takes over."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from nacre.memory.embedder import EmbeddingFailed, TextRefused
from nacre.memory.embedders.minilm import MiniLmEmbedder
from nacre.memory.settings import resolve_settings
from nacre.runtime.embedding import PROVIDERS, embedder_for, endpoint_for, provider_name
from nacre.runtime.errors import ConfigError
from nacre.runtime.fallback_embedder import FallbackEmbedder
from nacre.runtime.models.embedding_endpoint import EmbeddingEndpoint
from nacre.runtime.models.http_embedder import HttpEmbedder
from nacre.runtime.settings import ProviderSettings
from tests.runtime.embedding_server import EmbeddingServer


def chosen(providers: dict[str, ProviderSettings] | None = None, **search: Any) -> Any:
    """The embedder for these `memorySearch` settings."""
    return embedder_for(resolve_settings(search), providers or {}, now_seconds=lambda: 0.0)


def forget_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes every provider's key out of this process's environment."""
    for known in PROVIDERS.values():
        for variable in known.key_variables:
            monkeypatch.delenv(variable, raising=False)


def endpoint(
    name: str, providers: dict[str, ProviderSettings] | None = None, **search: Any
) -> EmbeddingEndpoint:
    """Where a provider is asked under these `memorySearch` settings."""
    return endpoint_for(name, resolve_settings(search), providers or {})


@pytest.mark.parametrize("provider", [None, "", "local", " Local "])
def test_without_a_provider_the_installed_model_embeds(provider: str | None) -> None:
    """Search by meaning needs no key and no network."""
    assert isinstance(chosen(provider=provider), MiniLmEmbedder)


@pytest.mark.parametrize(
    ("keyed", "chosen_first"),
    [
        (("mistral", "voyage", "google", "openai"), "openai"),
        (("mistral", "voyage", "google"), "gemini"),
        (("mistral", "voyage"), "voyage"),
        (("mistral",), "mistral"),
        (("anthropic",), "local"),
    ],
)
def test_auto_takes_the_first_provider_with_a_key(
    monkeypatch: pytest.MonkeyPatch, keyed: tuple[str, ...], chosen_first: str
) -> None:
    """In the seeds' order, and the model that comes with Nacre when there is no key."""
    forget_keys(monkeypatch)
    providers = {name: ProviderSettings(api_key="k") for name in keyed}

    assert provider_name(resolve_settings({"provider": "auto"}), providers) == chosen_first
    assert isinstance(chosen(providers), MiniLmEmbedder), "a key for other things sends no notes anywhere"


def test_auto_looks_into_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a provider's key usually is."""
    forget_keys(monkeypatch)
    monkeypatch.setenv("VOYAGE_API_KEY", "k")

    assert provider_name(resolve_settings({"provider": "auto"}), {}) == "voyage"


@pytest.mark.parametrize("remote", [{"apiKey": "k"}, {"baseUrl": "http://127.0.0.1:1/v1"}])
def test_remote_settings_without_a_name_are_openai_s(
    monkeypatch: pytest.MonkeyPatch, remote: dict[str, str]
) -> None:
    """Whoever writes a key or an address for embeddings wants it used."""
    forget_keys(monkeypatch)

    assert provider_name(resolve_settings({"remote": remote}), {}) == "openai"


def test_none_is_no_embedder() -> None:
    """Words alone can be asked for."""
    assert chosen(provider="none") is None


@pytest.mark.parametrize(
    ("provider", "model", "base_url", "tokens"),
    [
        ("openai", "text-embedding-3-small", "https://api.openai.com/v1", 8_192),
        ("gemini", "gemini-embedding-001", "https://generativelanguage.googleapis.com/v1beta", 2_048),
        ("voyage", "voyage-4-large", "https://api.voyageai.com/v1", 32_000),
        ("mistral", "mistral-embed", "https://api.mistral.ai/v1", 8_192),
        ("ollama", "nomic-embed-text", "http://127.0.0.1:11434/v1", 2_048),
    ],
)
def test_each_provider_has_its_usual_model(provider: str, model: str, base_url: str, tokens: int) -> None:
    """Naming a provider is enough."""
    embedder = chosen(provider=provider)
    found = endpoint(provider)

    assert isinstance(embedder, HttpEmbedder)
    assert (embedder.provider, embedder.model) == (provider, model)
    assert (found.base_url, found.max_input_tokens) == (base_url, tokens)


def test_the_search_s_own_address_and_key_go_before_the_provider_s() -> None:
    """`memorySearch.remote` wins over `models.providers`, which wins over the environment."""
    shared = {"openai": ProviderSettings(base_url="https://shared.example/v1", api_key="shared")}
    own = endpoint("openai", shared, remote={"baseUrl": "https://own.example/v1/", "apiKey": " own "})
    other = endpoint("openai", shared)

    assert (own.base_url, own.api_key) == ("https://own.example/v1", "own")
    assert (other.base_url, other.api_key) == ("https://shared.example/v1", "shared")
    assert endpoint("openai").api_key is None
    assert endpoint("openai").key_variables == ("OPENAI_API_KEY",)


def test_gemini_takes_google_s_names() -> None:
    """`models.providers.google`, `models/…`, an OpenAI address and a variable's name all mean Gemini."""
    shared = {"google": ProviderSettings(base_url="https://g.example/v1beta/openai/", api_key="k")}
    found = endpoint("gemini", shared, model="models/gemini-embedding-001")
    named = endpoint("gemini", shared, remote={"apiKey": "GOOGLE_API_KEY"})

    assert (found.model, found.base_url, found.api_key) == (
        "gemini-embedding-001",
        "https://g.example/v1beta",
        "k",
    )
    assert named.api_key is None


@pytest.mark.parametrize("url", ["http://pi:11434", "http://pi:11434/", "http://pi:11434/v1"])
def test_ollama_is_asked_where_it_speaks_openai_s_protocol(url: str) -> None:
    """The address may be written with or without the version, and no key is needed."""
    found = endpoint("ollama", remote={"baseUrl": url})

    assert (found.base_url, found.needs_key) == ("http://pi:11434/v1", False)


def test_any_name_with_an_address_is_a_compatible_server() -> None:
    """A server of one's own needs an address and a model, and no key."""
    remote = {"baseUrl": "http://127.0.0.1:1234/v1"}
    found = endpoint("lmstudio", model="lmstudio/bge-m3", remote=remote)

    assert (found.provider, found.model, found.needs_key) == ("lmstudio", "bge-m3", False)
    with pytest.raises(ConfigError, match=r"memorySearch\.model is missing"):
        endpoint("lmstudio", remote=remote)


def test_an_unknown_provider_is_refused() -> None:
    """The sentence names what would be right."""
    with pytest.raises(ConfigError, match=r"'cohere', which is not known\. Use local, none, openai"):
        chosen(provider="cohere")
    with pytest.raises(ConfigError, match="'cohere'"):
        chosen(provider="openai", fallback="cohere")


@pytest.mark.parametrize(
    ("provider", "fallback"), [("openai", "openai"), ("openai", "none"), ("local", "auto"), ("none", "local")]
)
def test_a_fallback_that_is_the_same_or_nobody_is_none(provider: str, fallback: str) -> None:
    """Only another embedder can take over."""
    assert not isinstance(chosen(provider=provider, fallback=fallback), FallbackEmbedder)


async def test_a_fallback_has_its_own_model_and_address() -> None:
    """An OpenAI model's name, key and address never reach Gemini."""
    with EmbeddingServer() as server:
        server.fail(401, "wrong key")
        found = chosen(
            provider="openai",
            model="text-embedding-3-large",
            remote={"apiKey": "sk-openai", "baseUrl": f"{server.url}/v1"},
            fallback="gemini",
        )
        with pytest.raises(EmbeddingFailed, match=r"openai/text-embedding-3-large.*gemini makes"):
            await asyncio.create_task(found.embed_documents(["a"]))
        await found.close()

    assert (found.provider, found.model) == ("gemini", "gemini-embedding-001")
    assert found.fingerprint == chosen(provider="gemini").fingerprint


class Embedding:
    """A real, tiny embedder: one number; fails with what stands in `failure`."""

    batch_texts = 10
    max_input_tokens = 100
    piece_tokens = None
    model = "tiny"

    def __init__(self, provider: str, number: float) -> None:
        self.provider = provider
        self.fingerprint = provider
        self.number = number
        self.failure: EmbeddingFailed | None = None
        self.closed = False

    def reads(self, text: str) -> float:
        return 1.0

    async def embed_query(self, text: str) -> Sequence[float]:
        if self.failure:
            raise self.failure
        return [self.number]

    async def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return [await self.embed_query(text) for text in texts]

    async def close(self) -> None:
        self.closed = True


async def test_documents_make_the_switch_and_questions_do_not() -> None:
    """A failing question changes nothing; failing documents change who is asked from the next pass on."""
    first, second, switched = Embedding("one", 1.0), Embedding("two", 2.0), []
    both = FallbackEmbedder(first, second)
    both.on_switch = lambda: switched.append(both.provider)
    first.failure = EmbeddingFailed("one is down.")
    with pytest.raises(EmbeddingFailed, match="one is down"):
        await both.embed_query("where?")
    assert (both.provider, both.reason) == ("one", "")

    async def one_pass() -> None:
        for _ in range(2):
            with pytest.raises(EmbeddingFailed, match=r"one is down\. two makes the embeddings instead"):
                await both.embed_documents(["a"])

    await asyncio.create_task(one_pass())

    assert switched == ["two"]
    assert (both.provider, both.fingerprint) == ("two", "two")
    assert await both.embed_documents(["a"]) == [[2.0]]
    assert await both.embed_query("where?") == [2.0]


async def test_a_text_that_is_refused_makes_no_switch() -> None:
    """One text that is too long says nothing against the provider."""
    first = Embedding("one", 1.0)
    first.failure = TextRefused("too long")
    both = FallbackEmbedder(first, Embedding("two", 2.0))

    with pytest.raises(TextRefused):
        await both.embed_documents(["a"])
    assert both.provider == "one"


async def test_closing_closes_both() -> None:
    """Nothing stays open behind a fallback."""
    first, second = Embedding("one", 1.0), Embedding("two", 2.0)
    await FallbackEmbedder(first, second).close()

    assert (first.closed, second.closed) == (True, True)
