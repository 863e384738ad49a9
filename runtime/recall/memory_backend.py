"""`MemoryBackend`: a search program in front of memory-core, which `memory.backend` names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nacre.memory.contracts.records import Excerpt, Question, SearchReport
from nacre.record import Record
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.recall.memory_core import MemoryCore
from nacre.runtime.recall.memory_plugin import MemoryPlugin, Notes
from nacre.runtime.settings.config import Config


class BackendStatus(Record):
    """The backend's part of `nacre memory status`: `rows` of label and value, and the same as JSON."""

    rows: tuple[tuple[str, str], ...]
    report: Mapping[str, Any]


class MemoryBackend(ABC):
    """Answers searches in the place of memory-core, which answers when the program fails.

    `built_in` are the notes of memory-core. A terminal command calls `search`, `read` or `update` once.
    """

    @abstractmethod
    def engine(self, config: Config, core: MemoryCore, now: Clock) -> MemoryPlugin:
        """The engine of an agent, not started. It starts `core` when it needs it.

        Raises:
            ConfigError: the settings do not fit together.
        """

    @abstractmethod
    def problem(self, config: Config) -> str:
        """A sentence that says why the program cannot be used, or an empty string. Does not start it."""

    @abstractmethod
    def status(self, config: Config, short: Callable[[Path], str]) -> BackendStatus:
        """The status of the program, without starting it. `short` shortens a path for people."""

    @abstractmethod
    async def search(self, config: Config, built_in: Notes, question: Question) -> SearchReport:
        """Searches as the agent's owner."""

    @abstractmethod
    async def read(self, config: Config, built_in: Notes, path: str, **lines: Any) -> Excerpt:
        """Reads lines of a note that one of the two engines found.

        Raises:
            ReadRefused: the path is neither a note nor a file that the program indexes.
        """

    @abstractmethod
    async def update(self, config: Config, built_in: Notes) -> str:
        """Updates the program's index. Returns why that failed, or an empty string."""
