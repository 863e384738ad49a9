"""From settings to an open memory engine, for an agent and for commands that need no agent."""

from __future__ import annotations

from nacre.memory.engine import MemoryEngine
from nacre.memory.settings import index_path
from nacre.runtime.clock import Clock
from nacre.runtime.config import AGENT_ID, Config


async def open_memory(config: Config, now: Clock) -> MemoryEngine | None:
    """The engine over this agent's notes, or `None` when memory search is switched off.

    Raises:
        MemoryIndexError: the index cannot be opened, and no fresh one can take its place.
    """
    settings = config.settings.agent.memory_search
    if not settings.enabled:
        return None
    return await MemoryEngine.open(
        workspace=config.workspace,
        index_path=index_path(settings, state_dir=config.state_dir, agent_id=AGENT_ID, home=config.home),
        settings=settings,
        embedder=None,
        now=now,
    )
