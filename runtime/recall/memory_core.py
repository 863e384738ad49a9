"""`memory-core`: the engine that comes with Nacre, search over the owner's Markdown, as a memory engine."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import date
from functools import cache
from typing import TYPE_CHECKING

from nacre.memory.contracts.embedder import WithFallback, lack_of
from nacre.memory.contracts.errors import MemoryIndexError
from nacre.memory.files.sources.sources import Sources
from nacre.prompts import render
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.policy import ChatPolicy
from nacre.runtime.recall.memory_plugin import MemoryHome, MemoryPlugin, MemoryTool
from nacre.runtime.recall.memory_slot import NO_MEMORY
from nacre.runtime.recall.memory_tools import memory_tools
from nacre.runtime.recall.models.open_embedder import Lend
from nacre.runtime.recall.open_memory import embedder_of, open_engine, unindexed_notes
from nacre.runtime.settings.disk.open_workspace import open_workspace
from nacre.runtime.tools.function import ToolChat

if TYPE_CHECKING:
    from nacre.memory.engine import MemoryEngine
    from nacre.runtime.recall.unindexed import UnindexedNotes
    from nacre.runtime.settings.config import Config

log = logging.getLogger(__name__)


class MemoryCore(MemoryPlugin):
    """Notes searched by words and by meaning. Where its index cannot be opened, files are still read."""

    serves_other_chats = True

    def __init__(
        self,
        config: Config,
        open_index: Callable[[], Awaitable[MemoryEngine]],
        *,
        now: Clock,
        watch: bool,
        lack: str,
    ) -> None:
        self._config = config
        self._open_index = open_index
        self._now = now
        self._watch = watch
        self._lack = lack
        self._sources = Sources(open_workspace(config.folders, config.state_dir))
        self.engine: MemoryEngine | None = None
        self.unindexed: UnindexedNotes | None = None
        self._languages: tuple[str, ...] = ()
        self._languages_of: date | None = None

    @property
    def problem(self) -> str:
        """Why notes are not searched, or by words alone."""
        if self.unindexed is None:
            return f"Notes are searched by words alone. {self._lack}" if self._lack else ""
        return f"Memory cannot be searched until the next start. {self.unindexed.problem}"

    async def start(self, home: MemoryHome) -> None:  # noqa: ARG002 - its index lies where the settings say
        """Opens the index and follows the files; people can talk where it cannot be opened."""
        try:
            self.engine = await self._open_index()
        except MemoryIndexError as error:
            log.warning("memory search is not available: %s", error)
            self.unindexed = unindexed_notes(self._config, str(error))
            return
        self._look_at_languages(self.engine)
        if self._watch:
            await self.engine.start_watching()

    async def close(self) -> None:
        """Stops following the files, and closes the index."""
        if self.engine is not None:
            await self.engine.close()

    def tools(self, chat: ToolChat) -> Sequence[MemoryTool]:
        """`memory_search` and `memory_get`: both, or none where there is nothing to ask."""
        notes = self.engine or self.unindexed
        if notes is None:
            return ()
        if self.engine is not None:
            self._look_at_languages(self.engine)
        below = "" if chat.policy.is_private else chat.policy.notes_folder
        return memory_tools(
            notes,
            self._sources,
            cites=self._cites(chat.policy),
            below=below,
            languages=self._languages,
            with_conversations=self._has_conversations,
        )

    def instructions(self, chat: ToolChat) -> str:
        """When to look into memory, and how to name what was found there."""
        if not chat.policy.is_private:
            return render("system/memory_chat", folder=chat.policy.notes_folder)
        return _section(self._cites(chat.policy))

    def session_started(self) -> None:
        """Looks for changes in the background, if the settings say so."""
        if self.engine is not None:
            self.engine.session_started()

    def notes_changed(self) -> None:
        """The index has something to read."""
        if self.engine is not None:
            self.engine.mark_dirty()

    def transcripts_changed(self) -> None:
        """Where conversations are searched, those that have grown by enough are indexed."""
        if self.engine is not None and self._has_conversations:
            self.engine.transcripts_changed()

    async def sync(self) -> None:
        """Brings words and vectors in line with the files."""
        if self.engine is not None:
            with suppress(MemoryIndexError):
                await self.engine.sync(reason="turn")

    async def status(self) -> str:
        """Files, chunks, how they are searched, and what went wrong last."""
        if self.unindexed is not None or self.engine is None:
            return f"{NO_MEMORY} · {self.unindexed.problem if self.unindexed else 'it is not started'}"
        status = await self.engine.status()
        files = "1 file" if status.files == 1 else f"{status.files} files"
        chunks = "1 chunk" if status.chunks == 1 else f"{status.chunks} chunks"
        told = [
            f"{files}, {chunks}, {status.mode} search",
            status.fallback.told() if status.fallback else "",
            status.last_sync_problem or status.embeddings_problem or "",
            status.reranker_problem,
        ]
        return " · ".join(filter(None, told))

    @property
    def _has_conversations(self) -> bool:
        return "sessions" in self._config.settings.agent.memory_search.sources

    def _look_at_languages(self, engine: MemoryEngine) -> None:
        """Once a day: tools that change in the middle of a conversation cost the provider's cache of it."""
        today = self._now().date()
        if self._languages_of != today:
            self._languages, self._languages_of = engine.languages, today

    def _cites(self, policy: ChatPolicy) -> bool:
        """Whether search results name their source in this chat."""
        mode = self._config.settings.memory.citations
        return mode == "on" or (mode == "auto" and policy.is_private)


@cache
def _section(cites: bool) -> str:
    citations = render("system/citations_on" if cites else "system/citations_off")
    return render("system/memory_core", citations=citations)


def memory_core(config: Config, now: Clock, *, watch: bool, lent: Lend) -> MemoryCore | None:
    """The engine of the settings, not yet started; `None` when memory search is switched off.

    `lent` has the embedders that the agents of a process share; the engine does not close them.

    Raises:
        ConfigError: the settings ask for an embedder that there cannot be.
    """
    if not config.settings.agent.memory_search.enabled:
        return None
    embedder = embedder_of(config, now, lent=lent)
    return MemoryCore(
        config,
        lambda: open_engine(config, now, embedder, owns_embedder=False),
        now=now,
        watch=watch,
        # where there is a fallback it steps in, and says so
        lack="" if isinstance(embedder, WithFallback) else lack_of(embedder),
    )
