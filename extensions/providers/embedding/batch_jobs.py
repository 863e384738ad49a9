"""Batch jobs at the endpoints of OpenAI, Voyage and Gemini.

The jobs of OpenAI and Voyage differ in the place of the parameters; Gemini has its own protocol.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from nacre.extensions.providers.completions.addresses import is_loopback
from nacre.extensions.providers.completions.errors import ProviderAnswered
from nacre.extensions.providers.embedding.connection import EmbeddingConnection
from nacre.extensions.providers.embedding.endpoint import EmbeddingEndpoint
from nacre.extensions.providers.embedding.wire import request_for, vectors_of
from nacre.memory.contracts.embedder import EmbeddingFailed
from nacre.memory.vectors.pieces import estimated_tokens
from nacre.record import Record
from nacre.runtime.contracts.errors import ModelError
from nacre.runtime.models.failover import call_with_retries

if TYPE_CHECKING:
    from nacre.extensions.providers.embedding.daily_budget import EmbeddingBudget

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
_GEMINI_ENDED = ("SUCCEEDED", "COMPLETED", "DONE")
_GEMINI_FAILED = ("FAILED", "CANCELLED", "CANCELED", "EXPIRED")


class JobsUnavailable(EmbeddingFailed):
    """The provider has no batch jobs for this model or account."""


class ResultsGone(EmbeddingFailed):
    """A job's results cannot be fetched any more; its texts have to be submitted again."""


class JobRules(Record):
    """Whether a pass waits for jobs, how many run at a time, how often they are polled, and for how long."""

    wait: bool = True
    concurrency: int = 2
    poll_seconds: float = 2.0
    timeout_seconds: float = 3_600.0


class JobState(Record):
    """The state of a job. `problem` is a sentence if it `failed`; a job that `ended` may lack some
    results."""

    phase: Literal["running", "ended", "failed"]
    completed: int = 0
    total: int = 0
    problem: str = ""


class HttpEmbeddingJobs:
    """The jobs at one endpoint, over its connection. Each vector comes back with the id of its text."""

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


def input_lines(endpoint: EmbeddingEndpoint, texts: Mapping[str, str]) -> bytes:
    """The file that is handed in: one JSON line for each text, with its id."""
    lines = (_line(endpoint, text_id, text) for text_id, text in texts.items())
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()


def creation(endpoint: EmbeddingEndpoint, file_id: str) -> dict[str, Any]:
    """What makes a job out of a file that was handed in."""
    if endpoint.provider == "gemini":
        batch = {"displayName": "nacre-memory", "inputConfig": {"fileName": file_id}}
        return {"batch": {"model": f"models/{endpoint.model}", **batch}}
    job: dict[str, Any] = {
        "input_file_id": file_id,
        "endpoint": "/v1/embeddings",
        "completion_window": "24h",
        "metadata": {"source": "nacre-memory"},
    }
    if endpoint.provider == "voyage":
        job["completion_window"] = "12h"
        _, parameters = request_for(endpoint, [], "document")
        job["request_params"] = {name: value for name, value in parameters.items() if name != "input"}
    return job


def state_of(endpoint: EmbeddingEndpoint, answer: Mapping[str, Any]) -> JobState:
    """Where a job is, from the provider's answer."""
    return (_gemini_state if endpoint.provider == "gemini" else _openai_state)(answer)


def output_file(endpoint: EmbeddingEndpoint, answer: Mapping[str, Any]) -> str | None:
    return _gemini_file(answer) if endpoint.provider == "gemini" else _text(answer.get("output_file_id"))


def _gemini_file(answer: Mapping[str, Any]) -> str | None:
    metadata, response = _group(answer, "metadata"), _group(answer, "response")
    places = (
        response.get("responsesFile"),
        _group(metadata, "output").get("responsesFile"),
        _group(answer, "outputConfig").get("file"),
        _group(answer, "outputConfig").get("fileId"),
    )
    return next((name for place in places if (name := _text(place))), None)


def vectors_in(endpoint: EmbeddingEndpoint, content: bytes) -> Iterator[tuple[str, list[float] | None]]:
    """The vector of each line of results by id; `None` where the provider or the vector has a fault."""
    for line in content.splitlines():
        try:
            value = json.loads(line)
            names = (value.get(name) for name in ("custom_id", "key", "request_id"))
            text_id = next(name for name in names if isinstance(name, str))
        except (ValueError, AttributeError, StopIteration):
            continue
        yield text_id, _vector(endpoint, value)


def _line(endpoint: EmbeddingEndpoint, text_id: str, text: str) -> dict[str, Any]:
    _, body = request_for(endpoint, [text], "document")
    if endpoint.provider == "gemini":
        return {"key": text_id, "request": body["requests"][0]}
    if endpoint.provider == "voyage":
        return {"custom_id": text_id, "body": {"input": [text]}}
    return {"custom_id": text_id, "method": "POST", "url": "/v1/embeddings", "body": body}


def _openai_state(answer: Mapping[str, Any]) -> JobState:
    status = str(answer.get("status", "")).lower()
    counts = _group(answer, "request_counts")
    completed, total = _count(counts.get("completed")), _count(counts.get("total"))
    if status in ("completed", "expired", "cancelled", "canceled") and _text(answer.get("output_file_id")):
        return JobState(phase="ended", completed=completed, total=total)
    if status in ("completed", "failed", "expired", "cancelled", "canceled"):
        errors = _group(answer, "errors").get("data")
        first = errors[0] if isinstance(errors, list) and errors else None
        said = f": {first.get('message')}" if isinstance(first, Mapping) and first.get("message") else ""
        return JobState(phase="failed", problem=f"The batch job {answer.get('id')} is {status}{said}.")
    return JobState(phase="running", completed=completed, total=total)


def _gemini_state(answer: Mapping[str, Any]) -> JobState:
    metadata = _group(answer, "metadata")
    word = str(metadata.get("state") or answer.get("state") or "").upper().rpartition("_")[2]
    stats = _group(metadata, "batchStats")
    completed, total = _count(stats.get("successfulRequestCount")), _count(stats.get("requestCount"))
    error = _group(answer, "error")
    results = _gemini_file(answer)
    if error or (word in _GEMINI_FAILED and (word == "FAILED" or results is None)):
        said = f": {error['message']}" if error.get("message") else ""
        name = word.lower() or "failed"
        return JobState(phase="failed", problem=f"The batch job {answer.get('name')} is {name}{said}.")
    if word in (*_GEMINI_ENDED, *_GEMINI_FAILED) or answer.get("done") is True:
        return JobState(phase="ended", completed=completed, total=total)
    return JobState(phase="running", completed=completed, total=total)


def _vector(endpoint: EmbeddingEndpoint, line: Mapping[str, Any]) -> list[float] | None:
    response = _group(line, "response")
    if line.get("error") or response.get("error") or _count(response.get("status_code")) >= 400:
        return None
    answer = line if "embedding" in line else response.get("body", response)
    try:
        return list(vectors_of(answer, 1, endpoint)[0])
    except EmbeddingFailed:
        return None


def _group(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = value.get(name)
    return found if isinstance(found, Mapping) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _count(value: Any) -> int:
    """Counts come as numbers, or as digits in quotes (Gemini)."""
    return int(value) if isinstance(value, int | str) and str(value).isdigit() else 0
