"""Two embedders as one: the first until it fails to embed documents, then the second for good.

A question never makes the switch, so that a search is never answered with the wrong kind of vector. The
vectors of the two cannot be compared: the facts change with the switch, and the index makes its vectors
again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakSet

from nacre.memory.batch_jobs.jobs import EmbeddingJobs, jobs_of
from nacre.memory.contracts.embedder import (
    BudgetUsedUp,
    Embedder,
    EmbedderFacts,
    EmbeddingFailed,
    TextRefused,
)

log = logging.getLogger(__name__)


class FallbackEmbedder:
    """`first`, and after its first failure `second`. `on_switch` is called once, at the switch."""

    def __init__(self, first: Embedder, second: Embedder) -> None:
        self._first = first
        self._second = second
        self._active = first
        self._askers: WeakSet[asyncio.Task[Any]] = WeakSet()
        self.on_switch: Callable[[], None] = lambda: None
        self.reason = ""
        """Why the second makes the vectors, as a sentence; empty while the first does."""

    @property
    def facts(self) -> EmbedderFacts:
        return self._active.facts

    @property
    def jobs(self) -> EmbeddingJobs | None:
        return jobs_of(self._active)

    def reads(self, text: str) -> float:
        return self._active.reads(text)

    async def embed_query(self, text: str) -> Sequence[float]:
        return await self._active.embed_query(text)

    async def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """As the protocol says; after a failure of the first, the next pass over the index asks the second.

        A text that is not taken and a day's budget that is used up are no reason to switch.
        """
        task = asyncio.current_task()
        if self._active is self._second:
            # A task that has asked the first stores what it gets as the first's.
            if task in self._askers:
                raise EmbeddingFailed(self.reason)
            return await self._second.embed_documents(texts)
        if task is not None:
            self._askers.add(task)
        try:
            return await self._first.embed_documents(texts)
        except (TextRefused, BudgetUsedUp):
            raise
        except EmbeddingFailed as error:
            self._switch(error)
            raise EmbeddingFailed(self.reason) from error

    async def close(self) -> None:
        await self._first.close()
        await self._second.close()

    def _switch(self, error: EmbeddingFailed) -> None:
        if self._active is self._first:
            self.reason = f"{error} {self._second.facts.provider} makes the embeddings instead."
            self._active = self._second
            log.warning("%s", self.reason)
            self.on_switch()
