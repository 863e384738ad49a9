"""Which memory engines there are: Nacre's own, and those of extensions that the settings let run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial

from nacre.extensions.memory_bench.asking import Make
from nacre.extensions.qmd.program import is_installed
from nacre.memory.contracts.embedder import Embedder
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.extensions.choice import chosen
from nacre.runtime.extensions.installed.discovery import installed_extensions
from nacre.runtime.extensions.loading import load_engine
from nacre.runtime.recall.memory_core import MemoryCore, memory_core
from nacre.runtime.recall.memory_plugin import MemoryPlugin
from nacre.runtime.settings.config import Config
from nacre.runtime.settings.sections.plugins import MEMORY_CORE, PluginSlots, PluginsSettings

QMD = "qmd"


def installed_engines(config: Config) -> Mapping[str, Make]:
    """What makes each engine, by its id. None of an extension's code is run for that."""
    found: dict[str, Make] = {MEMORY_CORE: _core}
    command = config.settings.memory.qmd.command
    if is_installed(command, environment=config.environment, user_folder=config.home):
        found[QMD] = _qmd
    for item in installed_extensions():
        kind = item.manifest.kind if item.manifest else None
        if kind == "memory" and chosen(item.id, kind, _in_the_slot(item.id, config.settings.plugins)).is_on:
            found[item.id] = partial(_extension, item.id)
    return found


def _core(config: Config, now: Clock, embedder: Embedder | None) -> MemoryCore:
    core = memory_core(config, now, watch=False, lent=lambda _key, make: embedder or make())
    if core is None:
        raise ConfigError("Memory search is switched off in agents.defaults.memorySearch.enabled.")
    return core


def _qmd(config: Config, now: Clock, embedder: Embedder | None) -> MemoryPlugin:
    from nacre.extensions.qmd.qmd_memory import QmdMemory

    return QmdMemory(config, _core(config, now, embedder), embedding=asyncio.Lock(), now=now)


def _extension(name: str, config: Config, _now: Clock, _embedder: Embedder | None) -> MemoryPlugin:
    return load_engine(name, _in_the_slot(name, config.settings.plugins))


def _in_the_slot(name: str, plugins: PluginsSettings) -> PluginsSettings:
    """The settings with this engine as the memory, and no other extension switched on by its entry.

    Its own settings are left out, since they may name the place where it keeps the owner's memories.
    """
    return plugins.model_copy(
        update={
            "slots": PluginSlots(memory=name),
            "entries": {
                each: entry.model_copy(update={"config": {}})
                for each, entry in plugins.entries.items()
                if each == name
            },
        }
    )
