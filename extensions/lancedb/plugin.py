"""`memory-lancedb`: long-term memory in a LanceDB table, as a memory engine and as an extension."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from nacre.extensions.lancedb.memories import LEAST_UNASKED, Memories
from nacre.extensions.lancedb.mixing import POOL
from nacre.extensions.lancedb.records import DEFAULT_IMPORTANCE, PRIVATE, origin_in, recalled_lines
from nacre.extensions.lancedb.settings import LanceSettings, lance_settings
from nacre.extensions.lancedb.table import MemoryTable, TableUnusable
from nacre.extensions.lancedb.tools import MemoryTools, may_write
from nacre.extensions.lancedb.worth import captures, category_of
from nacre.memory.files.sources.secrets import without_new_secrets
from nacre.prompts import render
from nacre.runtime.contracts.clock import epoch_ms
from nacre.runtime.contracts.ids import random_id
from nacre.runtime.extensions.host import ExtensionHost
from nacre.runtime.recall.memory_plugin import MemoryHome, MemoryPlugin, MemoryTool
from nacre.runtime.tools.function import ToolChat

LEAST_ASKED_CHARS = 5
MOST_UNASKED = 3

log = logging.getLogger(__name__)


def register(host: ExtensionHost) -> None:
    """Hands the engine in, when `plugins.slots.memory` is `memory-lancedb`. Loads no library yet."""
    host.memory_engine(LanceMemory())


async def open_memories(home: MemoryHome) -> tuple[Memories, LanceSettings]:
    """The memories of an agent, and what the owner set.

    Raises:
        TableUnusable: LanceDB is not installed, or the table cannot be opened.
        ConfigError: the settings ask for an embedder that there cannot be.
    """
    settings = lance_settings(home.settings, folder=home.folder(), agent_id=home.agent_id, place=home.place)
    embedder = home.embedder(settings.embedding)
    table = await MemoryTable.open(
        settings.place, agent_id=home.agent_id, storage_options=settings.storage_options
    )
    memories = Memories(
        table,
        embedder,
        agent_id=home.agent_id,
        now_ms=lambda: epoch_ms(home.now()),
        new_id=random_id,
    )
    return memories, settings


class LanceMemory(MemoryPlugin):
    """What is worth keeping, in a table: stored by the model or by itself, recalled by meaning and words."""

    serves_other_chats = True

    def __init__(self) -> None:
        self._home: MemoryHome | None = None
        self._memories: Memories | None = None
        self._settings = LanceSettings(place="")
        self._tools: MemoryTools | None = None
        self._filling: asyncio.Task[None] | None = None

    async def start(self, home: MemoryHome) -> None:
        """Opens the table; memories that lack a vector of the embedder in use get one in the background."""
        self._home = home
        self._memories, self._settings = await open_memories(home)
        self._tools = MemoryTools(self._memories, home.now)
        self._filling = asyncio.create_task(self._fill(), name="memory-lancedb-vectors")

    async def close(self) -> None:
        """Stops making vectors, and closes the table; what was stored is on disk already."""
        if self._filling is not None:
            self._filling.cancel()
            await asyncio.gather(self._filling, return_exceptions=True)
        if self._memories is not None:
            await self._memories.close()

    def tools(self, chat: ToolChat) -> Sequence[MemoryTool]:
        """`memory_recall`, and where the chat may write, `memory_store` and `memory_forget`."""
        return self._tools.of(chat) if self._tools is not None else ()

    def instructions(self, chat: ToolChat) -> str:
        """When to look into memory, and what to keep."""
        keeping = render("recall/long_term_keeping") if may_write(chat.policy) else ""
        return render("recall/long_term", keeping=keeping)

    async def recall(self, chat: ToolChat, asked: str) -> str:  # noqa: ARG002 - it is the owner's private one
        """The few memories that fit a message.

        What was stored in other chats, and what others or a page have a part in, comes only when asked for:
        a tool's result says whose word it is, and stays in the transcript for what is noted of it.
        """
        if self._memories is None or self._home is None or not self._settings.auto_recall:
            return ""
        asked = asked.strip()[: self._settings.recall_max_chars]
        if len(asked) < LEAST_ASKED_CHARS:
            return ""
        fitting = await self._memories.recall(
            asked, self._memories.scope(PRIVATE), limit=POOL, least_score=LEAST_UNASKED
        )
        found = [each for each in fitting if not each.memory.origin.is_of_others][:MOST_UNASKED]
        log.info("%d memories are recalled", len(found))
        return recalled_lines(found, self._home.now().tzinfo)

    async def capture(self, chat: ToolChat, asked: str, answered: str) -> None:  # noqa: ARG002 - owner's words
        """Keeps what the owner said that is worth it, if the settings say so. Answers are not kept."""
        if self._memories is None or not self._settings.auto_capture or not may_write(chat.policy):
            return
        settings = self._settings
        asked = without_new_secrets(asked)
        for text in captures(asked, most_chars=settings.capture_max_chars, triggers=settings.custom_triggers):
            await self._memories.store(
                text,
                category=category_of(text),
                importance=DEFAULT_IMPORTANCE,
                audience=PRIVATE,
                # these are words of the owner's message, whatever else was heard
                origin=replace(await origin_in(chat, text, "capture"), said_by="owner"),
            )

    async def sync(self) -> None:
        """Makes the vectors that are missing, and waits for them."""
        if self._memories is not None:
            await self._memories.make_vectors()

    async def kept_texts(self) -> Mapping[str, str]:
        """Every memory of the agent, by id."""
        if self._memories is None:
            return {}
        return {memory.id: memory.text for memory in await self._memories.all(self._memories.scope(None))}

    async def forget_texts(self, ids: Collection[str]) -> None:
        """Deletes these memories, and the earlier versions of the table."""
        if self._memories is not None:
            await self._memories.forget_these(ids)

    async def status(self) -> str:
        """How many memories there are, how many of them are found by words alone, and why."""
        if self._memories is None:
            return "no table"
        count = await self._memories.count()
        waiting = await self._memories.waiting()
        told = [
            "1 memory" if count == 1 else f"{count} memories",
            f"{waiting} without a vector" if waiting else "",
            self._memories.problem,
        ]
        return " · ".join(filter(None, told))

    async def _fill(self) -> None:
        assert self._memories is not None
        try:
            await self._memories.make_vectors()
        except TableUnusable as error:
            log.warning("vectors could not be made: %s", error)
