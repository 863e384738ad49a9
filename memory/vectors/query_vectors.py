"""The vector of a question within a time limit.

A failing or slow embedder delays one search, not all: it is then left alone for a while, and searches use
words and say so.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from nacre.closing import stop_tasks
from nacre.memory.contracts.embedder import Embedder, EmbedderFacts, EmbeddingFailed, in_use

TIMEOUT_SECONDS = 2.5
REST_SECONDS = 60.0
REMEMBERED = 128


class QueryVectors:
    """Embeds questions with one embedder."""

    def __init__(
        self,
        embedder: Embedder,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._embedder = embedder
        self._timeout_seconds = timeout_seconds
        self._clock = clock
        self._known: OrderedDict[tuple[EmbedderFacts, str], Sequence[float]] = OrderedDict()
        self._running: dict[tuple[EmbedderFacts, str], asyncio.Task[Sequence[float]]] = {}
        self._failures: dict[EmbedderFacts, tuple[float, str]] = {}
        """How long the embedder with these facts is left alone, and why."""

    @property
    def problem(self) -> str:
        """Why the last question got no vector, as a sentence; empty if it got one."""
        return self._failures.get(self._embedder.facts, (0.0, ""))[1]

    async def vector(self, text: str) -> Sequence[float] | None:
        """The vector of `text`, or `None`, with the reason in `problem`."""
        # A fallback, whose vectors differ, may replace the embedder.
        embedder = in_use(self._embedder)
        key = (embedder.facts, text)
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key]
        if self._clock() < self._failures.get(embedder.facts, (0.0, ""))[0]:
            return None
        task = self._running.get(key)
        if task is None:
            task = asyncio.create_task(self._ask(embedder, text), name="memory-query-vector")
            self._running[key] = task
        done, _ = await asyncio.wait({task}, timeout=self._timeout_seconds)
        if not done:
            # The request continues, because the question may be repeated.
            self._fail(embedder, f"The embedder did not answer within {self._timeout_seconds:.15g} s.")
            return None
        vector = task.result()
        return vector if len(vector) else None

    async def asked(self, text: str) -> Future[Sequence[float] | None]:
        """The result of `vector`, which may still be on its way if this process computes it.

        Another thread may wait for it. An embedder elsewhere has answered: a search must not keep the index
        open until a server does.
        """
        if in_use(self._embedder).facts.in_process:
            asked = asyncio.run_coroutine_threadsafe(self.vector(text), asyncio.get_running_loop())
            for _ in range(3):  # until the model has begun, before words take Python's lock
                await asyncio.sleep(0)
            return asked
        answered: Future[Sequence[float] | None] = Future()
        answered.set_result(await self.vector(text))
        return answered

    async def close(self) -> None:
        await stop_tasks(*self._running.values())

    async def _ask(self, embedder: Embedder, text: str) -> Sequence[float]:
        key = (embedder.facts, text)
        try:
            vector = await embedder.embed_query(text)
        except EmbeddingFailed as error:
            self._fail(embedder, str(error))
            return ()
        finally:
            self._running.pop(key, None)
        self._known[key] = vector
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        self._failures.pop(embedder.facts, None)
        return vector

    def _fail(self, embedder: Embedder, problem: str) -> None:
        self._failures[embedder.facts] = (self._clock() + REST_SECONDS, problem)
