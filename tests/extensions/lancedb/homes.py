"""Engines over real tables: whose home, which chat, and what a tool of theirs gives."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

from nacre import MemoryHome, ToolChat
from nacre.extensions.lancedb.plugin import LanceMemory
from nacre.memory.contracts.embedder import Embedder
from nacre.runtime.contracts.policy import ChatPolicy, WorkspaceAccess, notes_folder_of
from nacre.runtime.tools.function import FunctionTool
from nacre.runtime.tools.toolbox import CallScope
from tests.memory.doubles import WordEmbedder

TODAY = datetime(2026, 3, 14, 12, 0, tzinfo=UTC)
GROUP_KEY = "agent:main:telegram:group:7"


def home(
    folder: Path,
    embedder: Embedder | None = None,
    *,
    agent_id: str = "main",
    config: Mapping[str, Any] | None = None,
) -> MemoryHome:
    """The home of an agent in a state folder, with an embedder that makes vectors of words."""
    made = embedder or WordEmbedder()
    return MemoryHome(
        agent_id=agent_id,
        workspace=folder / "workspace",
        state_dir=folder,
        engine_id="memory-lancedb",
        now=lambda: TODAY,
        settings=config or {},
        embedder=lambda _changes: made,
        user_folder=folder,
    )


@asynccontextmanager
async def started(where: MemoryHome) -> AsyncIterator[LanceMemory]:
    """An engine between its start and its end."""
    engine = LanceMemory()
    try:
        await engine.start(where)
        yield engine
    finally:
        await engine.close()


def owner(access: WorkspaceAccess = "rw", *, agent_id: str = "main") -> ToolChat:
    """The owner's private chat."""
    return _chat(
        f"agent:{agent_id}:main",
        "terminal",
        ChatPolicy(chat_kind="direct", is_owner=True, session_key_is_private=True, access=access),
    )


def group(key: str = GROUP_KEY, access: WorkspaceAccess = "rw", *, is_owner: bool = False) -> ToolChat:
    """A chat of several people."""
    policy = ChatPolicy(
        chat_kind="group",
        is_owner=is_owner,
        session_key_is_private=False,
        notes_folder=notes_folder_of(key),
        access=access,
    )
    return _chat(key, "telegram", policy)


async def call(engine: LanceMemory, name: str, chat: ToolChat | None = None, **arguments: Any) -> Any:
    """What a tool gives to a model that calls it with these arguments."""
    chat = chat or owner()
    (tool,) = [each for each in engine.tools(chat) if each.name == name]
    assert isinstance(tool, FunctionTool)
    bound = tool.bound(chat)
    scope = CallScope(call_id="1", progress=lambda _line: None, cancelled=Event())
    result = await bound.run(bound.arguments.model_validate(arguments), scope)
    return json.loads(result.text)


async def texts(engine: LanceMemory, query: str, chat: ToolChat | None = None) -> list[str]:
    """What `memory_recall` finds."""
    found = await call(engine, "memory_recall", chat, query=query)
    return [memory["text"] for memory in found["memories"]]


def _chat(key: str, channel: str, policy: ChatPolicy) -> ToolChat:
    return ToolChat(
        session_key=key,
        session_id="11111111-1111-4111-8111-111111111111",
        channel=channel,
        policy=policy,
        workspace=Path("workspace"),
    )
