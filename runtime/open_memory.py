"""From settings to an open memory engine, for an agent and for commands that need no agent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from nacre.memory.engine import MemoryEngine
from nacre.memory.errors import IndexClosed
from nacre.memory.indexing import IndexPlan
from nacre.memory.records import MemoryStatus, SyncProgress, SyncReport
from nacre.memory.settings import at_home, index_path
from nacre.memory.syncing import Syncing
from nacre.runtime.clock import Clock
from nacre.runtime.config import AGENT_ID, Config
from nacre.runtime.embedding import embedder_for
from nacre.runtime.fallback_embedder import FallbackEmbedder

if TYPE_CHECKING:
    from nacre.memory.transcripts import TranscriptSource
    from nacre.runtime.embedding_budget import EmbeddingBudget


class AgentMemory(MemoryEngine):
    """The engine of an agent: it owns its embedder, and follows it when a fallback takes over."""

    def __init__(self, plan: IndexPlan, syncing: Syncing, now: Callable[[], datetime]) -> None:
        super().__init__(plan, syncing, now)
        self._embedder = plan.embedder
        self._switch: asyncio.Task[SyncReport] | None = None
        if isinstance(self._embedder, FallbackEmbedder):
            self._embedder.on_switch = self._switched

    async def sync(
        self,
        *,
        reason: str,
        force: bool = False,
        progress: Callable[[SyncProgress], None] | None = None,
    ) -> SyncReport:
        """As the engine's; when the first embedder fails meanwhile, the vectors are the fallback's.

        Raises:
            IndexBusy, IndexUnusable: the index cannot be written now, or at all.
        """
        report = await super().sync(reason=reason, force=force, progress=progress)
        if self._switch is None or self._switch.done():
            return report
        try:
            followed = await asyncio.shield(self._switch)
        except IndexClosed:
            return report
        return replace(
            report,
            embedded=report.embedded + followed.embedded,
            reused_vectors=report.reused_vectors + followed.reused_vectors,
            refused_texts=report.refused_texts + followed.refused_texts,
            pending_vectors=followed.pending_vectors,
            problem=followed.problem,
            elapsed_seconds=report.elapsed_seconds + followed.elapsed_seconds,
        )

    async def status(self, *, deep: bool = False) -> MemoryStatus:
        """As the engine's, with the reason why a fallback makes the embeddings."""
        status = await super().status(deep=deep)
        reason = self._embedder.reason if isinstance(self._embedder, FallbackEmbedder) else ""
        if not reason or reason in status.last_sync_problem:
            return status
        return replace(status, last_sync_problem=f"{status.last_sync_problem} {reason}".strip())

    async def close(self) -> None:
        """Closes the engine, then the embedder."""
        await super().close()
        if self._switch is not None:
            await asyncio.gather(self._switch, return_exceptions=True)
        if self._embedder is not None:
            await self._embedder.close()

    def _switched(self) -> None:
        """New vectors for everything: a pass over files marks the index, one over vectors fills it."""
        self._switch = asyncio.create_task(super().sync(reason="fallback"), name="memory-fallback")


async def open_memory(config: Config, now: Clock) -> MemoryEngine | None:
    """The engine over this agent's notes, or `None` when memory search is switched off.

    Raises:
        ConfigError: the settings ask for an embedder that there cannot be.
        MemoryIndexError: the index cannot be opened, and no fresh one can take its place.
    """
    settings = config.settings.agent.memory_search
    if not settings.enabled:
        return None
    return await AgentMemory.open(
        workspace=config.workspace,
        index_path=index_path(settings, state_dir=config.state_dir, agent_id=AGENT_ID, home=config.home),
        settings=settings.model_copy(
            update={"extra_paths": tuple(at_home(path, config.home) for path in settings.extra_paths)}
        ),
        embedder=embedder_for(
            settings,
            config.settings.models.providers,
            now_seconds=lambda: now().timestamp(),
            home=config.home,
            models_folder=config.state_dir / "models",
            budget=_budget(config, now),
        ),
        now=now,
        transcripts=_transcripts(config, now) if "sessions" in settings.sources else None,
    )


def _budget(config: Config, now: Clock) -> EmbeddingBudget | None:
    remote = config.settings.agent.memory_search.remote
    if remote is None or remote.daily_tokens is None:
        return None
    from nacre.runtime.embedding_budget import EmbeddingBudget

    path = config.state_dir / "memory" / "embedding-tokens.json"
    return EmbeddingBudget(path, daily_tokens=remote.daily_tokens, now=now)


def _transcripts(config: Config, now: Clock) -> TranscriptSource:
    # past conversations are opt-in; a search in the notes alone does not wait for these imports
    from nacre.runtime.open_index import open_index
    from nacre.runtime.transcript_source import SessionTranscripts

    return SessionTranscripts(
        config.sessions_file.parent,
        open_index(config, now),
        agent_id=AGENT_ID,
        main_key=config.settings.session.main_key,
        now=now,
    )
