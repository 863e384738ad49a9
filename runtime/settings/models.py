"""`models`: where providers are and which keys they want."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from nacre.runtime.settings.section import SettingsSection


class ProviderSettings(SettingsSection):
    """`models.providers.<name>`: where a provider is and which key it wants."""

    base_url: str = ""
    """Address of an OpenAI-compatible endpoint; blank is the provider's own."""
    api_key: str = Field(default="", repr=False)
    """The key; blank reads the provider's environment variable."""


class ModelsSettings(SettingsSection):
    """`models`."""

    providers: Mapping[str, ProviderSettings] = Field(default_factory=dict)
