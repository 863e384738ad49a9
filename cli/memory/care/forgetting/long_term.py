"""The long-term memory of the LanceDB engine, opened beside the agent. Edge."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from nacre.memory.contracts.embedder import Embedder
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.recall.open_memory import memory_home
from nacre.runtime.settings.config import Config

if TYPE_CHECKING:
    from nacre.runtime.extensions.lancedb.memories import Memories


@asynccontextmanager
async def opened_memories(config: Config, now: Clock) -> AsyncIterator[Memories]:
    """The memories of the agent that a config describes; made if there are none.

    Raises:
        MemoryIndexError: the table cannot be opened.
        ConfigError: the settings of the engine cannot be used.
    """
    from nacre.runtime.extensions.lancedb.plugin import open_memories
    from nacre.runtime.extensions.lancedb.settings import ENGINE_ID
    from nacre.runtime.extensions.loading import checked_settings

    checked_settings(ENGINE_ID, config.settings.plugins)
    embedders: list[Embedder] = []

    def lent(_key: object, make: Callable[[], Embedder]) -> Embedder:
        embedders.append(make())
        return embedders[-1]

    memories, _ = await open_memories(memory_home(config, ENGINE_ID, now, lent=lent))
    try:
        yield memories
    finally:
        await memories.close()
        for embedder in embedders:
            await embedder.close()
