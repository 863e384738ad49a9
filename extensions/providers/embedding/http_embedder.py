"""A remote embedding model over HTTP, as the memory room's `Embedder`.

Requests go out one at a time for each call, bounded in tokens and in time; what fails in passing is asked
again, and a provider that keeps failing is left alone for a while. Failures become `EmbeddingFailed` with a
sentence and without a key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from nacre.extensions.providers.completions.addresses import is_loopback
from nacre.extensions.providers.embedding.batch_jobs import JOB_PROVIDERS, HttpEmbeddingJobs, JobRules
from nacre.extensions.providers.embedding.connection import EmbeddingConnection
from nacre.extensions.providers.embedding.endpoint import EmbeddingEndpoint
from nacre.extensions.providers.embedding.job_pass import BatchJobs
from nacre.extensions.providers.embedding.wire import Purpose, request_for, tokens_of, vectors_of
from nacre.memory.contracts.embedder import EmbedderFacts, EmbeddingFailed, TextRefused
from nacre.memory.vectors.pieces import batches, estimated_tokens
from nacre.runtime.contracts.errors import ContextOverflow, ModelError
from nacre.runtime.models.failover import call_with_retries

if TYPE_CHECKING:
    from nacre.extensions.providers.embedding.daily_budget import EmbeddingBudget

BATCH_TEXTS = 20
"""Chunks of the usual 400 tokens that fill one request."""

QUERY_SECONDS = 10.0
REQUEST_SECONDS = 60.0
TOTAL_SECONDS = 300.0
"""The longest that one call may take, with all that is asked again."""

WHOLE_CHUNK_TOKENS = 2_000
"""A model that reads this much takes any chunk whole; a shorter one gets pieces of half its length."""

FAILURES_BEFORE_REST = 3
FIRST_REST_SECONDS = 60.0
MAX_REST_SECONDS = 30 * 60.0

_REFUSED = (
    "too many tokens",
    "too large to process",
    "fit into the model",
    "exceeding max",
    "maximum context",
    "maximum input",
    "input is too long",
    "content_policy",
    "content policy",
)
"""Words of providers about a text that they will not take, beside those for a full context window."""


class HttpEmbedder:
    """The embedder at an endpoint.

    `sleep` waits between retries; `now_seconds` is the time of day. `budget` counts tokens, and stops
    documents when a day's are used up, and questions too when the cap in money is. `job_rules` switches batch
    jobs on.
    """

    def __init__(
        self,
        endpoint: EmbeddingEndpoint,
        *,
        now_seconds: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        budget: EmbeddingBudget | None = None,
        job_rules: JobRules | None = None,
        query_seconds: float = QUERY_SECONDS,
        total_seconds: float = TOTAL_SECONDS,
    ) -> None:
        limit = endpoint.max_input_tokens
        self.facts = EmbedderFacts(
            provider=endpoint.provider,
            model=endpoint.model,
            fingerprint=endpoint.fingerprint,
            batch_texts=BATCH_TEXTS,
            piece_tokens=None if limit >= WHOLE_CHUNK_TOKENS else limit // 2,
        )
        self._endpoint = endpoint
        self._sleep = sleep
        self._budget = budget
        self._query_seconds = query_seconds
        self._total_seconds = total_seconds
        self._circuit = _CircuitBreaker(now_seconds)
        self._connection = EmbeddingConnection(endpoint, now_seconds)
        self.jobs: BatchJobs | None = None
        """The provider's batch jobs; `None` when they are switched off, or it has none."""
        if job_rules is not None and endpoint.provider in JOB_PROVIDERS:
            jobs = HttpEmbeddingJobs(endpoint, self._connection, job_rules, budget=budget, sleep=sleep)
            self.jobs = BatchJobs(jobs)

    @property
    def lack(self) -> str:
        """The key that is needed and missing, as a sentence."""
        return self._connection.lack

    async def embed_query(self, text: str) -> Sequence[float]:
        """The vector of a question; asked once, within ten seconds, because somebody waits."""
        # every character counts as a token: a question cut short is better than one refused
        texts = [text[: self._endpoint.max_input_tokens]]
        reservation = None
        if self._budget is not None:
            reservation = await self._budget.reserve(
                estimated_tokens(texts[0]),
                self._endpoint.name,
                is_local=is_loopback(self._endpoint.base_url),
            )
        try:
            vectors = await self._asked(texts, "query", self._query_seconds)
        except ModelError as error:
            raise self._failure(error) from error
        finally:
            if reservation is not None:
                reservation.release()
        self._circuit.succeeded()
        return vectors[0]

    async def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector for each text, in order; what fails in passing is asked again up to three times.

        `EmbeddingFailed` also while the provider is left alone after several failures.
        """
        if rest_seconds := self._circuit.resting_seconds():
            raise EmbeddingFailed(
                f"{self._circuit.problem} After several failures it is left alone for "
                f"{rest_seconds:.0f} more seconds."
            )
        try:
            async with asyncio.timeout(self._total_seconds):
                vectors = [
                    vector
                    for part in batches(texts, most_texts=len(texts))
                    for vector in await self._part(texts[part])
                ]
        except TimeoutError as error:
            failure = EmbeddingFailed(
                f"The model {self._endpoint.name!r} made no embeddings of {len(texts)} texts within "
                f"{self._total_seconds:.15g} seconds."
            )
            self._circuit.failed(str(failure))
            raise failure from error
        self._circuit.succeeded()
        return vectors

    async def close(self) -> None:
        await self._connection.close()

    async def _part(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        reservation = None
        if self._budget is not None:
            reservation = await self._budget.allow(
                sum(map(estimated_tokens, texts)),
                self._endpoint.name,
                is_local=is_loopback(self._endpoint.base_url),
            )
        try:
            return await call_with_retries(
                lambda: self._asked(texts, "document", REQUEST_SECONDS), sleep=self._sleep
            )
        except ModelError as error:
            failure = self._failure(error)
            if not isinstance(failure, TextRefused):
                self._circuit.failed(str(failure))
            raise failure from error
        finally:
            if reservation is not None:
                reservation.release()

    async def _asked(
        self, texts: Sequence[str], purpose: Purpose, seconds: float
    ) -> Sequence[Sequence[float]]:
        """One request. Raises `ModelError` or `EmbeddingFailed`."""
        url, body = request_for(self._endpoint, texts, purpose)
        answer = await self._connection.send_for_json("POST", url, seconds=seconds, json=body)
        vectors = vectors_of(answer, len(texts), self._endpoint)
        if self._budget is not None:
            await self._budget.spend(tokens_of(answer, texts), self._endpoint.name)
        return vectors

    def _failure(self, error: ModelError) -> EmbeddingFailed:
        said = error.detail.lower()
        if isinstance(error, ContextOverflow) or any(words in said for words in _REFUSED):
            return TextRefused(
                f"The embedding model {self._endpoint.name!r} does not take a text of this length or kind."
            )
        return EmbeddingFailed(str(error))


class _CircuitBreaker:
    """Counts failures in a row. After three it asks for a rest, which doubles with every further one.

    Without it each saved note would ask a dead provider again, with every retry.
    """

    def __init__(self, now_seconds: Callable[[], float]) -> None:
        self._now_seconds = now_seconds
        self._failures = 0
        self._rest_until = 0.0
        self.problem = ""
        """The last failure, as a sentence; empty after a success."""

    def resting_seconds(self) -> float:
        """How long the provider is still to be left alone, or 0."""
        return max(0.0, self._rest_until - self._now_seconds())

    def failed(self, problem: str) -> None:
        """One more failure in a row; calls that were on the way when the rest began count as none."""
        self.problem = problem
        if self.resting_seconds():
            return
        self._failures += 1
        over = self._failures - FAILURES_BEFORE_REST
        if over >= 0:
            rest_seconds = min(MAX_REST_SECONDS, FIRST_REST_SECONDS * 2.0 ** min(over, 10))
            self._rest_until = self._now_seconds() + rest_seconds

    def succeeded(self) -> None:
        self._failures, self._rest_until, self.problem = 0, 0.0, ""
