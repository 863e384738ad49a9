"""`models`: where providers are and which keys they want."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from pydantic import Field

from nacre.runtime.settings.section import SettingsSection

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


class ProviderSettings(SettingsSection):
    """`models.providers.<name>`: where a provider is and which key it wants."""

    base_url: str = ""
    """Address of an OpenAI-compatible endpoint; blank is the provider's own."""
    api_key: str = Field(default="", repr=False)
    """The key; blank reads the provider's environment variable."""
    api: ProviderApi = ""
    """How it is spoken to: `openai-completions` over plain HTTP, `litellm` through litellm; blank chooses."""


class ModelsSettings(SettingsSection):
    """`models`."""

    providers: Mapping[str, ProviderSettings] = Field(default_factory=dict)
