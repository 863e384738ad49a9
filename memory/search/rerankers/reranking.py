"""A re-ranker asked within a time limit, and its answer checked. A dead one costs one search a wait, not all.

After a failure it is left alone for a while; the searches in between say so and keep the usual order.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from nacre.memory.search.rerankers.reranker import Reranker, RerankingFailed

if TYPE_CHECKING:
    from nacre.memory.contracts.settings import RerankSettings

LOADING_SECONDS = 15.0
"""What one search waits for libraries and a model to be loaded; the loading goes on behind it."""
REST_SECONDS = 60.0


class Reranking:
    """Asks one re-ranker, about `candidates` texts at most, and waits `timeout_seconds` for the answer."""

    def __init__(
        self,
        reranker: Reranker,
        *,
        candidates: int,
        timeout_seconds: float,
        loading_seconds: float = LOADING_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.candidates = candidates
        self._reranker = reranker
        self._timeout_seconds = timeout_seconds
        self._loading_seconds = loading_seconds
        self._clock = clock
        self._loading: asyncio.Task[None] | None = None
        self._rest_until = -math.inf
        self.problem = ""
        """Why the last answer could not be had, as a sentence; empty when it could."""

    @property
    def name(self) -> str:
        """`provider/model`."""
        return self._reranker.name

    def load_ahead(self) -> None:
        """Begins to load in the background, so that the first search finds it done."""
        if self._loading is None:
            self._loading = asyncio.create_task(self._reranker.load(), name="memory-reranker")

    async def relevance(self, question: str, texts: Sequence[str]) -> Sequence[float] | None:
        """A finite number for each text, or `None`, with the reason in `problem`."""
        if self._clock() < self._rest_until:
            return None
        try:
            await self._load()
            async with asyncio.timeout(self._timeout_seconds):
                found = await self._reranker.relevance(question, texts)
            self._check(found, len(texts))
        except TimeoutError:
            problem = f"The re-ranker {self.name} did not answer within {self._timeout_seconds:.15g} s."
        except RerankingFailed as error:
            problem = str(error)
        else:
            self.problem = ""
            return found
        self._rest_until, self.problem = self._clock() + REST_SECONDS, problem
        return None

    async def ask_now(self) -> str:
        """Asks for one text, also after a failure; why there was no answer, or nothing."""
        self._rest_until = -math.inf
        await self.relevance("ping", ["ping"])
        return self.problem

    async def close(self) -> None:
        """Gives up on loading, and closes the re-ranker."""
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.gather(self._loading, return_exceptions=True)
        await self._reranker.close()

    async def _load(self) -> None:
        self.load_ahead()
        loading = self._loading
        assert loading is not None
        done, _ = await asyncio.wait({loading}, timeout=self._loading_seconds)
        if not done:
            raise RerankingFailed(
                f"The re-ranker {self.name} is not loaded after {self._loading_seconds:.15g} s."
            )
        if loading.exception() is not None:
            self._loading = None  # the next search tries again
        loading.result()

    def _check(self, found: Sequence[float], count: int) -> None:
        if len(found) != count:
            raise RerankingFailed(f"The re-ranker {self.name} gave {len(found)} numbers for {count} texts.")
        if not all(map(math.isfinite, found)):
            raise RerankingFailed(f"The re-ranker {self.name} gave a number that is none.")


def reranking_of(reranker: Reranker | None, settings: RerankSettings) -> Reranking | None:
    """A re-ranker asked as the settings say; `None` without one."""
    if reranker is None:
        return None
    return Reranking(reranker, candidates=settings.candidates, timeout_seconds=settings.timeout_ms / 1000)
