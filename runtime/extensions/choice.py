"""Decides which extensions the settings enable. The order of the rules is OpenClaw's."""

from __future__ import annotations

from nacre.record import Record
from nacre.runtime.extensions.installed.manifest import ExtensionKind
from nacre.runtime.settings.sections.plugins import MEMORY_CORE, NO_MEMORY, PluginsSettings
from nacre.runtime.settings.settings import Settings

CURATION = "curation"
"""The built-in extension that keeps the curated notes short."""
FACTS = "facts"
"""The built-in extension with the facts and notes of identities."""


class Choice(Record):
    """Whether an extension is on, and the setting that says so."""

    is_on: bool
    reason: str


def chosen(name: str, kind: ExtensionKind | None, plugins: PluginsSettings, *, driver: str = "") -> Choice:
    """Whether the extension with this id is on; an extension that no setting names is off. `driver` is the
    setting `storage.driver`."""
    entry = plugins.entries.get(name)
    has_slot = plugins.slots.memory == name
    if not plugins.enabled:
        return Choice(is_on=False, reason="plugins.enabled is false")
    if name in plugins.deny:
        return Choice(is_on=False, reason="plugins.deny names it")
    if plugins.allow and name not in plugins.allow:
        return Choice(is_on=False, reason="plugins.allow does not name it")
    if entry is not None and entry.enabled is False:
        return Choice(is_on=False, reason=f"plugins.entries.{name}.enabled is false")
    if kind == "channel":
        return Choice(is_on=False, reason=f"it is a channel: channels.{name} switches it on in nacre serve")
    if kind == "provider":
        return Choice(is_on=False, reason=f"it is a provider: a model {name}/MODEL uses it")
    if kind == "storage":
        return Choice(is_on=driver == name, reason=f"storage.driver is {driver or 'files'}")
    if kind == "built-in":
        return Choice(is_on=True, reason="it is built in, and runs when a setting or command asks for it")
    if kind == "memory" and not has_slot:
        return Choice(is_on=False, reason=f"plugins.slots.memory is {plugins.slots.memory}")
    if has_slot:
        return Choice(is_on=True, reason="plugins.slots.memory names it")
    if entry is not None and entry.enabled:
        return Choice(is_on=True, reason=f"plugins.entries.{name}.enabled is true")
    if name in plugins.allow:
        return Choice(is_on=True, reason="plugins.allow names it")
    return Choice(is_on=False, reason=f"nothing names it: set plugins.entries.{name}.enabled to true")


def named(plugins: PluginsSettings) -> tuple[str, ...]:
    """The ids that the settings ask for, installed or not; none if plugins are disabled."""
    if not plugins.enabled:
        return ()
    names = [*plugins.allow, *(name for name, entry in plugins.entries.items() if entry.enabled)]
    if plugins.slots.memory not in (MEMORY_CORE, NO_MEMORY):
        names.append(plugins.slots.memory)
    return tuple(dict.fromkeys(name for name in names if name != MEMORY_CORE))


def needed_by(settings: Settings, *, has_model: bool) -> tuple[str, ...]:
    """The built-in extensions that an agent with these settings needs. `has_model` says whether the settings
    connect one."""
    backend = (settings.memory.backend,) if asks_backend(settings) else ()
    facts = (FACTS,) if settings.memory.facts.enabled else ()
    curation = (CURATION,) if has_model and settings.memory.consolidate != "off" else ()
    return (*backend, *facts, *curation, *(("mcp",) if settings.mcp.servers else ()))


def asks_backend(settings: Settings) -> bool:
    return settings.memory.has_backend and settings.plugins.slots.memory == MEMORY_CORE


def not_installed(name: str, plugins: PluginsSettings) -> str:
    """The message about an id in the settings that is not installed."""
    if name == plugins.slots.memory:
        return (
            f"plugins.slots.memory is {name!r}, but no extension with this id is installed. The agent runs "
            "without memory tools; memory-core is the engine that comes with Nacre."
        )
    return f"The settings name the extension {name!r}, which is not installed."
