"""Two embedders as one: the first until it fails to embed documents, then the second until the first answers.

A question never makes the switch, so that a search is never answered with the wrong kind of vector. The
vectors of the two cannot be compared: the facts change with the switch, and the index makes its vectors
again. When the first is asked again is the index's to decide, because all processes share it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from nacre.memory.contracts.embedder import (
    BudgetUsedUp,
    Embedder,
    EmbedderFacts,
    EmbeddingFailed,
    TextRefused,
    fallback_of,
    lack_of,
)
from nacre.memory.contracts.embedding_jobs import EmbeddingJobs, jobs_of

log = logging.getLogger(__name__)


class FallbackEmbedder:
    """`WithFallback` (its methods are described there). `on_switch` is called when this process switches."""

    def __init__(self, first: Embedder, second: Embedder) -> None:
        self.first = first
        self.second = second
        self.problem = ""
        self.news: str | None = None
        self.on_switch: Callable[[], None] = lambda: None

    @property
    def facts(self) -> EmbedderFacts:
        return self._active.facts

    @property
    def jobs(self) -> EmbeddingJobs | None:
        return jobs_of(self._active)

    @property
    def lack(self) -> str:
        return lack_of(self._active)

    @property
    def reason(self) -> str:
        """Why the second makes the vectors, as a sentence; empty while the first does."""
        fallback = fallback_of(self)
        return fallback.sentence if fallback else ""

    async def embed_query(self, text: str) -> Sequence[float]:
        return await self._active.embed_query(text)

    async def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return await self.in_use().embed_documents(texts)

    async def close(self) -> None:
        await self.first.close()
        await self.second.close()

    def in_use(self) -> Embedder:
        return self.second if self.problem else _Watched(self)

    def noted(self, news: str) -> None:
        if self.news == news:
            self.news = None

    def follow(self, problem: str) -> None:
        self.problem = problem

    def come_back(self) -> None:
        self._switch("")
        log.info("%s makes the embeddings again", self.first.facts.provider)

    def leave(self, problem: str) -> None:
        """Uses the second, because the first failed; does nothing when that is known."""
        if not self.problem:
            self._switch(problem)
            log.warning("%s", self.reason)

    @property
    def _active(self) -> Embedder:
        return self.second if self.problem else self.first

    def _switch(self, problem: str) -> None:
        self.problem = self.news = problem
        self.on_switch()


class _Watched:
    """The first embedder, which is left when it fails. What asks it never gets the second's vectors."""

    def __init__(self, pair: FallbackEmbedder) -> None:
        self._pair = pair
        self.facts = pair.first.facts
        self.jobs = jobs_of(pair.first)

    async def embed_query(self, text: str) -> Sequence[float]:
        return await self._pair.first.embed_query(text)

    async def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """As the protocol says. A text that is not taken and a day's budget are no reason to leave it."""
        if self._pair.problem:
            raise EmbeddingFailed(self._pair.reason)
        try:
            return await self._pair.first.embed_documents(texts)
        except (TextRefused, BudgetUsedUp):
            raise
        except EmbeddingFailed as error:
            self._pair.leave(str(error))
            raise EmbeddingFailed(self._pair.reason) from error

    async def close(self) -> None:
        """The pair closes it."""
