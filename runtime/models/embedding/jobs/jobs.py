"""Batch jobs of OpenAI, Voyage and Gemini, as the memory room's `EmbeddingJobs`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from nacre.memory.contracts.embedder import EmbeddingFailed
from nacre.memory.contracts.embedding_jobs import JobRules, JobState, JobsUnavailable, ResultsGone
from nacre.memory.vectors.pieces import estimated_tokens
from nacre.runtime.contracts.errors import ModelError
from nacre.runtime.models.completions.addresses import is_loopback
from nacre.runtime.models.completions.errors import ProviderAnswered
from nacre.runtime.models.embedding.http.connection import EmbeddingConnection
from nacre.runtime.models.embedding.http.endpoint import EmbeddingEndpoint
from nacre.runtime.models.embedding.jobs.wire import (
    creation,
    input_lines,
    output_file,
    state_of,
    vectors_in,
)
from nacre.runtime.models.failover import call_with_retries

if TYPE_CHECKING:
    from nacre.runtime.models.embedding.http.daily_budget import EmbeddingBudget

JOB_PROVIDERS = ("openai", "voyage", "gemini")
JOB_TEXTS = 10_000
"""Texts for one job: OpenAI takes 50,000 and 200 MB; a smaller job loses less when it fails."""

GONE = (403, 404, 410)
"""What a provider says of a job that is no more, or that belongs to the account of an earlier key."""

REQUEST_SECONDS = 120.0
FILE_SECONDS = 600.0
_READ_AT_ONCE = 200
_NAME = "nacre-memory.jsonl"
_BOUNDARY = "nacre-memory-part"


class HttpEmbeddingJobs:
    """The jobs at one endpoint, over its connection."""

    max_texts = JOB_TEXTS

    def __init__(
        self,
        endpoint: EmbeddingEndpoint,
        connection: EmbeddingConnection,
        rules: JobRules,
        *,
        budget: EmbeddingBudget | None,
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self.rules = rules
        self._budget = budget
        self._endpoint = endpoint
        self._connection = connection
        self._sleep = sleep
        self._gemini = endpoint.provider == "gemini"
        self._root, _, self._version = endpoint.base_url.rpartition("/")

    async def submit(self, texts: Mapping[str, str]) -> str:
        """Hands in texts by id; the job's name. `EmbeddingFailed` also beyond the day's tokens."""
        tokens, reservation = sum(map(estimated_tokens, texts.values())), None
        if self._budget is not None:
            reservation = await self._budget.allow(
                tokens, self._endpoint.name, is_local=is_loopback(self._endpoint.base_url)
            )
        base = self._endpoint.base_url
        path = f"/models/{self._endpoint.model}:asyncBatchEmbedContent" if self._gemini else "/batches"
        try:
            file_id = await self._uploaded(await asyncio.to_thread(input_lines, self._endpoint, texts))
            job = await self._json("POST", f"{base}{path}", json=creation(self._endpoint, file_id))
        except ModelError as error:
            if _status(error) == 404:
                raise JobsUnavailable(f"{self._endpoint.name} has no batch jobs (HTTP 404).") from error
            raise EmbeddingFailed(f"A batch job could not be handed in. {error}") from error
        finally:
            if reservation is not None:
                reservation.release()
        if self._budget is not None:
            await self._budget.spend(tokens, self._endpoint.name)
        return self._named(job, "name" if self._gemini else "id")

    async def state(self, job: str) -> JobState:
        """Where a job is; one that the provider does not know, or knows no more, has failed."""
        try:
            answer = await self._job(job)
        except EmbeddingFailed as error:
            if (status := _status(error.__cause__)) in GONE:
                return JobState(phase="failed", problem=f"The batch job {job} is gone (HTTP {status}).")
            raise
        return state_of(self._endpoint, answer)

    async def results(self, job: str) -> AsyncIterator[tuple[str, Sequence[float] | None]]:
        """The vectors of a job by id; `None` for a text that got none."""
        file_id = output_file(self._endpoint, await self._job(job))
        if file_id is None:
            raise ResultsGone(f"The batch job {job} ended without a file of results.")
        url = (
            f"{self._root}/download/{self._version}/{file_id}:download?alt=media"
            if self._gemini
            else f"{self._endpoint.base_url}/files/{file_id}/content"
        )
        try:
            content = await call_with_retries(
                lambda: self._connection.send("GET", url, seconds=FILE_SECONDS), sleep=self._sleep
            )
        except ModelError as error:
            kind = ResultsGone if _status(error) in GONE else EmbeddingFailed
            raise kind(f"The results of the batch job {job} could not be fetched. {error}") from error
        # thousands of long lines, which must not hold up whoever talks meanwhile
        vectors = vectors_in(self._endpoint, content)
        while part := await asyncio.to_thread(lambda: list(islice(vectors, _READ_AT_ONCE))):
            for item in part:
                yield item

    async def pause(self) -> None:
        await self._sleep(self.rules.poll_seconds)

    async def cancel(self, job: str) -> None:
        """Asks the provider to stop; a job that cannot be stopped ends by itself."""
        url = self._job_url(job) + (":cancel" if self._gemini else "/cancel")
        with suppress(ModelError, EmbeddingFailed):
            await self._connection.send("POST", url, seconds=REQUEST_SECONDS)

    async def _uploaded(self, content: bytes) -> str:
        if self._gemini:
            url = f"{self._root}/upload/{self._version}/files?uploadType=multipart"
            kind = {"content-type": f"multipart/related; boundary={_BOUNDARY}"}
            body: dict[str, Any] = {"headers": kind, "content": _related(content)}
            answer = await self._json("POST", url, seconds=FILE_SECONDS, **body)
            return self._named(answer.get("file"), "name")
        url = f"{self._endpoint.base_url}/files"
        body = {"data": {"purpose": "batch"}, "files": {"file": (_NAME, content, "application/jsonl")}}
        return self._named(await self._json("POST", url, seconds=FILE_SECONDS, **body), "id")

    async def _job(self, job: str) -> Mapping[str, Any]:
        try:
            return await self._json("GET", self._job_url(job))
        except ModelError as error:
            raise EmbeddingFailed(f"The batch job {job} could not be asked after. {error}") from error

    def _job_url(self, job: str) -> str:
        return f"{self._endpoint.base_url}/{'' if self._gemini else 'batches/'}{job}"

    async def _json(self, method: str, url: str, **request: Any) -> Mapping[str, Any]:
        request = {"seconds": REQUEST_SECONDS, **request}
        return await call_with_retries(
            lambda: self._connection.send_for_json(method, url, **request), sleep=self._sleep
        )

    def _named(self, answer: Any, field: str) -> str:
        name = answer.get(field) if isinstance(answer, Mapping) else None
        if not isinstance(name, str) or not name:
            raise EmbeddingFailed(f"{self._endpoint.provider} took a batch job and gave it no name.")
        return name


def _status(error: BaseException | None) -> int | None:
    answered = error.__cause__ if error is not None else None
    return answered.status_code if isinstance(answered, ProviderAnswered) else None


def _related(content: bytes) -> bytes:
    """The two parts of an upload to Gemini: what the file is called, and the file (RFC 2387)."""
    facts = json.dumps({"file": {"displayName": _NAME, "mimeType": "application/jsonl"}})
    head = f"--{_BOUNDARY}\r\ncontent-type: application/json\r\n\r\n{facts}\r\n"
    head += f"--{_BOUNDARY}\r\ncontent-type: application/jsonl\r\n\r\n"
    return head.encode() + content + f"\r\n--{_BOUNDARY}--\r\n".encode()
