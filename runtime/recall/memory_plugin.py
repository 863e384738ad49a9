"""What a memory engine is to the runtime: the contract of the one that stands in `plugins.slots.memory`.

A subclass of `MemoryPlugin` says what it can do by overriding; whatever it leaves out does nothing. The
runtime holds one and calls it through `MemorySlot` alone, which keeps these promises:

- `start` comes before everything else, `close` last. `hooks` and `commands` are asked once, behind `start`,
  and join those of the program and of the extensions. An engine that fails to start, or whose hooks or
  commands cannot be taken, is closed and left out as a whole: the owner is told why, and the agent runs
  without it. An engine that the settings do not choose is never started, and nothing of it exists.
- `tools`, `instructions`, `recall` and `capture` are called for private chats of the owner and for no
  others, so what an engine knows cannot reach a group. An engine with `serves_other_chats` is asked for tools
  and instructions in other chats too, and gives them what lies in `chat.policy.notes_folder` alone.
- Nothing that it raises ends a turn. `recall` is waited for, and stopped after `RECALL_SECONDS`; `capture`
  runs behind the reply.
- What `recall` gives is shown to the model as data, for this turn alone, and is never written into the
  transcript. Notes stay what the flush writes into Markdown, whatever engine there is.

`nacre.runtime.extensions.memory_contract` is a suite of tests that an engine's author can inherit.
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
    """Notes that can be searched and read: an index, or what stands in for one. Raises `MemoryIndexError`."""

    async def search(self, question: Question, /) -> SearchReport:
        """As `MemoryEngine.search`."""
        ...

    async def read(
        self, path: str, *, from_line: int | None = None, lines: int | None = None, below: str = ""
    ) -> Excerpt:
        """As `MemoryEngine.read`."""
        ...


MemoryTool: TypeAlias = FunctionTool[..., Any] | Tool
"""A tool as `nacre.tool` makes it, or one that is already bound to its chat."""


EmbedderSource: TypeAlias = Callable[[Mapping[str, Any]], Embedder | None]


def _no_embedder(_changes: Mapping[str, Any]) -> Embedder | None:
    return None


class EngineCommand(Protocol):
    """A chat command as `nacre.command` makes it. There is no other way to make one."""

    @property
    def name(self) -> str:
        """Its word, without the slash."""
        ...

    @property
    def help(self) -> str:
        """Its line in `/help`."""
        ...


class MemoryHome(Record):
    """Whose memory an engine is, and where. `now` gives aware datetimes in the owner's zone.

    `settings` is `plugins.entries.<engine_id>.config`, which fits the manifest's schema when an extension
    brings the engine. `embedder` gives the agent's embedding model: that of `memorySearch`, with the keys of
    it that the engine hands in laid over the settings, such as `{"provider": "openai"}`. It is shared, so the
    runtime closes it; `None` where the settings want none. It raises `ConfigError` where there cannot be such
    a one. `user_folder` is where `~` is.
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
        """The engine's own folder for this agent, made if there is none, open to the owner alone."""
        folder = self.state_dir / "memory" / self.engine_id / self.agent_id
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder

    def place(self, named: str) -> Path:
        """A folder or file that the owner names in the settings; a relative one lies in the state folder."""
        return self.state_dir / at_home(named, self.user_folder)


class MemoryPlugin:
    """A memory engine, as the runtime knows it; as it stands here, one that remembers nothing."""

    serves_other_chats: bool = False
    """Whether its tools keep to the folder of a chat that is not private, and may be offered there."""

    @property
    def problem(self) -> str:
        """A sentence for the owner when only a part of it works since the start, else nothing."""
        return ""

    async def start(self, home: MemoryHome) -> None:
        """Opens what the engine needs, and begins what it does in the background."""

    async def close(self) -> None:
        """Ends what `start` began, also when `start` failed, and writes what is not written yet."""

    def hooks(self) -> HookTable:
        """What it does when something happens in the agent: handlers by name, as in `Agent.open(hooks=)`."""
        return {}

    def commands(self) -> Sequence[EngineCommand]:
        """What people can ask it in a chat without a model: commands that `nacre.command` made."""
        return ()

    def tools(self, chat: ToolChat) -> Sequence[MemoryTool]:  # noqa: ARG002 - for those who override it
        """What the model may call in this chat. Asked each turn, so tools are made once and kept."""
        return ()

    def searchable(self, chat: ToolChat) -> Notes | None:  # noqa: ARG002 - for those who override it
        """What the owner's `/search` asks; `None` leaves it to the index of Nacre's own engine."""
        return None

    def instructions(self, chat: ToolChat) -> str:  # noqa: ARG002 - for those who override it
        """What the model reads about these tools, as a section of the system prompt."""
        return ""

    async def recall(self, chat: ToolChat, asked: str) -> str:  # noqa: ARG002 - for those who override it
        """What the model should know before it answers `asked`, as plain text; empty for nothing."""
        return ""

    async def capture(self, chat: ToolChat, asked: str, answered: str) -> None:
        """Takes what is worth keeping from a turn that ended well; `answered` is empty after a silent one."""

    def session_started(self) -> None:
        """Says that a conversation of the owner begins, or goes on behind a compaction."""

    def notes_changed(self) -> None:
        """Says that a tool or a flush wrote a note."""

    def transcripts_changed(self) -> None:
        """Says that a turn of any chat ended, and its transcript is longer."""

    async def sync(self) -> None:
        """Makes findable what was written until now, and waits for it."""

    async def kept_texts(self) -> Mapping[str, str]:
        """Every text that it keeps beside the notes, by id. `nacre memory forget` looks through them."""
        return {}

    async def forget_texts(self, ids: Collection[str]) -> None:
        """Deletes texts of `kept_texts` for good, with every earlier version and copy."""

    async def status(self) -> str:
        """One line for the owner: how much there is, and what does not work."""
        return "no engine"
