"""Engines as the matrix sees them: opened in a folder, given a statement, asked, told to forget."""

from __future__ import annotations

import asyncio
import json
import resource
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from nacre import FunctionTool, MemoryHome, MemoryPlugin, ToolChat
from nacre.extensions.qmd.qmd_memory import QmdMemory
from nacre.memory.contracts.embedder import Embedder
from nacre.memory.workspace.folder import FolderWorkspace
from nacre.runtime.contracts.policy import ChatPolicy, notes_folder_of
from nacre.runtime.recall.memory_core import MemoryCore, memory_core
from nacre.runtime.settings.config import Config, load_config
from nacre.runtime.tools.toolbox import CallScope
from tests.extensions.qmd.stand_in import StandIn
from tests.memory.doubles import DeadEmbedder, WordEmbedder
from tests.runtime.agents import write_settings
from tests.runtime.extensions.test_memory_contract import example_engine

GROUP = "agent:main:telegram:group:7"


class Tried(ABC):
    """One engine of one agent in a state folder."""

    lacks: str = ""
    """Why it cannot be tried here."""
    cannot: ClassVar[Mapping[str, str]] = {}
    """Cells of the matrix that make no sense for it, with the reason."""

    def __init__(self, folder: Path, *, agent_id: str = "main", embedder: Embedder | None = None) -> None:
        self.folder = folder
        self.agent_id = agent_id
        self.embedder = embedder or WordEmbedder()
        self.workspace = folder / f"workspace-{agent_id}"
        self.workspace.mkdir(exist_ok=True)
        self.engine = self.make()

    @abstractmethod
    def make(self) -> MemoryPlugin:
        """A new engine that nobody has started."""

    @abstractmethod
    async def store(self, text: str) -> None:
        """Keeps a statement of the owner."""

    @abstractmethod
    async def forget(self, text: str) -> None:
        """Forgets it again."""

    @classmethod
    def without_provider(cls, folder: Path) -> Tried:
        """One whose provider is down: the embedder, unless another program is asked."""
        return cls(folder, embedder=DeadEmbedder())

    async def ask(self, question: str, *, group: bool = False) -> str:
        """What it gives for a question, as text."""
        chat = self.chat(group=group)
        if group and not self.engine.serves_other_chats:
            return ""  # the slot never asks it there
        tools = self.tools(chat)
        name = next((name for name in ("memory_search", "memory_recall") if name in tools), "")
        if not name:
            return await self.engine.recall(chat, question)
        return json.dumps((await self.call(name, group=group, query=question)), ensure_ascii=False)

    async def call(self, name: str, *, group: bool = False, **arguments: Any) -> Any:
        """What a tool gives to a model."""
        tool = self.tools(self.chat(group=group))[name]
        scope = CallScope(call_id="1", progress=lambda _line: None, cancelled=threading.Event())
        return json.loads((await tool.run(tool.arguments.model_validate(arguments), scope)).text)

    def tools(self, chat: ToolChat) -> dict[str, Any]:
        """The tools of a chat by their names."""
        found = self.engine.tools(chat)
        bound = [tool.bound(chat) if isinstance(tool, FunctionTool) else tool for tool in found]
        return {tool.name: tool for tool in bound}

    def chat(self, *, group: bool = False) -> ToolChat:
        """The owner's private chat, or a group."""
        key = GROUP if group else f"agent:{self.agent_id}:main"
        return ToolChat(
            session_key=key,
            session_id="11111111-1111-4111-8111-111111111111",
            channel="telegram" if group else "terminal",
            policy=ChatPolicy(
                chat_kind="group" if group else "direct",
                is_owner=not group,
                session_key_is_private=not group,
                notes_folder=notes_folder_of(key) if group else "",
            ),
            workspace=self.workspace,
        )

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Tried]:
        """The engine between its start and its end."""
        home = MemoryHome(
            agent_id=self.agent_id,
            workspace=self.workspace,
            state_dir=self.folder,
            engine_id="tried",
            now=_now,
            embedder=lambda _changes: self.embedder,
            user_folder=self.folder,
        )
        try:
            await self.engine.start(home)
            yield self
        finally:
            await self.engine.close()


class Core(Tried):
    """`memory-core`: a statement is a line of a note."""

    def make(self) -> MemoryPlugin:
        return self.core(self.config())

    def config(self, **memory: Any) -> Config:
        """The settings of one of two agents of a state folder."""
        agents = {"list": [{"id": "main", "default": True}, {"id": "other"}]}
        write_settings(self.folder, {"agents": agents, "memory": memory})
        variables = {"HOME": str(self.folder / "home")}
        return load_config(variables, state_dir=self.folder, workspace=self.workspace, agent_id=self.agent_id)

    def core(self, config: Config) -> MemoryCore:
        """The engine that comes with Nacre, with the embedder of this test."""
        core = memory_core(config, _now, watch=False, lent=lambda _key, _make: self.embedder)
        assert core is not None
        return core

    async def store(self, text: str) -> None:
        await self._write(text)

    async def forget(self, text: str) -> None:
        await self._write("Nothing.")

    async def _write(self, text: str) -> None:
        notes = FolderWorkspace(self.workspace, lock_dir=self.folder / "locks")
        await notes.change("memory/2026-03-14.md", lambda _old: f"{text}\n".encode())
        self.engine.notes_changed()
        await self.engine.sync()


class Qmd(Core):
    """`memory.backend: "qmd"`: a statement is a line of a note, which the program finds."""

    def make(self) -> MemoryPlugin:
        self.program = StandIn(self.folder / f"program-{len(list(self.folder.glob('program-*')))}")
        update = {"onBoot": False, "interval": "0", "debounceMs": 0}
        config = self.config(backend="qmd", qmd={"command": self.program.command, "update": update})
        return QmdMemory(config, self.core(config), embedding=asyncio.Lock(), now=_now)

    @classmethod
    def without_provider(cls, folder: Path) -> Tried:
        tried = cls(folder)
        tried.program.failing(search={"code": 1, "err": "the model is gone"})
        return tried


class Lance(Tried):
    """`memory-lancedb`: a statement is a row."""

    lacks = "" if find_spec("lancedb") else "the extra lancedb is not installed"

    def make(self) -> MemoryPlugin:
        from nacre.extensions.lancedb.plugin import LanceMemory

        return LanceMemory()

    async def store(self, text: str) -> None:
        await self.call("memory_store", text=text)

    async def forget(self, text: str) -> None:
        await self.call("memory_forget", query=text)


class Example(Tried):
    """That of examples/06-engine.py, as anybody's may be: a statement is a line of its file."""

    cannot: ClassVar = {"forget": "The example keeps every line, and says so: it has no tool to forget one."}

    def make(self) -> MemoryPlugin:
        return example_engine()

    async def store(self, text: str) -> None:
        await self.engine.capture(self.chat(), text, "Noted.")

    async def forget(self, text: str) -> None:
        raise NotImplementedError(self.cannot["forget"])


ENGINES: Sequence[type[Tried]] = (Core, Qmd, Lance, Example)


@contextmanager
def no_room() -> Iterator[None]:
    """No file of this process can grow, which is what a full disk does to it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _now() -> datetime:
    return datetime(2026, 3, 14, 12, 0, tzinfo=UTC)
