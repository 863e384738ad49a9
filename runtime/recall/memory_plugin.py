"""The contract of a memory engine, which `plugins.slots.memory` selects.

A subclass of `MemoryPlugin` overrides some methods; the others do nothing. The runtime calls the engine only
through `MemorySlot`, which keeps these promises:

- `start` is called before everything else, `close` last. `hooks` and `commands` are called once, after
  `start`, and are added to those of the program and of the extensions. An engine that fails to start, or
  whose hooks or commands are invalid, is closed and left out: the owner gets a sentence about it, and the
  agent runs without it. An engine that the settings do not select is never started.
- `tools`, `instructions`, `recall` and `capture` are called for the owner's private chats only, so that no
  memory reaches a group. If `serves_other_chats` is true, `tools` and `instructions` are called for other
  chats too, and must only use what is in `chat.policy.notes_folder`.
- No exception of an engine ends a turn. A turn waits up to `RECALL_SECONDS` for `recall`; `capture` runs
  after the reply.
- The result of `recall` is shown to the model as data, in this turn only, and is never written to the
  transcript. With every engine, the flush writes notes to Markdown files.

`nacre.runtime.extensions.memory_contract` is a test suite that an engine's author can inherit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from nacre.memory.contracts.embedder import Embedder
from nacre.memory.contracts.records import Excerpt, Question, SearchReport
from nacre.memory.contracts.settings import at_home
from nacre.record import Record
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.hooks.hooks import HookTable
from nacre.runtime.tools.function import FunctionTool, ToolChat
from nacre.runtime.tools.toolbox import Tool


class Notes(Protocol):
    """Searches and reads notes, with an index or a substitute for one. Raises `MemoryIndexError`."""

    async def search(self, question: Question, /) -> SearchReport:
        """As `MemoryEngine.search`."""
        ...

    async def read(
        self, path: str, *, from_line: int | None = None, lines: int | None = None, below: str = ""
    ) -> Excerpt:
        """As `MemoryEngine.read`."""
        ...


MemoryTool: TypeAlias = FunctionTool[..., Any] | Tool
"""A tool made by `nacre.tool`, or one that is already bound to its chat."""

EmbedderSource: TypeAlias = Callable[[Mapping[str, Any]], Embedder | None]


def _no_embedder(_changes: Mapping[str, Any]) -> Embedder | None:
    return None


class EngineCommand(Protocol):
    """A chat command made by `nacre.command`."""

    @property
    def name(self) -> str:
        """The name without the slash."""
        ...

    @property
    def help(self) -> str:
        """The line in `/help`."""
        ...


class MemoryHome(Record):
    """The agent that an engine belongs to, and its places. `now` returns aware datetimes in the owner's zone.

    `settings` is `plugins.entries.<engine_id>.config`, validated against the manifest's schema if an
    extension provides the engine. `embedder` returns the embedding model of `memorySearch`, with the given
    keys in place of those in the settings, such as `{"provider": "openai"}`. The model is shared, and the
    runtime closes it. The result is `None` if the settings disable embeddings; `ConfigError` is raised if
    they name a model that cannot be used. `user_folder` is the meaning of `~`.
    """

    agent_id: str
    workspace: Path
    state_dir: Path
    engine_id: str
    now: Clock
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    embedder: EmbedderSource = field(default=_no_embedder, repr=False)
    user_folder: Path = Path("~")

    def folder(self) -> Path:
        """The engine's own folder for this agent, with access for the owner only. Creates it if missing."""
        folder = self.state_dir / "memory" / self.engine_id / self.agent_id
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder

    def place(self, named: str) -> Path:
        """A path from the settings; relative paths are in the state folder."""
        return self.state_dir / at_home(named, self.user_folder)


class MemoryPlugin:
    """A memory engine. This base class remembers nothing."""

    serves_other_chats: bool = False
    """Whether its tools are offered in chats that are not private, limited to the folder of the chat."""

    @property
    def problem(self) -> str:
        """A sentence for the owner about the part that does not work, or an empty string."""
        return ""

    async def start(self, home: MemoryHome) -> None:
        """Opens what the engine needs, and starts background work."""

    async def close(self) -> None:
        """Stops what `start` started, even if `start` failed, and writes pending data."""

    def hooks(self) -> HookTable:
        """Handlers for the agent's events by name, as in `Agent.open(hooks=)`."""
        return {}

    def commands(self) -> Sequence[EngineCommand]:
        """Chat commands made by `nacre.command`."""
        return ()

    def tools(self, chat: ToolChat) -> Sequence[MemoryTool]:  # noqa: ARG002 - for overrides
        """The tools that the model may call in this chat. Called each turn; create the tools once."""
        return ()

    def searchable(self, chat: ToolChat) -> Notes | None:  # noqa: ARG002 - for overrides
        """The notes for the owner's `/search`; `None` means the index of Nacre's own engine."""
        return None

    def instructions(self, chat: ToolChat) -> str:  # noqa: ARG002 - for overrides
        """A section of the system prompt about these tools."""
        return ""

    async def recall(self, chat: ToolChat, asked: str) -> str:  # noqa: ARG002 - for overrides
        """Plain text that the model should read before it answers `asked`; may be empty."""
        return ""

    async def capture(self, chat: ToolChat, asked: str, answered: str) -> None:
        """Stores facts of a successful turn; `answered` is empty after a silent one."""

    def session_started(self) -> None:
        """A conversation of the owner starts, or continues after a compaction."""

    def notes_changed(self) -> None:
        """A tool or a flush wrote a note."""

    def transcripts_changed(self) -> None:
        """A turn of any chat ended, and its transcript has grown."""

    async def sync(self) -> None:
        """Waits until everything written so far can be found."""

    async def kept_texts(self) -> Mapping[str, str]:
        """Texts that the engine keeps beside the notes, by id, for `/forget` and `nacre memory forget`."""
        return {}

    async def forget_texts(self, ids: Collection[str]) -> None:
        """Permanently deletes texts of `kept_texts`, including earlier versions and copies."""

    async def status(self) -> str:
        """One line for the owner: how much is stored, and the problems."""
        return "no engine"
