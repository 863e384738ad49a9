"""One memory engine in a state folder of its own, which is deleted afterwards: given the notes, and asked.

An engine that has `memory_search` reads copies of the notes as files. Another one is handed each line of
them: to `memory_store` if it has that tool, else as words that it may capture; and is asked by
`memory_recall`, or by what it recalls before a turn.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, time as time_of_day
from pathlib import Path
from typing import Any

from nacre.extensions.memory_bench.scoring import Answer, Found, Place, Question, answered
from nacre.memory.contracts.embedder import Embedder
from nacre.memory.contracts.index_settings import StoreSettings
from nacre.memory.contracts.settings import index_path
from nacre.records.record import Record
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.policy import ChatPolicy
from nacre.runtime.recall.memory_plugin import MemoryHome, MemoryPlugin
from nacre.runtime.settings.config import Config
from nacre.runtime.settings.disk.agent_folders import AgentFolders
from nacre.runtime.settings.sections.memory import MemorySettings, QmdScope, QmdSessions
from nacre.runtime.settings.sections.storage import StorageSettings
from nacre.runtime.storage.opening import storage_of
from nacre.runtime.tools.function import FunctionTool, ToolChat
from nacre.runtime.tools.toolbox import CallScope, Tool, ToolFailed

MOST_FOUND = 6

Make = Callable[[Config, Clock, Embedder | None], MemoryPlugin]
"""Makes an engine that nobody has started, for the settings of its folder, with the agent's embedder."""


class Notes(Record):
    """What all engines are given: the bytes of each note, by its name in the workspace.

    With a `problem` the workspace could not be looked into.
    """

    files: Mapping[str, bytes]
    lines: Mapping[str, Sequence[str]]
    problem: str = ""


class Told(Record):
    """What came of one engine; with a `problem` there are no answers."""

    engine: str
    answers: tuple[Answer, ...] = ()
    index_seconds: float = 0.0
    size_bytes: int = 0
    problem: str = ""


class AskedDay:
    """The moment that engines take for now: noon of the day of the question in hand, or the real one."""

    def __init__(self, now: Clock) -> None:
        self._now = now
        self.question: Question | None = None

    def __call__(self) -> datetime:
        now = self._now()
        day = self.question.day if self.question is not None else None
        return datetime.combine(day, time_of_day(12), tzinfo=now.tzinfo) if day else now


async def told_by(
    name: str,
    make: Make,
    notes: Notes,
    questions: Sequence[Question],
    *,
    config: Config,
    embedder: Embedder | None,
    now: Clock,
    folder: Path,
) -> Told:
    """Starts an engine in `folder`, gives it the notes, asks every question and closes it.

    Whatever an engine raises is its `problem`: one that is broken takes none of the others along.
    """
    clock = AskedDay(now)
    own = apart(config, folder)
    folders = {name.rpartition("/")[0] for name in notes.files} - {""}
    copies = storage_of(own).workspace()
    await copies.make(notes.files, folders=sorted(folders))
    home = MemoryHome(
        agent_id=own.agent_id,
        workspace=own.workspace,
        state_dir=own.state_dir,
        engine_id=name,
        now=clock,
        embedder=lambda _changes: embedder,
        user_folder=folder,
    )
    try:
        engine = make(own, clock, embedder)
        try:
            await engine.start(home)
            asked = _Asked(name, engine, own.workspace)
            begun = time.perf_counter()
            await asked.fill(notes)
            await engine.sync()
            index_seconds = time.perf_counter() - begun
            answers = [await _answer(asked, question, notes, clock) for question in questions]
            problem = engine.problem
        finally:
            await engine.close()
    except Exception as error:  # noqa: BLE001 - an engine is anybody's code, and the others are still asked
        return Told(engine=name, problem=f"{type(error).__name__}: {error}")
    size_bytes = await asyncio.to_thread(_size_bytes, folder, own.workspace)
    return Told(
        engine=name,
        answers=tuple(answers),
        index_seconds=index_seconds,
        size_bytes=size_bytes,
        problem=problem,
    )


def apart(config: Config, folder: Path) -> Config:
    """The settings of the agent, with every place of its own inside of `folder`, and nothing outside read."""
    agent = config.agent_id
    agents = config.settings.agents
    search = agents.defaults.memory_search.model_copy(
        update={"extra_paths": (), "sources": ("memory",), "store": StoreSettings()}
    )
    defaults = agents.defaults.model_copy(update={"memory_search": search})
    settings = config.settings.model_copy(
        update={
            "agents": agents.model_copy(update={"defaults": defaults}),
            "memory": _memory_apart(config.settings.memory),
            "storage": StorageSettings(),
        }
    )
    # qmd would be lent the models that the owner's own has loaded
    environment = {**config.environment, "XDG_CACHE_HOME": str(folder / "cache")}
    folders = AgentFolders(
        agent_id=agent,
        workspace=folder / "workspace",
        agent_dir=folder / "agents" / agent,
        sessions_file=folder / "agents" / agent / "sessions" / "sessions.json",
        index_file=index_path(search, state_dir=folder, agent_id=agent, home=folder),
    )
    return replace(
        config,
        state_dir=folder,
        folders=folders,
        settings=settings,
        environment=environment,
    )


def _memory_apart(memory: MemorySettings) -> MemorySettings:
    """qmd by words, over the notes alone, and updated when it is told to."""
    qmd = memory.qmd.model_copy(
        update={
            "search_mode": "search",
            "include_default_memory": True,
            "paths": (),
            "sessions": QmdSessions(),
            "scope": QmdScope(default="allow"),
            "update": memory.qmd.update.model_copy(
                update={"on_boot": False, "interval": "0", "embed_interval": "0"}
            ),
        }
    )
    return memory.model_copy(update={"qmd": qmd})


class _Asked:
    """An engine as it can be filled and asked: by tools where it has them."""

    def __init__(self, name: str, engine: MemoryPlugin, workspace: Path) -> None:
        self._name = name
        self._engine = engine
        self._chat = ToolChat(
            session_key="agent:main:main",
            session_id="00000000-0000-4000-8000-000000000000",
            channel="terminal",
            policy=ChatPolicy(chat_kind="direct", is_owner=True, session_key_is_private=True),
            workspace=workspace,
        )
        tools = (
            tool.bound(self._chat) if isinstance(tool, FunctionTool) else tool
            for tool in engine.tools(self._chat)
        )
        self._tools: Mapping[str, Tool] = {tool.name: tool for tool in tools}

    async def fill(self, notes: Notes) -> None:
        """Hands over the lines of the notes, unless the engine reads the files."""
        if "memory_search" in self._tools:
            return
        for line in (line.strip().removeprefix("- ") for lines in notes.lines.values() for line in lines):
            if not line or line.startswith("#"):
                continue
            if "memory_store" in self._tools:
                try:
                    await self._call("memory_store", text=line)
                except ToolFailed:  # too long, or looks like an order to the assistant
                    continue
            else:
                await self._engine.capture(self._chat, line, "")

    async def ask(self, question: str) -> list[Found]:
        """What the engine gives, the best first, at most `MOST_FOUND`."""
        if "memory_search" in self._tools:
            found = await self._call("memory_search", query=question, maxResults=MOST_FOUND)
            if found.get("disabled"):
                raise RuntimeError(found.get("error", "the search is switched off"))
            fallback = found.get("fallback", {})
            if fallback.get("from") == self._name:
                raise RuntimeError(f"another engine answered in its place. {fallback['reason']}")
            return [_found(hit) for hit in found["results"]]
        if "memory_recall" in self._tools:
            found = await self._call("memory_recall", query=question, limit=MOST_FOUND)
            return [Found(text=str(memory["text"])) for memory in found["memories"]]
        recalled = await self._engine.recall(self._chat, question)
        return [Found(text=line) for line in recalled.splitlines() if line.strip()][:MOST_FOUND]

    async def _call(self, name: str, **arguments: Any) -> dict[str, Any]:
        tool = self._tools[name]
        scope = CallScope(call_id=name, progress=lambda _line: None, cancelled=threading.Event())
        output = await tool.run(tool.arguments.model_validate(arguments), scope)
        result: dict[str, Any] = json.loads(output.text)
        return result


async def _answer(asked: _Asked, question: Question, notes: Notes, clock: AskedDay) -> Answer:
    clock.question = question
    begun = time.perf_counter()
    found = await asked.ask(question.text)
    return answered(question, found, notes.lines, (time.perf_counter() - begun) * 1000)


def _found(hit: Mapping[str, Any]) -> Found:
    place = Place(path=hit["path"], start_line=hit["startLine"], end_line=hit["endLine"])
    return Found(text=hit["snippet"], place=place)


def _size_bytes(folder: Path, workspace: Path) -> int:
    """What an engine keeps on disk beside the notes."""
    return sum(
        (Path(place) / name).stat().st_size
        for place, _, names in os.walk(folder)
        if not Path(place).is_relative_to(workspace)
        for name in names
    )
