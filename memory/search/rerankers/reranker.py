"""The contract for models that reorder the best hits of a search, and requests to one within a time limit.

A failing re-ranker delays one search, not all: it is then left alone for a while, and searches keep their
usual order and say so.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from nacre.closing import stop_tasks
from nacre.memory.contracts.errors import MemoryIndexError

if TYPE_CHECKING:
    from nacre.memory.contracts.settings import RerankSettings

LOADING_SECONDS = 15.0
"""How long a search waits until libraries and a model are loaded; loading continues in the background."""
REST_SECONDS = 60.0


class RerankingFailed(MemoryIndexError):
    """The re-ranker returned no order, for the reason in the message. The hits keep their usual order."""


class Reranker(Protocol):
    """A model that reads a question with a text and rates how well the text answers it."""

    @property
    def name(self) -> str:
        """`provider/model`, for the owner."""

    async def load(self) -> None:
        """Loads libraries and the model, which may take seconds. Sends nothing to a provider.

        Raises:
            RerankingFailed: something is missing or cannot be loaded.
        """

    async def relevance(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        """One number per text, in order; a higher one answers the question better.

        Numbers of different questions or models need not be comparable.

        Raises:
            RerankingFailed: there are no such numbers.
        """

    async def close(self) -> None:
        """Releases connections and models."""


class Reranking:
    """Asks one re-ranker about up to `candidates` texts, and waits `timeout_seconds` for the answer."""

    def __init__(
        self,
        reranker: Reranker,
        *,
        candidates: int,
        timeout_seconds: float,
        loading_seconds: float = LOADING_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = reranker.name
        self.candidates = candidates
        self._reranker = reranker
        self._timeout_seconds = timeout_seconds
        self._loading_seconds = loading_seconds
        self._clock = clock
        self._loading: asyncio.Task[None] | None = None
        self._rest_until = -math.inf
        self.problem = ""
        """Why the last request failed, as a sentence; empty if it succeeded."""

    def load_ahead(self) -> None:
        """Starts to load in the background, so that the first search need not wait."""
        if self._loading is None:
            self._loading = asyncio.create_task(self._reranker.load(), name="memory-reranker")

    async def relevance(self, question: str, texts: Sequence[str]) -> Sequence[float] | None:
        """A finite number per text, or `None`, with the reason in `problem`."""
        if self._clock() < self._rest_until:
            return None
        try:
            await self._load()
            async with asyncio.timeout(self._timeout_seconds):
                found = await self._reranker.relevance(question, texts)
            if len(found) != len(texts):
                raise RerankingFailed(
                    f"The re-ranker {self.name} returned {len(found)} numbers for {len(texts)} texts."
                )
            if not all(map(math.isfinite, found)):
                raise RerankingFailed(f"The re-ranker {self.name} returned a number that is not finite.")
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
        """Sends one text, even soon after a failure; the `problem`."""
        self._rest_until = -math.inf
        await self.relevance("ping", ["ping"])
        return self.problem

    async def close(self) -> None:
        """Stops loading and closes the re-ranker."""
        await stop_tasks(self._loading)
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


def reranking_of(reranker: Reranker | None, settings: RerankSettings) -> Reranking | None:
    """Asks a re-ranker as the settings say; `None` without one."""
    if reranker is None:
        return None
    return Reranking(reranker, candidates=settings.candidates, timeout_seconds=settings.timeout_ms / 1000)
