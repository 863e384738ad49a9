"""What `nacre memory …` does where `memory.backend` is qmd. Nothing of it is imported where it is not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nacre.cli.screen.json_text import moment
from nacre.records.record import Record
from nacre.runtime.contracts.clock import owner_clock
from nacre.runtime.recall.open_memory import unindexed_notes
from nacre.runtime.settings.config import Config
from nacre.runtime.settings.sections.plugins import MEMORY_CORE

if TYPE_CHECKING:
    from nacre.memory.contracts.records import Excerpt, SearchReport
    from nacre.memory.engine import MemoryEngine
    from nacre.runtime.recall.memory_core import Notes
    from nacre.runtime.recall.qmd.home import QmdHome, QmdState
    from nacre.runtime.recall.qmd.qmd_memory import QmdParts


class QmdStatus(Record):
    """What is noted of qmd; nothing is started to learn it."""

    home: QmdHome
    state: QmdState
    search_mode: str


def qmd_status(config: Config) -> QmdStatus | None:
    """How qmd stands, if it is what is asked first."""
    if not _is_chosen(config):
        return None
    from nacre.runtime.recall.qmd.qmd_memory import qmd_home

    home = qmd_home(config)
    return QmdStatus(home=home, state=home.state(), search_mode=config.settings.memory.qmd.search_mode)


def qmd_pairs(status: QmdStatus, short: Callable[[Path], str]) -> list[tuple[str, str]]:
    """For people."""
    state = status.state
    answers = f"memory-core, because qmd does not answer: {state.problem}" if state.problem else ""
    return [
        ("Backend", answers or f"qmd ({status.search_mode})"),
        ("qmd collections", ", ".join(state.collections)),
        ("qmd updated", moment(state.updated_at_seconds or None) or "never"),
        ("qmd folder", short(status.home.folder)),
    ]


def qmd_json(status: QmdStatus) -> dict[str, Any]:
    """For scripts. Where qmd did not answer last, the rest of the status is that of the engine that did."""
    state = status.state
    told: dict[str, Any] = {
        "backend": "builtin" if state.problem else "qmd",
        "qmd": {
            "folder": str(status.home.folder),
            "searchMode": status.search_mode,
            "collections": list(state.collections),
            "updatedAt": moment(state.updated_at_seconds or None),
            "embeddedAt": moment(state.embedded_at_seconds or None),
        },
    }
    if state.problem:
        return told | {"fallback": {"from": "qmd", "reason": state.problem}}
    return told | {"provider": "qmd", "model": "qmd"}


async def searched(config: Config, engine: MemoryEngine, query: str, **options: Any) -> SearchReport:
    """What the agent's owner would be given; with qmd, `engine` is asked where that does not answer."""
    if not _is_chosen(config):
        return await engine.search(query, **options)
    parts = _parts(config, engine)
    await parts.open()
    return await parts.notes.search(query, **options)


async def updated(config: Config, engine: MemoryEngine) -> tuple[str, ...]:
    """Brings qmd's index in line with the files, if that is what is asked; gives what went wrong."""
    if not _is_chosen(config):
        return ()
    from nacre.runtime.recall.qmd.program import QmdFailed

    parts = _parts(config, engine)
    try:
        await parts.open()
        await parts.upkeep.update()
    except (QmdFailed, OSError) as error:
        return (f"qmd was not updated: {error}",)
    finally:
        await parts.upkeep.close()
    return ()


async def read(config: Config, path: str, **lines: Any) -> Excerpt:
    """Lines of a note, whichever of the two engines found it.

    Raises:
        ReadRefused: the path is neither a note nor in a collection.
    """
    notes = unindexed_notes(config)
    if not _is_chosen(config):
        return await notes.read(path, **lines)
    return await _parts(config, notes).notes.read(path, **lines)


def recipe(config: Config) -> list[str]:
    """Lines of a shell that let the owner's own `qmd` use this agent's index."""
    from nacre.runtime.recall.qmd.qmd_memory import qmd_home

    return qmd_home(config).recipe()


def _is_chosen(config: Config) -> bool:
    settings = config.settings
    return settings.memory.backend == "qmd" and settings.plugins.slots.memory == MEMORY_CORE


def _parts(config: Config, built_in: Notes) -> QmdParts:
    from nacre.runtime.recall.qmd.qmd_memory import qmd_parts

    async def engine() -> Notes:
        return built_in

    now = owner_clock(config.settings.agent.user_timezone)
    return qmd_parts(config, engine, embedding=asyncio.Lock(), now=now)
