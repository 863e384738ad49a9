"""How the tests open an agent: own folders, an empty environment, a frozen clock, counted ids."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from nacre import Agent, Inbound
from nacre.memory.engine import MemoryEngine
from nacre.runtime.agent.opening.agent_parts import AgentParts
from nacre.runtime.contracts.events import Event
from nacre.runtime.contracts.model import ChatModel
from nacre.runtime.models.scripted import Clock, CountingIds
from nacre.runtime.recall.memory_core import MemoryCore
from nacre.sessions.contracts.messages import Usage
from nacre.sessions.disk.json_text import to_line
from nacre.sessions.entries.entries import Entry, entry_to_json
from nacre.sessions.index.index_files import IndexFiles
from tests.sessions.talk import STAMP, answer, user

START = datetime(2026, 3, 14, 23, 30, tzinfo=ZoneInfo("Europe/Berlin"))
TODAY = "memory/2026-03-14.md"


LONG = "The hive needs sugar before the frost comes. " * 300
"""About 3,000 tokens, 13,500 bytes."""


def used(tokens: int) -> Usage:
    """What a provider counted for a call, its answer included."""
    return Usage(input_tokens=tokens - 10, output_tokens=10)


def write_settings(state_dir: Path, settings: dict[str, Any]) -> None:
    """Puts a settings file into a state folder."""
    state_dir.mkdir(parents=True, exist_ok=True)
    (state_dir / "nacre.json5").write_text(json.dumps(settings), encoding="utf-8")


def window_settings(tokens: int = 24_000, **flush: Any) -> dict[str, Any]:
    """A small window: flush at 8,000, compact above 12,000 tokens, keep 6,000."""
    return {"agents": {"defaults": {"contextTokens": tokens, "compaction": {"memoryFlush": flush}}}}


async def agent_in(
    state_dir: Path,
    model: ChatModel | None = None,
    *,
    clock: Clock | None = None,
    ids: str = "",
    **given: Any,
) -> Agent:
    """An agent whose workspace is `<state_dir>/workspace`, opened with what else is `given`. `None` is the
    model of the settings, or the offline responder."""
    usual = {"environment": {"HOME": str(state_dir / "home")}, "watch": False, "new_id": CountingIds(ids)}
    return await Agent.open(
        state_dir=state_dir, model=model, clock=clock or Clock(START), **{**usual, **given}
    )


@asynccontextmanager
async def opened(state_dir: Path, model: ChatModel | None = None, **given: Any) -> AsyncIterator[Agent]:
    """The agent of `agent_in`, closed at the end."""
    async with await agent_in(state_dir, model, **given) as agent:
        yield agent


def engine_of(parts: AgentParts) -> MemoryEngine:
    """The index behind the memory engine that comes with Nacre."""
    core = parts.turn.memory.plugin
    assert isinstance(core, MemoryCore)
    assert core.engine is not None
    return core.engine


def said(text: str, **changes: Any) -> Inbound:
    """The owner's words in the terminal."""
    return Inbound(**{"text": text, "chat_kind": "direct", "is_owner": True, **changes})


async def events_of(agent: Agent, inbound: Inbound) -> list[Event]:
    """All events of one turn."""
    return [event async for event in agent.stream(inbound)]


def index_lines(state_dir: Path) -> dict[str, Any]:
    """The lines of the index as they are now, by key: `sessions.json` and what changed since."""
    path = state_dir / "agents" / "main" / "sessions" / "sessions.json"
    files = IndexFiles(path, now=Clock(START), sync=os.fsync)
    return files.read(lambda image: dict(image.lines))


def transcript_file(state_dir: Path, number: int = 0) -> Path:
    """The session files of a state folder in the order they were begun."""
    files = sorted(
        (state_dir / "agents" / "main" / "sessions").glob("*.jsonl"), key=lambda path: path.stat().st_ctime_ns
    )
    return files[number]


def entries(file: Path) -> list[dict[str, Any]]:
    """Every line of a transcript file."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def user_texts(file: Path) -> list[str]:
    """What people said, as it stands in a transcript file."""
    return [
        "\n".join(block["text"] for block in entry["message"]["content"])
        for entry in entries(file)
        if entry["type"] == "message" and entry["message"]["role"] == "user"
    ]


def kinds(file: Path) -> list[str]:
    """The entries by what they are: role, custom type or type."""
    return [
        entry["message"]["role"] if entry["type"] == "message" else entry.get("customType", entry["type"])
        for entry in entries(file)
    ]


def append_talk(file: Path, texts: Iterable[str]) -> None:
    """What a person said and got an "ok" for, at the end of a closed session's transcript."""
    parent = entries(file)[-1]["id"]
    with file.open("ab") as transcript:
        for number, text in enumerate(texts):
            for role, body in (("u", user(text)), ("a", answer("ok"))):
                entry = Entry(id=f"{role}{number}", parent_id=parent, timestamp=STAMP, body=body)
                transcript.write(to_line(entry_to_json(entry)))
                parent = entry.id
