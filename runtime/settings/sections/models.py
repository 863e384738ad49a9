"""`models`: the addresses and keys of model providers."""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from nacre.runtime.contracts.budget import SMALLEST_WINDOW_TOKENS
from nacre.runtime.settings.disk.auth_profiles import AuthProfiles, plain_provider
from nacre.runtime.settings.sections.section import SettingsSection

SERVED_MODEL = "default"
"""The model name that stands for the first model of a server."""

ProviderApi: TypeAlias = Literal[
    "",
    "openai-completions",
    "litellm",
    # OpenClaw's other names: Ollama answers chat completions too, the others are litellm's
    "ollama",
    "openai-responses",
    "openai-codex-responses",
    "anthropic-messages",
    "google-generative-ai",
    "github-copilot",
    "bedrock-converse-stream",
]


class ProviderModel(SettingsSection):
    """`models.providers.<name>.models[]`: one model of the provider, with OpenClaw's keys."""

    id: str = ""
    """The model's name at the provider."""
    context_window: Annotated[int, Field(ge=SMALLEST_WINDOW_TOKENS)] | None = None
    """The context window. Default: what the server reports."""
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """The maximum number of tokens of one answer. Default: the model's limit, or a quarter of the window on
    your own server."""


class ProviderSettings(SettingsSection):
    """`models.providers.<name>`: the address and key of a provider."""

    base_url: str = ""
    """The address of an OpenAI-compatible endpoint, under any `<name>`; for a provider with its own protocol,
    such as `anthropic`, an endpoint of that protocol. Default: the provider's own address."""
    api_key: str = Field(default="", repr=False)
    """The key. Default: that of an [auth profile](settings.md#keys-of-a-moved-install), otherwise the
    provider's environment variable."""
    api: ProviderApi = ""
    """The protocol. `openai-completions`: OpenAI's chat completions over plain HTTP, which starts a second or
    two sooner and costs the least. `litellm`, and OpenClaw's other names: any protocol that the extra litellm
    knows. Blank: plain HTTP for OpenAI, Gemini, OpenRouter, Ollama, vLLM, LM Studio, llama.cpp, DeepSeek,
    Groq, Mistral, xAI, Together, Cerebras and every provider with a `baseUrl`; litellm for all others, and
    for OpenAI's models that need its Responses API."""
    models: tuple[ProviderModel, ...] = ()
    """Facts about single models."""

    def model(self, name: str) -> ProviderModel:
        """The settings of a model, by the provider's name for it."""
        return next((model for model in self.models if model.id.strip() == name), ProviderModel())


class ModelsSettings(SettingsSection):
    """`models`: the providers."""

    providers: Mapping[str, ProviderSettings] = Field(default_factory=dict)


ADDRESS_PROVIDER = "server"


def named_by_address(name: str, models: ModelsSettings) -> tuple[str, ModelsSettings]:
    """Turns an address into `provider/model`, and returns the settings with that provider.

    A provider of the settings with this address is used. Any other name is unchanged.
    """
    if not name.startswith(("http://", "https://")):
        return name, models
    address = name.rstrip("/")
    known = (each for each, provider in models.providers.items() if provider.base_url.rstrip("/") == address)
    provider_name = next(known, ADDRESS_PROVIDER)
    provider = models.providers.get(provider_name, ProviderSettings())
    providers = {**models.providers, provider_name: provider.model_copy(update={"base_url": address})}
    return f"{provider_name}/{SERVED_MODEL}", models.model_copy(update={"providers": providers})


def with_profile_keys(
    providers: Mapping[str, ProviderSettings], auth: AuthProfiles, *, now_ms: float
) -> Mapping[str, ProviderSettings]:
    """`models.providers` for embeddings: a provider without a key gets the key of an auth profile.

    OAuth tokens are left out, because they are for chats.
    """
    found = dict(providers)
    for provider_id in auth.providers:
        profile = auth.find(provider_id, now_ms=now_ms, with_oauth=False)
        if profile is None:
            continue
        for name in [name for name in found if plain_provider(name) == provider_id] or [provider_id]:
            settings = found.get(name, ProviderSettings())
            if not settings.api_key:
                found[name] = settings.model_copy(update={"api_key": profile.api_key})
    return found
