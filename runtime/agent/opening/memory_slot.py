"""The memory engine that the author handed in, or that the settings name, started in its slot."""

from __future__ import annotations

import asyncio
import logging

from nacre.runtime.agent.opening.given import Given
from nacre.runtime.agent.opening.shared import World
from nacre.runtime.commands.registry import Commands
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.extensions.engine_parts import EngineParts, engine_parts
from nacre.runtime.recall.memory_core import MemoryCore, memory_core
from nacre.runtime.recall.memory_plugin import MemoryPlugin
from nacre.runtime.recall.memory_slot import MemorySlot
from nacre.runtime.recall.open_memory import memory_home
from nacre.runtime.settings.config import Config
from nacre.runtime.settings.sections.plugins import MEMORY_CORE, NO_MEMORY

log = logging.getLogger(__name__)


async def open_memory_slot(
    config: Config, given: Given, world: World, commands: Commands
) -> tuple[MemorySlot, EngineParts]:
    """The slot with the engine that the author handed in, or that the settings name, started; what it brings.

    `commands` are those of the agent without the engine's.
    """
    slot = _slot(config, given, world)
    world.closing.push_async_callback(slot.close)
    home = memory_home(config, slot.name, world.now, lent=world.embedder)
    brought = await slot.start(home, lambda engine: engine_parts(engine, commands))
    return slot, brought or EngineParts(commands=commands)


def _slot(config: Config, given: Given, world: World) -> MemorySlot:
    chosen = config.settings.plugins.slots.memory
    if given.memory is not None:
        return MemorySlot(given.memory, name=given.memory_id or type(given.memory).__name__)
    if chosen == MEMORY_CORE:
        core = memory_core(config, world.now, watch=world.watch, lent=world.embedder)
        engine = _with_qmd(config, core, world) if core is not None else None
        return MemorySlot(engine, name=chosen, why_empty="memory search is switched off")
    if chosen == NO_MEMORY:
        return MemorySlot(None, name=chosen, why_empty="plugins.slots.memory is none")
    return MemorySlot(None, name=chosen, why_empty=f"there is no memory engine {chosen!r}")


def _with_qmd(config: Config, core: MemoryCore, world: World) -> MemoryPlugin:
    """The engine of the settings: memory-core, or qmd in front of it."""
    if config.settings.memory.backend != "qmd":
        return core
    if config.database_url and config.settings.memory.qmd.include_default_memory:
        raise ConfigError(
            "memory.backend is qmd, which reads files, and the notes lie in a database. Set "
            "memory.qmd.includeDefaultMemory to false, or memory.backend to builtin."
        )
    # whoever has not chosen it does not wait for its modules
    from nacre.runtime.recall.qmd.qmd_memory import QmdMemory

    embedding = world.shared.borrowed(
        "qmd-embed", asyncio.Lock, close=lambda _lock: asyncio.sleep(0), until=world.closing
    )
    return QmdMemory(config, core, embedding=embedding, now=world.now)


def on_notes(memory: MemorySlot, path: str) -> None:
    """A tool wrote a file: the index has something to read."""
    log.info("%s was written", path)
    memory.notes_changed()
