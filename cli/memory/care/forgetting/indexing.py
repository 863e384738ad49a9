"""The index of the notes, built again without what was forgotten. Edge."""

from __future__ import annotations

from dataclasses import replace

from nacre.runtime.contracts.clock import Clock
from nacre.runtime.recall.facts.open_facts import open_facts
from nacre.runtime.recall.open_memory import open_memory
from nacre.runtime.settings.config import Config


async def index_anew(config: Config, now: Clock) -> list[str]:
    """The index built again, so that no deleted word stays in its pages, and vectors of nothing taken out.

    Gives sentences about what did not work. Raises `MemoryIndexError`.
    """
    search = config.settings.agent.memory_search
    cache = search.cache.model_copy(update={"enabled": False})
    agent = config.settings.agent.model_copy(
        update={"memory_search": search.model_copy(update={"cache": cache})}
    )
    agents = config.settings.agents.model_copy(update={"defaults": agent})
    strict = replace(config, settings=config.settings.model_copy(update={"agents": agents}))
    engine = await open_memory(strict, now)
    if engine is None:
        return []
    try:
        report = await engine.sync(reason="cli", force=True)
    finally:
        await engine.close()
    if config.folders.facts_index_file.exists():
        facts = open_facts(strict, now)
        try:
            await facts.sync()
        finally:
            await facts.close()
    return [report.problem] if report.problem else []
