"""What the memory engine keeps beside the notes, opened to forget some of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from nacre.runtime.settings.sections.plugins import MEMORY_CORE, NO_MEMORY

if TYPE_CHECKING:
    from nacre.runtime.contracts.clock import Clock
    from nacre.runtime.recall.memory_plugin import MemoryPlugin
    from nacre.runtime.settings.config import Config


@asynccontextmanager
async def opened_engine(config: Config, now: Clock) -> AsyncIterator[MemoryPlugin | None]:
    """The memory engine of an extension, started; None where the settings choose none.

    Raises:
        MemoryIndexError: what it keeps cannot be opened.
        ConfigError: it is not installed, or its settings cannot be used.
    """
    name = config.settings.plugins.slots.memory
    if name in (MEMORY_CORE, NO_MEMORY):
        yield None
        return
    from nacre.runtime.extensions.loading import load_engine
    from nacre.runtime.recall.open_memory import own_memory_home

    engine = load_engine(name, config.settings.plugins)
    async with own_memory_home(config, name, now) as home:
        try:
            await engine.start(home)
            yield engine
        finally:
            await engine.close()
