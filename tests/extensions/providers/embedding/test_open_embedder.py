"""Which embedder the settings ask for, and the one that takes over."""

from __future__ import annotations

import asyncio
import importlib.util
from pathlib import Path
from typing import Any

import pytest

from nacre.extensions.providers.embedding.endpoint import PROVIDERS, EmbeddingEndpoint, endpoint_for
from nacre.extensions.providers.embedding.http_embedder import HttpEmbedder
from nacre.extensions.providers.embedding.local_models import GgufEmbedder
from nacre.extensions.providers.embedding.open_embedder import FallbackEmbedder, embedder_for, provider_name
from nacre.memory.contracts.embedder import EmbeddingFailed
from nacre.memory.contracts.settings import resolve_settings
from nacre.memory.embedders.e5 import E5Embedder
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.settings.sections.models import ProviderSettings
from tests.extensions.providers.embedding.embedding_server import EmbeddingServer
from tests.memory.embedders.tiny_gguf import write_tiny_bert

NOWHERE = Path("/nowhere")


def chosen(providers: dict[str, ProviderSettings] | None = None, **search: Any) -> Any:
    """The embedder for these `memorySearch` settings."""
    return embedder_for(
        resolve_settings(search),
        providers or {},
        now_seconds=lambda: 0.0,
        home=NOWHERE,
        models_folder=NOWHERE,
    )


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
@pytest.mark.covers("CFG-2", "SEED-2")
def test_without_a_provider_the_installed_model_embeds(provider: str | None) -> None:
    """Search by meaning needs no key and no network."""
    assert isinstance(chosen(provider=provider), E5Embedder)


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
@pytest.mark.covers("EMB-4", "EMB-5", "EMB-9", "EMB-10", "EMB-12")
def test_auto_takes_the_first_provider_with_a_key(
    monkeypatch: pytest.MonkeyPatch, keyed: tuple[str, ...], chosen_first: str
) -> None:
    """In the seeds' order, and the model that comes with Nacre when there is no key."""
    forget_keys(monkeypatch)
    providers = {name: ProviderSettings(api_key="k") for name in keyed}

    assert provider_name(resolve_settings({"provider": "auto"}), providers, NOWHERE) == chosen_first
    assert isinstance(chosen(providers), E5Embedder), "a key for other things sends no notes anywhere"


@pytest.mark.covers("EMB-6")
def test_auto_keeps_the_model_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider is chosen, not the model."""
    forget_keys(monkeypatch)
    found = chosen({"openai": ProviderSettings(api_key="k")}, provider="auto", model="text-embedding-3-large")

    assert (found.facts.provider, found.facts.model) == ("openai", "text-embedding-3-large")


def test_auto_looks_into_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a provider's key usually is."""
    forget_keys(monkeypatch)
    monkeypatch.setenv("VOYAGE_API_KEY", "k")

    assert provider_name(resolve_settings({"provider": "auto"}), {}, NOWHERE) == "voyage"


@pytest.mark.parametrize("remote", [{"apiKey": "k"}, {"baseUrl": "http://127.0.0.1:1/v1"}])
@pytest.mark.covers("EMB-4")
def test_remote_settings_without_a_name_are_openai_s(
    monkeypatch: pytest.MonkeyPatch, remote: dict[str, str]
) -> None:
    """Whoever writes a key or an address for embeddings wants it used."""
    forget_keys(monkeypatch)

    assert provider_name(resolve_settings({"remote": remote}), {}, NOWHERE) == "openai"


@pytest.mark.parametrize("provider", [None, "local", "auto", "gguf"])
@pytest.mark.covers("PART-34")
def test_a_model_file_of_the_owner_s_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: str | None
) -> None:
    """Also when no provider is named, and before any key."""
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    path = tmp_path / "honey-Q8_0.gguf"
    write_tiny_bert(path)
    embedder = chosen(provider=provider, local={"modelPath": str(path)})

    assert isinstance(embedder, GgufEmbedder)
    assert (embedder.facts.provider, embedder.facts.model) == ("local", "honey-Q8_0.gguf")


def test_only_a_named_provider_downloads() -> None:
    """An `hf:` model by itself changes nothing; `gguf` alone is the seeds' default model."""
    uri = {"modelPath": "hf:bees/honey/honey.gguf"}

    assert isinstance(chosen(local=uri), E5Embedder)
    assert chosen(provider="local", local=uri).facts.model == "honey.gguf"
    assert chosen(provider="gguf").facts.model == "embeddinggemma-300m-qat-Q8_0.gguf"


@pytest.mark.skipif(importlib.util.find_spec("llama_cpp") is not None, reason="llama-cpp-python is installed")
@pytest.mark.covers("EMB-7")
async def test_a_local_model_that_cannot_run_hands_over(tmp_path: Path) -> None:
    """The fallback embeds, and the reason names what is missing."""
    path = tmp_path / "honey.gguf"
    write_tiny_bert(path)
    found = chosen(local={"modelPath": str(path)}, fallback="local")
    with pytest.raises(EmbeddingFailed, match="llama-cpp-python"):
        await asyncio.create_task(found.embed_documents(["honey"]))
    [vector] = await asyncio.create_task(found.embed_documents(["honey"]))
    await found.close()

    assert (found.facts.model, len(vector)) == ("multilingual-e5-small", 384)
    assert "llama-cpp-python" in found.reason


def test_a_sentence_transformer_has_to_be_named() -> None:
    """There is no usual one."""
    assert chosen(provider="sentence-transformers", model="bees/honey").facts.model == "bees/honey"
    with pytest.raises(ConfigError, match=r"memorySearch\.model is missing"):
        chosen(provider="sentence-transformers")


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
@pytest.mark.covers("EMB-9")
def test_each_provider_has_its_usual_model(provider: str, model: str, base_url: str, tokens: int) -> None:
    """Naming a provider is enough."""
    embedder = chosen(provider=provider)
    found = endpoint(provider)

    assert isinstance(embedder, HttpEmbedder)
    assert (embedder.facts.provider, embedder.facts.model) == (provider, model)
    assert (found.base_url, found.max_input_tokens) == (base_url, tokens)


@pytest.mark.covers("EMB-1", "EMB-2")
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
@pytest.mark.covers("EMB-14")
def test_ollama_is_asked_where_it_speaks_openai_s_protocol(url: str) -> None:
    """The address may be written with or without the version, and no key is needed."""
    found = endpoint("ollama", remote={"baseUrl": url})

    assert (found.base_url, found.needs_key) == ("http://pi:11434/v1", False)


@pytest.mark.covers("EMB-14")
def test_any_name_with_an_address_is_a_compatible_server() -> None:
    """A server of one's own needs an address and a model, and no key."""
    remote = {"baseUrl": "http://127.0.0.1:1234/v1"}
    found = endpoint("lmstudio", model="lmstudio/bge-m3", remote=remote)

    assert (found.provider, found.model, found.needs_key) == ("lmstudio", "bge-m3", False)
    with pytest.raises(ConfigError, match=r"memorySearch\.model is missing"):
        endpoint("lmstudio", remote=remote)


def test_an_unknown_provider_is_refused() -> None:
    """The sentence names what would be right."""
    with pytest.raises(ConfigError, match=r"'cohere', which is unknown\. Use local, gguf, none, openai"):
        chosen(provider="cohere")
    with pytest.raises(ConfigError, match="'cohere'"):
        chosen(provider="openai", fallback="cohere")


@pytest.mark.parametrize(
    ("provider", "fallback"), [("openai", "openai"), ("openai", "none"), ("local", "auto"), ("none", "local")]
)
def test_a_fallback_that_is_the_same_or_nobody_is_none(provider: str, fallback: str) -> None:
    """Only another embedder can take over."""
    assert not isinstance(chosen(provider=provider, fallback=fallback), FallbackEmbedder)


@pytest.mark.parametrize("fallback", ["bogus", "sentence-transformers"])
@pytest.mark.covers("SEED-21", "PART-11")
def test_a_fallback_that_cannot_be_is_named_by_its_own_key(fallback: str) -> None:
    """The owner is sent to `memorySearch.fallback`, and not to the provider that is right."""
    with pytest.raises(ConfigError, match=f"^memorySearch.fallback is '{fallback}'.*Use none, local"):
        chosen(provider="local", fallback=fallback)


@pytest.mark.covers("EMB-10", "Q-20")
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

    assert (found.facts.provider, found.facts.model) == ("gemini", "gemini-embedding-001")
    assert found.facts.fingerprint == chosen(provider="gemini").facts.fingerprint
