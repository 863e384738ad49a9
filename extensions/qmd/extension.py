"""The extension `qmd`: puts the program before memory-core, for agents and for `nacre memory`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.extensions.host import ExtensionHost
from nacre.runtime.recall.memory_backend import BackendStatus, MemoryBackend

if TYPE_CHECKING:
    from nacre.extensions.qmd.qmd_memory import QmdParts
    from nacre.memory.contracts.records import Excerpt, Question, SearchReport
    from nacre.runtime.contracts.clock import Clock
    from nacre.runtime.recall.memory_core import MemoryCore
    from nacre.runtime.recall.memory_plugin import MemoryPlugin, Notes
    from nacre.runtime.settings.config import Config

_EMBEDDING: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
"""Only one agent of a process embeds with qmd at a time, because each run loads the models again."""


def register(host: ExtensionHost) -> None:
    """Adds the backend without starting or importing anything of it."""
    host.memory_backend(QmdBackend())


class QmdBackend(MemoryBackend):
    """`memory.backend: "qmd"`."""

    def engine(self, config: Config, core: MemoryCore, now: Clock) -> MemoryPlugin:
        if not config.is_in_files and config.settings.memory.qmd.include_default_memory:
            raise ConfigError(
                "memory.backend is qmd, which reads files, but the notes are in a database. Set "
                "memory.qmd.includeDefaultMemory to false, or memory.backend to builtin."
            )
        from nacre.extensions.qmd.qmd_memory import QmdMemory

        return QmdMemory(config, core, embedding=_embedding(), now=now)

    def problem(self, config: Config) -> str:
        from nacre.extensions.qmd.program import is_installed

        command = config.settings.memory.qmd.command
        if is_installed(command, environment=config.environment, user_folder=config.home):
            return ""
        return (
            f"memory.backend is qmd, and there is no program {command!r}: memory-core answers in its place. "
            "Install qmd, or write its whole path in memory.qmd.command."
        )

    def status(self, config: Config, short: Callable[[Path], str]) -> BackendStatus:
        from nacre.cli.screen.json_text import moment
        from nacre.extensions.qmd.qmd_memory import qmd_home

        home, mode = qmd_home(config), config.settings.memory.qmd.search_mode
        state = home.state()
        answers = f"memory-core, because qmd does not answer: {state.problem}" if state.problem else ""
        updated = moment(state.updated_at_seconds or None)
        report: dict[str, Any] = {
            "backend": "builtin" if state.problem else "qmd",
            "qmd": {
                "folder": str(home.folder),
                "searchMode": mode,
                "collections": list(state.collections),
                "updatedAt": updated,
                "embeddedAt": moment(state.embedded_at_seconds or None),
            },
        }
        if state.problem:
            report["fallback"] = {"from": "qmd", "reason": state.problem}
        else:
            report |= {"provider": "qmd", "model": "qmd"}
        rows = (
            ("Backend", answers or f"qmd ({mode})"),
            ("qmd collections", ", ".join(state.collections)),
            ("qmd updated", updated or "never"),
            ("qmd folder", short(home.folder)),
        )
        return BackendStatus(rows=rows, report=report)

    async def search(self, config: Config, built_in: Notes, question: Question) -> SearchReport:
        parts = _parts(config, built_in)
        await parts.open()
        return await parts.notes.search(question)

    async def read(self, config: Config, built_in: Notes, path: str, **lines: Any) -> Excerpt:
        return await _parts(config, built_in).notes.read(path, **lines)

    async def update(self, config: Config, built_in: Notes) -> str:
        from nacre.extensions.qmd.program import QmdFailed

        parts = _parts(config, built_in)
        try:
            await parts.open()
            await parts.upkeep.update()
        except (QmdFailed, OSError) as error:
            return f"qmd was not updated: {error}"
        finally:
            await parts.upkeep.close()
        return ""


def _embedding() -> asyncio.Lock:
    return _EMBEDDING.setdefault(asyncio.get_running_loop(), asyncio.Lock())


def _parts(config: Config, built_in: Notes) -> QmdParts:
    from nacre.extensions.qmd.qmd_memory import qmd_parts

    async def engine() -> Notes:
        return built_in

    return qmd_parts(config, engine, embedding=_embedding(), now=config.clock)
