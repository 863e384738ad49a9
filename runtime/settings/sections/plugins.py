"""`plugins`: which extensions are loaded, and which one is the memory engine. The keys are OpenClaw's."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from nacre.runtime.settings.sections.section import SettingsSection

MEMORY_CORE = "memory-core"
"""The memory engine that comes with Nacre."""
NO_MEMORY = "none"
"""The value of the slot that means no memory engine."""


def _slot(value: object) -> object:
    """The trimmed value; blank means the default, and `none` is case-insensitive."""
    if not isinstance(value, str):
        return value
    chosen = value.strip() or MEMORY_CORE
    return NO_MEMORY if chosen.lower() == NO_MEMORY else chosen


class PluginSlots(SettingsSection):
    """`plugins.slots`: roles that one extension has at a time."""

    memory: Annotated[str, BeforeValidator(_slot)] = MEMORY_CORE
    """The id of the memory engine. Default: `memory-core`, which comes with Nacre. `memory-lancedb` is
    [long-term memory in LanceDB](ltm.md) with its [settings](ltm.md#settings). `none` means no memory tools;
    notes are still written, and read at the start of a session."""


class PluginEntry(SettingsSection):
    """`plugins.entries.<id>`: one extension."""

    enabled: bool | None = None
    """Whether the extension is loaded. Default: decided by `plugins.allow` and `plugins.slots`."""
    config: Mapping[str, Any] = Field(default_factory=dict, repr=False)
    """The settings of the extension, as its manifest describes them."""


class PluginsSettings(SettingsSection):
    """`plugins`: the extensions."""

    enabled: bool = True
    """Whether extensions are loaded."""
    allow: tuple[str, ...] = ()
    """The ids of the only extensions that are loaded. Default: no restriction."""
    deny: tuple[str, ...] = ()
    """The ids of extensions that are never loaded."""
    slots: PluginSlots = Field(default_factory=PluginSlots.unwritten)
    entries: Mapping[str, PluginEntry] = Field(default_factory=dict)
