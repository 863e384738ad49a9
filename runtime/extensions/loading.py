"""Loads the enabled extensions one by one. A broken extension does not affect the others."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import field
from typing import Any

from nacre.memory.contracts.facts import FactMemory
from nacre.record import Record
from nacre.runtime.commands.function import checked_command
from nacre.runtime.commands.registry import Commands
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.contracts.foreign_code import ForeignCodeFailed, run_foreign
from nacre.runtime.extensions.choice import FACTS, asks_backend, chosen, named, not_installed
from nacre.runtime.extensions.host import ExtensionHost, OpeningAgent
from nacre.runtime.extensions.installed.discovery import Installed, built_in_extensions, installed_extensions
from nacre.runtime.extensions.installed.settings_schema import settings_problems
from nacre.runtime.extensions.service import TurnWorkers
from nacre.runtime.hooks.hooks import Hooks, HookTable, register_all
from nacre.runtime.recall.memory_backend import MemoryBackend
from nacre.runtime.recall.memory_plugin import MemoryPlugin
from nacre.runtime.settings.disk.agent_folders import FILES, StorageChoice
from nacre.runtime.settings.sections.plugins import NO_MEMORY, PluginsSettings
from nacre.runtime.settings.settings import Settings

log = logging.getLogger(__name__)


class ExtensionBroken(Exception):
    """An extension cannot be loaded; the message is a sentence about it."""


class Loaded(Record):
    """The hosts of the loaded extensions by id, and sentences for the owner.

    `commands` are the existing commands followed by those of the extensions.
    """

    commands: Commands
    hosts: tuple[ExtensionHost, ...] = ()
    notices: tuple[str, ...] = ()


def load_extensions(
    plugins: PluginsSettings,
    *,
    built_in: Sequence[str] = (),
    tool_names: Collection[str],
    part_names: Collection[str],
    commands: Commands,
    opening: OpeningAgent | None = None,
) -> Loaded:
    """Loads the extensions that `plugins` names, and the `built_in` ones that other settings need.

    `tool_names`, `part_names` and the words of `commands` are in use already. `opening` is the agent that is
    being opened; without one, extensions add nothing that depends on an agent. If nothing is named, nothing
    is read, because that would slow down the start.
    """
    wanted = named(plugins)
    if not wanted and not built_in:
        return Loaded(commands=commands)
    installed = built_in_extensions()
    if wanted or not installed.keys() >= set(built_in):
        installed = {item.id: item for item in installed_extensions()}
    tools, parts = set(tool_names), set(part_names)
    hosts: list[ExtensionHost] = []
    notices: list[str] = []
    needed = {name for name in built_in if name not in plugins.deny}
    for name in sorted({*wanted, *needed}, key=lambda name: (name not in needed, name)):
        item = installed.get(name)
        if item is None:
            notices.append(not_installed(name, plugins))
            continue
        kind = item.manifest.kind if item.manifest else None
        if name not in built_in and not chosen(name, kind, plugins).is_on:
            continue
        try:
            host = _registered(item, plugins, opening)
            _refuse_taken("tool", [tool.name for tool in host.tools], tools)
            _refuse_taken("prompt part", [part.name for part in host.prompt_parts], parts)
            with_its_own = commands.and_also(host.commands)
        except (ExtensionBroken, ConfigError) as broken:
            log.warning("the extension %s was not loaded: %s", name, broken)
            notices.append(f"The extension {name!r} was not loaded. {broken}")
            continue
        tools.update(tool.name for tool in host.tools)
        parts.update(part.name for part in host.prompt_parts)
        commands = with_its_own
        hosts.append(host)
    return Loaded(commands=commands, hosts=tuple(hosts), notices=tuple(notices))


def hosts_with(
    plugins: PluginsSettings, built_in: Sequence[str], opening: OpeningAgent | None = None
) -> tuple[tuple[ExtensionHost, ...], tuple[str, ...]]:
    """Loads the enabled extensions and the `built_in` ones for a command; failures are sentences."""
    loaded = load_extensions(
        plugins, built_in=built_in, tool_names=(), part_names=(), commands=Commands(), opening=opening
    )
    return loaded.hosts, loaded.notices


def load_workers(storage: StorageChoice, plugins: PluginsSettings) -> TurnWorkers:
    """The workers of the extension that stores an agent's data.

    Raises:
        ConfigError: files store it, the extension cannot be loaded, or it has no workers.
    """
    if storage.driver == FILES:
        raise ConfigError(
            "Workers take turns from a PostgreSQL database, but the settings name none. Set storage.url or "
            "NACRE_DATABASE_URL: postgresql://user:password@host:5432/database."
        )
    hosts, notices = hosts_with(plugins, (storage.driver,))
    for host in hosts:
        if host.extension_id == storage.driver and host.workers is not None:
            return host.workers
    raise ConfigError(
        " ".join(notices) or f"The storage {storage.driver!r} has no workers: unset storage.workers."
    )


def load_engine(name: str, plugins: PluginsSettings) -> MemoryPlugin:
    """The memory engine of the extension `name`, not started.

    Raises:
        ConfigError: the extension is off, not installed or broken, or provides no engine.
    """
    slots = plugins.slots.model_copy(update={"memory": name})
    only = {each: entry for each, entry in plugins.entries.items() if each == name}
    alone = plugins.model_copy(update={"slots": slots, "entries": only})
    hosts, notices = hosts_with(alone, ())
    for host in hosts:
        if host.engine is not None:
            return host.engine
    raise ConfigError(" ".join(notices) or f"The extension {name!r} provides no memory engine.")


def load_facts(opening: OpeningAgent) -> FactMemory:
    """The facts and notes of the built-in extension.

    Raises:
        ConfigError: the extension is denied or broken, or the settings name an embedder that cannot be used.
    """
    plugins = opening.config.settings.plugins
    slots = plugins.slots.model_copy(update={"memory": NO_MEMORY})
    alone = plugins.model_copy(update={"slots": slots, "entries": {}, "allow": ()})
    hosts, notices = hosts_with(alone, (FACTS,), opening)
    for host in hosts:
        if host.facts is not None:
            return host.facts
    raise ConfigError(" ".join(notices) or f"There are no facts: plugins.deny names {FACTS!r}.")


def load_backend(settings: Settings) -> tuple[MemoryBackend | None, tuple[str, ...]]:
    """The backend that `memory.backend` names, or `None`, and sentences about what is missing."""
    if not asks_backend(settings):
        return None, ()
    name = settings.memory.backend
    hosts, notices = hosts_with(settings.plugins, (name,))
    found = backend_of(hosts, name)
    return found, () if found else (*notices, no_backend(name))


def backend_of(hosts: Iterable[ExtensionHost], name: str) -> MemoryBackend | None:
    return next((host.backend for host in hosts if host.extension_id == name), None)


def no_backend(name: str) -> str:
    return f"memory.backend is {name!r}, but no extension provides it, so memory-core answers."


def problem_of(item: Installed, plugins: PluginsSettings) -> str:
    """Why an enabled extension cannot be loaded, as far as known without running it; empty if it can."""
    if item.problem or item.manifest is None:
        return item.problem
    config = plugins.entries[item.id].config if item.id in plugins.entries else {}
    schema = item.manifest.settings_schema
    if item.is_built_in and not config and "required" not in schema:
        return ""  # jsonschema takes as long to import as all extensions
    return " ".join(settings_problems(config, schema, key=f"plugins.entries.{item.id}.config"))


def checked_settings(name: str, plugins: PluginsSettings) -> None:
    """Checks an extension's settings against its schema, for a command that opens its data.

    Raises:
        ConfigError: the settings are invalid, or the installation is broken.
    """
    item = next((item for item in installed_extensions() if item.id == name), None)
    problem = problem_of(item, plugins) if item is not None else not_installed(name, plugins)
    if problem:
        raise ConfigError(problem)


def _registered(item: Installed, plugins: PluginsSettings, opening: OpeningAgent | None) -> ExtensionHost:
    problem = problem_of(item, plugins)
    if problem or item.manifest is None:
        raise ExtensionBroken(problem)
    host = ExtensionHost(
        extension_id=item.id,
        settings=plugins.entries[item.id].config if item.id in plugins.entries else {},
        may_be_memory=item.manifest.kind == "memory",
    )
    try:
        run_foreign(lambda: _run(item, host, opening), item.id)
    except ForeignCodeFailed as error:
        log.warning("the extension %s failed to load", item.id, exc_info=error.__cause__)
        raise ExtensionBroken(f"It could not be loaded: {error}.") from error
    if host.engine is None and item.manifest.kind == "memory":
        raise ExtensionBroken("Its kind is memory, but it provides no memory engine.")
    return host


def _run(item: Installed, host: ExtensionHost, opening: OpeningAgent | None) -> None:
    loaded: Any = item.entry_point.load()
    if item.is_built_in and inspect.ismodule(loaded) and not hasattr(loaded, "register"):
        return  # it adds terminal commands alone
    result = getattr(loaded, "register", loaded)(host)
    if inspect.iscoroutine(result):
        result.close()
        raise TypeError("register(host) must be a plain function")
    if opening is not None:
        for add in host.openings:
            add(opening)


def _refuse_taken(what: str, names: Iterable[str], taken: Collection[str]) -> None:
    seen = set(taken)
    for name in names:
        if name in seen:
            raise ExtensionBroken(f"Its {what} {name!r} has a name that is already in use.")
        seen.add(name)


class EngineParts(Record):
    """An engine's handlers by name, and the agent's commands including the engine's."""

    hooks: HookTable = field(default_factory=lambda: HookTable())
    commands: Commands


def engine_parts(engine: MemoryPlugin, commands: Commands) -> EngineParts:
    """Validates what a started engine provides in addition to the existing `commands`.

    Raises:
        ValueError: a hook's name is unknown, or its handler is not callable.
        TypeError: a command was not made by `nacre.command`.
        ConfigError: a command's name is malformed or in use.
    """
    hooks = engine.hooks()
    register_all(Hooks(), hooks)
    return EngineParts(
        hooks=hooks, commands=commands.and_also([checked_command(each) for each in engine.commands()])
    )
