"""The memory engine of an agent: it owns its embedder, also when a fallback takes over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from nacre.memory.contracts.errors import IndexClosed
from nacre.memory.contracts.records import MemoryStatus, SyncProgress, SyncReport
from nacre.memory.engine import MemoryEngine
from nacre.memory.sync.indexing import IndexPlan
from nacre.memory.sync.syncing import Syncing
from nacre.runtime.models.embedding.fallback import FallbackEmbedder


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
        report = replace(report, fallback=self._fallback_reason())
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
            held_texts=followed.held_texts,
            problem=followed.problem,
            elapsed_seconds=report.elapsed_seconds + followed.elapsed_seconds,
        )

    async def status(self, *, deep: bool = False) -> MemoryStatus:
        """As the engine's, with the reason why a fallback makes the embeddings."""
        status = await super().status(deep=deep)
        reason = self._fallback_reason()
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

    def _fallback_reason(self) -> str:
        return self._embedder.reason if isinstance(self._embedder, FallbackEmbedder) else ""

    def _switched(self) -> None:
        """New vectors for everything: a pass over files marks the index, one over vectors fills it."""
        self._switch = asyncio.create_task(super().sync(reason="fallback"), name="memory-fallback")
