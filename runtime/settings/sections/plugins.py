"""`plugins`: which extensions are loaded, and which of them is the memory. OpenClaw's keys."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from nacre.runtime.settings.sections.section import SettingsSection

MEMORY_CORE = "memory-core"
"""The memory engine that comes with Nacre."""
NO_MEMORY = "none"
"""What the owner writes into the slot for no memory engine at all."""


def _slot(value: object) -> object:
    """Trimmed; blank is the default, and `none` counts in any case."""
    if not isinstance(value, str):
        return value
    chosen = value.strip() or MEMORY_CORE
    return NO_MEMORY if chosen.lower() == NO_MEMORY else chosen


class PluginSlots(SettingsSection):
    """`plugins.slots`: places that one extension alone can have."""

    memory: Annotated[str, BeforeValidator(_slot)] = MEMORY_CORE
    """The id of the memory engine; blank is `memory-core`, which comes with Nacre. `memory-lancedb` is
    [long-term memory in LanceDB](ltm.md), with [settings of its own](ltm.md#settings). `none`, in any case,
    is no memory tool at all; notes are still written, and read at a session's start."""


class PluginEntry(SettingsSection):
    """`plugins.entries.<id>`: one extension."""

    enabled: bool | None = None
    """Whether the extension of this id is loaded; unset leaves it to `plugins.allow` and `plugins.slots`."""
    config: Mapping[str, Any] = Field(default_factory=dict, repr=False)
    """Its own settings; its manifest says which there are."""


class PluginsSettings(SettingsSection):
    """`plugins`."""

    enabled: bool = True
    """`false` loads no extension."""
    allow: tuple[str, ...] = ()
    """Ids of extensions that are loaded; where there are any, no other extension is."""
    deny: tuple[str, ...] = ()
    """Ids of extensions that are not loaded, whatever else says so."""
    slots: PluginSlots = Field(default_factory=PluginSlots.unwritten)
    entries: Mapping[str, PluginEntry] = Field(default_factory=dict)
