"""`memory`: what the model is shown of memory search; `agents.defaults.memorySearch` says how it searches."""

from __future__ import annotations

from typing import Literal

from nacre.runtime.settings.section import SettingsSection


class MemorySettings(SettingsSection):
    """`memory`."""

    citations: Literal["auto", "on", "off"] = "auto"
    """Whether search results carry a `Source:` line; `auto` is on in direct chats."""
