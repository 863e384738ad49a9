"""An agent's memory behind qmd, without the agent around it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from nacre.extensions.qmd.qmd_memory import QmdMemory
from nacre.runtime.contracts.policy import ChatPolicy, notes_folder_of
from nacre.runtime.models.scripted import Clock
from nacre.runtime.providers.opening import new_for_each
from nacre.runtime.recall.memory_core import memory_core
from nacre.runtime.recall.open_memory import memory_home
from nacre.runtime.settings.config import Config, load_config
from nacre.runtime.tools.function import ToolChat
from nacre.runtime.tools.toolbox import Tool, Toolbox
from nacre.sessions.contracts.messages import ToolCall, message_text
from tests.extensions.qmd.stand_in import StandIn
from tests.runtime.agents import START, write_settings

NOTES = {
    "MEMORY.md": "# Memory\n\nThe boat is called Halcyon.\n",
    "memory/2026-03-13.md": "- Router: Omada ER605\n- VLAN 10 for IoT\n",
    "chats/telegram-group-7/notes.md": "- The boat trip of this group is in May.\n",
    "chats/telegram-group-8/notes.md": "- Another group sells its boat.\n",
}
GROUP = "agent:main:telegram:group:7"


def written(tmp_path: Path, qmd: dict[str, Any], *, command: str = "", **memory: Any) -> Config:
    """Notes and settings on disk; the settings as they are read."""
    for name, text in NOTES.items():
        file = tmp_path / "workspace" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    asked = {"command": command, **qmd} if command else qmd
    settings = {
        "memory": {"backend": "qmd", "qmd": asked, **memory},
        "agents": {"defaults": {"memorySearch": {"provider": "none"}}},
    }
    write_settings(tmp_path, settings)
    return load_config({"HOME": str(tmp_path / "home"), "OPENAI_API_KEY": "secret"}, state_dir=tmp_path)


def engine_of(config: Config) -> QmdMemory:
    """The engine that the settings mean, which nobody has started."""
    clock = Clock(START)
    core = memory_core(config, clock, watch=False, lent=new_for_each)
    assert core is not None
    return QmdMemory(config, core, embedding=asyncio.Lock(), now=clock)


@asynccontextmanager
async def started(config: Config) -> AsyncIterator[QmdMemory]:
    """The same, started and closed."""
    engine = engine_of(config)
    try:
        await engine.start(memory_home(config, "memory-core", Clock(START), lent=new_for_each))
        yield engine
    finally:
        await engine.close()


@asynccontextmanager
async def ready(tmp_path: Path, **qmd: Any) -> AsyncIterator[tuple[QmdMemory, StandIn, Config]]:
    """One with the stand-in behind it, whose notes are indexed; it follows nothing by itself."""
    program = StandIn(tmp_path / "program")
    update = {"onBoot": False, "interval": "0", "debounceMs": 0, **qmd.pop("update", {})}
    config = written(tmp_path, {"update": update, **qmd}, command=program.command)
    async with started(config) as engine:
        await engine.sync()
        yield engine, program, config


def private_chat(config: Config) -> ToolChat:
    """The owner's, in the terminal."""
    return ToolChat(
        session_key="agent:main:main",
        session_id="11111111-1111-4111-8111-111111111111",
        channel="terminal",
        policy=ChatPolicy(chat_kind="direct", is_owner=True, session_key_is_private=True),
        workspace=config.workspace,
    )


def group_chat(config: Config) -> ToolChat:
    """A group, in which the owner speaks too."""
    return ToolChat(
        session_key=GROUP,
        session_id="22222222-2222-4222-8222-222222222222",
        channel="telegram",
        policy=ChatPolicy(
            chat_kind="group",
            is_owner=True,
            session_key_is_private=False,
            notes_folder=notes_folder_of(GROUP),
        ),
        workspace=config.workspace,
    )


async def called(engine: QmdMemory, chat: ToolChat, name: str, **arguments: Any) -> dict[str, Any]:
    """What a memory tool gives in a chat."""
    tools = [tool for tool in engine.tools(chat) if isinstance(tool, Tool)]
    ran = await Toolbox(tools, now_ms=lambda: 0).run(ToolCall(id="c", name=name, arguments=arguments))
    told: dict[str, Any] = json.loads(message_text(ran.message))
    return told
