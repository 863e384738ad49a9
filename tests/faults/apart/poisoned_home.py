"""An agent with an obedient model, what became of its files, and how honest notes fare in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import nacre
from nacre import Agent
from nacre.bridges.contracts.bridge import Bridge
from nacre.bridges.gateway import Gateway
from nacre.memory.files.proposals import ReviewQueue
from nacre.memory.files.sources.source import PRIVATE, Source
from nacre.memory.files.sources.sourced_workspace import SourcedWorkspace
from nacre.memory.files.sources.sources import SourceOf, Sources
from nacre.memory.workspace.folder import FolderWorkspace
from nacre.runtime.models.scripted import Clock, CountingIds
from tests.faults.apart.obeying import Obeying
from tests.runtime.agents import START, opened, said, write_settings


class Home:
    """An agent with an obedient model, and what became of its files."""

    def __init__(
        self, root: Path, settings: Mapping[str, Any] | None = None, *, tools: Sequence[Any] = ()
    ) -> None:
        self.root = root
        self.workspace = root / "workspace"
        self.model = Obeying()
        self.page = ""
        self.starts = 0
        self._tools = tools
        self.settings = {
            "memory": {"facts": {"enabled": True}},
            "skills": {"load": {"extraDirs": [str(root / "trusted")]}},
            **(settings or {}),
        }
        write_settings(root, self.settings)

    @asynccontextmanager
    async def agent(self) -> AsyncIterator[Agent]:
        """The agent, open."""

        def fetch() -> str:
            """Gives a page from the web."""
            return self.page

        helper = nacre.sub_agent(
            name="helper", description="Helps.", instructions="Help.", tools=(nacre.tool(fetch),), notes=True
        )
        self.starts += 1
        async with opened(
            self.root, self.model, ids=f"start{self.starts}-", tools=(nacre.tool(fetch), helper, *self._tools)
        ) as agent:
            yield agent

    async def imported(self, path: str, text: str) -> None:
        """Writes a file as an import does that does not know who wrote it."""
        folder = FolderWorkspace(self.workspace, lock_dir=self.root / "locks")
        source = Source(written_by="import", audience=PRIVATE, names=("chatgpt",), at="2026-03-14T10:00")

        async def begin() -> SourceOf:
            return lambda _line: source

        await SourcedWorkspace(folder, Sources(folder), begin).append(path, text)

    def core(self) -> str:
        """All that can become a rule, a fact, a skill or a hook."""
        files = [file for file in self.workspace.rglob("*") if file.is_file() and self._is_core(file)]
        return "\n".join(f"{file.name}\n{file.read_text(errors='replace')}" for file in files)

    def _is_core(self, file: Path) -> bool:
        relative = file.relative_to(self.workspace)
        is_log = relative.parts[0] == "memory" and relative.name != "facts.md"
        return not (is_log or relative.parts[0] in (".git", ".sources", "chats", "people"))


@asynccontextmanager
async def served(home: Home, bridge: Bridge) -> AsyncIterator[Gateway]:
    """A gateway over the agent, with one channel."""
    async with home.agent() as agent:
        ids = CountingIds(f"ledger-{home.starts}-")
        opening = Gateway.open(agent, [bridge], state_dir=home.root, now=Clock(START), new_id=ids)
        async with await opening as gateway:
            yield gateway


async def until_obeyed(home: Home, gateway: Gateway, order: str) -> None:
    """Waits until the model has read an order, and everything that came in is answered."""
    async with asyncio.timeout(60):
        while order not in home.model.seen or not gateway.is_idle:
            await asyncio.to_thread(lambda: None)


COUNTS = pytest.mark.parametrize("count", [1, pytest.param(12, marks=pytest.mark.slow)])
"""So many wordings are tried of each way."""
SLOW_COUNTS = pytest.mark.parametrize("count", [pytest.param(12, marks=pytest.mark.slow)])
"""The same, of ways that take many seconds."""
CHANNELS: Mapping[str, Any] = {
    "messages": {"queue": {"debounceMs": 1}, "inbound": {"debounceMs": 0}},
    "commands": {"ownerAllowFrom": ["telegram:7", "email:ann@localhost"]},
    "channels": {"telegram": {"dmPolicy": "open"}, "email": {"dmPolicy": "open"}},
}
"""Ann is the owner, and others are answered."""


async def lived(home: Home, orders: Sequence[str]) -> list[str]:
    """The orders that stand in a rule, a fact or a skill, or in the prompt of a later private session."""
    core = home.core()
    async with home.agent() as agent:
        await agent.respond(said("/new"))
        home.model.prompts.clear()
        home.model.obeyed.update(orders)
        await agent.respond(said("Good morning."))
    later = "\n".join(home.model.prompts)
    assert later
    return [order for order in orders if order in core or order in later]


async def honest(home: Home, count: int) -> tuple[int, int]:
    """How many of the owner's own notes were kept without a question, and how many had to wait."""
    queue = ReviewQueue(home.root / "agents/main/proposals", lock_dir=home.root / "locks")
    kept = waited = 0
    async with home.agent() as agent:
        before = len(await queue.waiting())
        for number in range(count):
            await agent.respond(said("/new"))
            word = f"pear{number}"
            line = f"- The owner is fond of {word}.\n"
            path = ("MEMORY.md", "USER.md", "AGENTS.md")[number % 3]
            skill = f"---\nname: {word}\ndescription: Cooks {word}.\n---\n\nCook {word}.\n"
            writes: Sequence[tuple[str, dict[str, Any]]] = (
                (("append", {"path": path, "text": line}),),
                (("append", {"path": path, "text": line}), ("memory_set_fact", {"key": word, "value": word})),
                (("write", {"path": f"skills/{word}/SKILL.md", "content": skill}),),
            )[number // 2 % 3]
            home.model.owners = writes
            await agent.respond(said(f"From now on mind that I like {word} best of all."))
            waiting = len(await queue.waiting())
            is_kept = word in home.core() and waiting == before
            kept, waited, before = kept + is_kept, waited + (waiting > before), waiting
    return kept, waited
