"""A remote embedding model over HTTP, as an `Embedder`.

Each call sends one request at a time, limited in tokens and in time. Temporary failures are retried, and a
provider that keeps failing gets no requests for a while. Failures become `EmbeddingFailed`, without keys.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nacre.extensions.providers.completions.addresses import is_loopback
from nacre.extensions.providers.completions.errors import ProviderAnswered
from nacre.extensions.providers.embedding.batch_jobs import (
    JOB_PROVIDERS,
    BatchJobs,
    HttpEmbeddingJobs,
    JobRules,
)
from nacre.extensions.providers.embedding.connection import EmbeddingConnection
from nacre.extensions.providers.embedding.endpoint import EmbeddingEndpoint
from nacre.extensions.providers.embedding.wire import Purpose, request_for, tokens_of, vectors_of
from nacre.memory.contracts.embedder import EmbedderFacts, EmbeddingFailed, TextRefused
from nacre.memory.vectors.pieces import batches, estimated_tokens
from nacre.runtime.contracts.errors import ContextOverflow, ModelError
from nacre.runtime.models.failover import call_with_retries
from nacre.runtime.models.spending import Reservation

if TYPE_CHECKING:
    from nacre.extensions.providers.embedding.daily_budget import EmbeddingBudget

BATCH_TEXTS = 20
"""Chunks of the usual 400 tokens that fill one request."""

QUERY_SECONDS = 10.0
REQUEST_SECONDS = 60.0
TOTAL_SECONDS = 300.0
"""The time-out of one call with its retries."""

WHOLE_CHUNK_TOKENS = 2_000
"""A model with this limit reads any chunk at once; another one gets pieces of half its limit."""

FAILURES_BEFORE_REST = 3
FIRST_REST_SECONDS = 60.0
MAX_REST_SECONDS = 30 * 60.0

_REFUSES_A_FIELD = (400, 415, 422, 501)
"""Error texts of servers that do not know a field of the request."""

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
"""Parts of errors about a text that a provider refuses, besides those about the context window."""


class HttpEmbedder:
    """The embedder at an endpoint.

    `sleep` waits between retries; `now_seconds` is the time in seconds since the epoch. `budget` counts
    tokens: it stops documents at the daily limit, and questions at the cap in money. `job_rules` enables
    batch jobs.
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
        self._may_know_no_base64 = endpoint.compact
        self._circuit = _CircuitBreaker(now_seconds)
        self._connection = EmbeddingConnection(endpoint, now_seconds)
        self.close = self._connection.close
        self.jobs: BatchJobs | None = None
        """The provider's batch jobs; `None` if they are disabled or unknown."""
        if job_rules is not None and endpoint.provider in JOB_PROVIDERS:
            jobs = HttpEmbeddingJobs(endpoint, self._connection, job_rules, budget=budget, sleep=sleep)
            self.jobs = BatchJobs(jobs)

    @property
    def lack(self) -> str:
        """A sentence if a required key is missing; empty otherwise."""
        return self._connection.lack

    async def embed_query(self, text: str) -> Sequence[float]:
        """The vector of a question, by one request of at most ten seconds, because somebody waits."""
        # each character counts as a token: a truncated question is better than a refused one
        texts = [text[: self._endpoint.max_input_tokens]]
        with await self._reserved(texts, "query"):
            try:
                vectors = await self._send(texts, "query", self._query_seconds)
            except ModelError as error:
                raise self._failure(error) from error
        self._circuit.succeeded()
        return vectors[0]

    async def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector for each text, in order. Temporary failures are retried up to three times.

        Raises `EmbeddingFailed` also while the provider is resting after several failures.
        """
        if rest_seconds := self._circuit.resting_seconds():
            raise EmbeddingFailed(
                f"{self._circuit.problem} After several failures it is not asked for another "
                f"{rest_seconds:.0f} seconds."
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

    async def _part(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        with await self._reserved(texts, "document"):
            try:
                return await call_with_retries(
                    lambda: self._send(texts, "document", REQUEST_SECONDS), sleep=self._sleep
                )
            except ModelError as error:
                failure = self._failure(error)
                if not isinstance(failure, TextRefused):
                    self._circuit.failed(str(failure))
                raise failure from error

    async def _reserved(self, texts: Sequence[str], purpose: Purpose) -> Reservation:
        if self._budget is None:
            return Reservation()
        reserve = self._budget.reserve if purpose == "query" else self._budget.allow
        tokens, address = sum(map(estimated_tokens, texts)), self._endpoint.base_url
        return await reserve(tokens, self._endpoint.name, is_local=is_loopback(address))

    async def _send(
        self, texts: Sequence[str], purpose: Purpose, seconds: float
    ) -> Sequence[Sequence[float]]:
        """One request, or two if the server may know no base64. Raises `ModelError` or `EmbeddingFailed`."""
        try:
            answer = await self._answer(self._endpoint, texts, purpose, seconds)
        except ModelError as error:
            if not self._may_know_no_base64 or not isinstance(error.__cause__, ProviderAnswered):
                raise
            if error.__cause__.status_code not in _REFUSES_A_FIELD:
                raise
            plain = replace(self._endpoint, compact=False)
            answer = await self._answer(plain, texts, purpose, seconds)
            self._endpoint = plain
        self._may_know_no_base64 = False
        vectors = vectors_of(answer, len(texts), self._endpoint)
        if self._budget is not None:
            await self._budget.spend(tokens_of(answer, texts), self._endpoint.name)
        return vectors

    async def _answer(
        self, endpoint: EmbeddingEndpoint, texts: Sequence[str], purpose: Purpose, seconds: float
    ) -> Mapping[str, Any]:
        url, body = request_for(endpoint, texts, purpose)
        return await self._connection.send_for_json("POST", url, seconds=seconds, json=body)

    def _failure(self, error: ModelError) -> EmbeddingFailed:
        said = error.detail.lower()
        if isinstance(error, ContextOverflow) or any(words in said for words in _REFUSED):
            return TextRefused(
                f"The embedding model {self._endpoint.name!r} refuses a text of this length or kind."
            )
        return EmbeddingFailed(str(error))


class _CircuitBreaker:
    """Pauses requests after three failures in a row; each further failure doubles the pause.

    Otherwise each saved note would try a dead provider again, with every retry.
    """

    def __init__(self, now_seconds: Callable[[], float]) -> None:
        self._now_seconds = now_seconds
        self._failures = 0
        self._rest_until = 0.0
        self.problem = ""
        """The last failure, as a sentence; empty after a success."""

    def resting_seconds(self) -> float:
        return max(0.0, self._rest_until - self._now_seconds())

    def failed(self, problem: str) -> None:
        """Counts a failure, unless the call had begun before the pause."""
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
