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
    """What `nacre memory status` shows of a backend: `rows` of label and value, and the same as JSON."""

    rows: tuple[tuple[str, str], ...]
    report: Mapping[str, Any]


class MemoryBackend(ABC):
    """Answers searches in the place of memory-core, which steps in when the program fails.

    `built_in` is what steps in. The terminal commands call `search`, `read` and `update` once and exit.
    """

    @abstractmethod
    def engine(self, config: Config, core: MemoryCore, now: Clock) -> MemoryPlugin:
        """The engine of an agent, not started. It starts `core` when it needs it.

        Raises:
            ConfigError: the settings do not fit together.
        """

    @abstractmethod
    def problem(self, config: Config) -> str:
        """Why the program cannot be used, as a sentence, found without starting it; empty when it can."""

    @abstractmethod
    def status(self, config: Config, short: Callable[[Path], str]) -> BackendStatus:
        """What is known of the program without starting it. `short` shortens a path for people."""

    @abstractmethod
    async def search(self, config: Config, built_in: Notes, question: Question) -> SearchReport:
        """Searches as the agent's owner."""

    @abstractmethod
    async def read(self, config: Config, built_in: Notes, path: str, **lines: Any) -> Excerpt:
        """Reads lines of a note that either of the two engines found.

        Raises:
            ReadRefused: the path is neither a note nor a file that the program indexes.
        """

    @abstractmethod
    async def update(self, config: Config, built_in: Notes) -> str:
        """Brings the program's index in line with the files. Returns why that failed, or an empty string."""
