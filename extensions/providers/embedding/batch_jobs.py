"""Batch jobs at the endpoints of OpenAI, Voyage and Gemini, and the passes that fill an index with them.

The jobs of OpenAI and Voyage differ in the place of the parameters; Gemini has its own protocol. Each job is
stored in the index with the hashes of its texts before anything waits for it, so that nothing is paid for
twice after a kill: the next pass polls the job and stores its vectors. After two failed jobs in a row,
ordinary requests are used for the rest of the process.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from nacre.extensions.providers.completions.addresses import is_loopback
from nacre.extensions.providers.completions.errors import ProviderAnswered
from nacre.extensions.providers.embedding.connection import EmbeddingConnection
from nacre.extensions.providers.embedding.endpoint import EmbeddingEndpoint
from nacre.extensions.providers.embedding.wire import request_for, vectors_of
from nacre.memory.contracts.embedder import EmbeddingFailed, VectorsDiffer
from nacre.memory.contracts.embedding_jobs import JOBS_ROW, JobsOutcome, MissingTexts
from nacre.memory.vectors.pieces import estimated_tokens
from nacre.record import Record
from nacre.runtime.contracts.errors import ModelError
from nacre.runtime.models.failover import call_with_retries
from nacre.runtime.models.spending import Reservation

if TYPE_CHECKING:
    from nacre.extensions.providers.embedding.daily_budget import EmbeddingBudget
    from nacre.memory.contracts.store import Store, Vector, Writer

log = logging.getLogger(__name__)

JOB_PROVIDERS = ("openai", "voyage", "gemini")
JOB_TEXTS = 10_000
"""Texts in one job. OpenAI accepts 50,000 and 200 MB, but a smaller job loses less when it fails."""

GONE = (403, 404, 410)
"""The statuses for a job that no longer exists, or that belongs to the account of another key."""

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
        """Submits texts by id; the name of the job. Raises `EmbeddingFailed`, also over the daily budget."""
        tokens, base = sum(map(estimated_tokens, texts.values())), self._endpoint.base_url
        reservation = Reservation()
        if self._budget is not None:
            reservation = await self._budget.allow(tokens, self._endpoint.name, is_local=is_loopback(base))
        path = f"/models/{self._endpoint.model}:asyncBatchEmbedContent" if self._gemini else "/batches"
        try:
            file_id = await self._uploaded(await asyncio.to_thread(input_lines, self._endpoint, texts))
            job = await self._json("POST", f"{base}{path}", json=creation(self._endpoint, file_id))
        except ModelError as error:
            if _status(error) == 404:
                raise JobsUnavailable(f"{self._endpoint.name} has no batch jobs (HTTP 404).") from error
            raise EmbeddingFailed(f"A batch job could not be submitted. {error}") from error
        finally:
            reservation.release()
        if self._budget is not None:
            await self._budget.spend(tokens, self._endpoint.name)
        return self._named(job, "name" if self._gemini else "id")

    async def state(self, job: str) -> JobState:
        """The state of a job. A job that the provider does not know has failed."""
        try:
            answer = await self._job(job)
        except EmbeddingFailed as error:
            if (status := _status(error.__cause__)) in GONE:
                return JobState(phase="failed", problem=f"The batch job {job} is gone (HTTP {status}).")
            raise
        return (_gemini_state if self._gemini else _openai_state)(answer)

    async def results(self, job: str) -> AsyncIterator[tuple[str, Sequence[float] | None]]:
        """The vectors of a job by id; `None` for a text without one."""
        answer = await self._job(job)
        file_id = _gemini_file(answer) if self._gemini else _text(answer.get("output_file_id"))
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
        # Parsing thousands of long lines must not block the event loop.
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
            raise EmbeddingFailed(f"The batch job {job} could not be polled. {error}") from error

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
            raise EmbeddingFailed(f"{self._endpoint.provider} accepted a batch job without giving it a name.")
        return name


def _status(error: BaseException | None) -> int | None:
    answered = error.__cause__ if error is not None else None
    return answered.status_code if isinstance(answered, ProviderAnswered) else None


def _related(content: bytes) -> bytes:
    """The two parts of an upload to Gemini: the name of the file, and the file (RFC 2387)."""
    facts = json.dumps({"file": {"displayName": _NAME, "mimeType": "application/jsonl"}})
    head = f"--{_BOUNDARY}\r\ncontent-type: application/json\r\n\r\n{facts}\r\n"
    head += f"--{_BOUNDARY}\r\ncontent-type: application/jsonl\r\n\r\n"
    return head.encode() + content + f"\r\n--{_BOUNDARY}--\r\n".encode()


def input_lines(endpoint: EmbeddingEndpoint, texts: Mapping[str, str]) -> bytes:
    """The file of a job: one JSON line for each text, with its id."""
    lines = (_line(endpoint, text_id, text) for text_id, text in texts.items())
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()


def creation(endpoint: EmbeddingEndpoint, file_id: str) -> dict[str, Any]:
    """The request that makes a job of an uploaded file."""
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
    """The vector of each line of results by id; `None` if the provider reports an error or it is unusable."""
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


MIN_TEXTS = 50
"""Fewer texts use ordinary requests, because a job takes minutes."""

MAX_FAILURES = 2
_STORED_AT_ONCE = 500
_POLL_FAILURES = 3

LAST_WAIT_SECONDS = 5.0
"""How long a stopped pass waits for the name of a job that is being submitted."""


class KeptJob(Record):
    """A job whose vectors are not stored yet: its name, its embedder, and the hashes of its texts."""

    name: str
    embedder_key: str
    hashes: frozenset[str]


def kept_jobs(meta: Mapping[str, str]) -> list[KeptJob]:
    """The jobs that earlier passes left; an unreadable row counts as none."""
    try:
        rows = json.loads(meta.get(JOBS_ROW, "[]"))
        return [
            KeptJob(name=row["name"], embedder_key=row["embedder"], hashes=frozenset(row["hashes"].split()))
            for row in rows
        ]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []


def jobs_row(jobs: Sequence[KeptJob]) -> dict[str, str]:
    rows = [
        {"name": job.name, "embedder": job.embedder_key, "hashes": " ".join(sorted(job.hashes))}
        for job in jobs
    ]
    return {JOBS_ROW: json.dumps(rows)}


class BatchJobs:
    """`EmbeddingJobs` over a provider's jobs. Counts the failures of all passes of this process."""

    def __init__(self, jobs: HttpEmbeddingJobs) -> None:
        self.provider = jobs
        self.problem = ""
        self._failures = 0

    async def fill(
        self,
        store: Store,
        embedder_key: str,
        missing: MissingTexts,
        *,
        now_seconds: int,
        advance: Callable[[int, int], None],
    ) -> JobsOutcome:
        one_pass = _Pass(store, self, embedder_key, now_seconds=now_seconds, advance=advance)
        held = await one_pass.run(missing)
        return JobsOutcome(stored=one_pass.stored, held=held)

    @property
    def is_off(self) -> bool:
        return self._failures >= MAX_FAILURES

    def failed(self, problem: str, *, times: int = 1) -> None:
        """Counts a job without results."""
        self._failures += times
        end = " Ordinary requests are used instead until the next start." if self.is_off else ""
        self.problem = f"{problem}{end}"
        log.warning("A batch job failed: %s", self.problem)

    def unreachable(self, problem: str) -> None:
        """Records that a job, which may have results, cannot be reached now."""
        self.problem = problem
        log.warning("%s", problem)

    def succeeded(self) -> None:
        self._failures, self.problem = 0, ""


class _Pass:
    """The jobs of one pass over chunks without vectors.

    `advance(done, total)` counts texts of the jobs for which the pass waits.
    """

    def __init__(
        self,
        store: Store,
        tally: BatchJobs,
        embedder_key: str,
        *,
        now_seconds: int,
        advance: Callable[[int, int], None],
    ) -> None:
        self._store = store
        self._jobs = tally.provider
        self._key = embedder_key
        self._tally = tally
        self._now_seconds = now_seconds
        self._advance = advance
        self._completed: dict[str, int] = {}
        self._total = 0
        self.stored = 0
        """The number of vectors from jobs."""

    async def run(self, missing: MissingTexts) -> frozenset[bytes]:
        """Stores the results of earlier jobs, and submits new jobs for the rest if it is large.

        Jobs of another embedder are canceled. Returns the hashes of texts in jobs that still run at the end.
        """
        kept = kept_jobs(await self._store.read(lambda index: index.meta()))
        for job in kept:
            if job.embedder_key != self._key:
                await self._jobs.cancel(job.name)
                await self._forget(job)
        held = await self._finish([job for job in kept if job.embedder_key == self._key])
        tried = set(held)
        limit = self._jobs.max_texts * self._jobs.rules.concurrency
        while not self._tally.is_off:
            texts = await missing(tried, limit)
            if len(texts) < MIN_TEXTS:
                break
            held |= await self._submit_all(texts)
            tried |= texts.keys()
        return held

    async def _submit_all(self, texts: Mapping[bytes, str]) -> frozenset[bytes]:
        hashes, size = list(texts), self._jobs.max_texts
        parts = [hashes[start : start + size] for start in range(0, len(hashes), size)]
        gate = asyncio.Semaphore(self._jobs.rules.concurrency)

        async def one(part: Sequence[bytes]) -> frozenset[bytes]:
            async with gate:
                job = await self._kept({text_hash.hex(): texts[text_hash] for text_hash in part})
                return frozenset() if job is None else await self._finish([job])

        return frozenset().union(*await asyncio.gather(*map(one, parts)))

    async def _kept(self, texts: Mapping[str, str]) -> KeptJob | None:
        """Submits texts. A stopped pass waits briefly for the job's name, because the job is paid for."""
        submitting = asyncio.create_task(self._submitted(texts), name="memory-batch-job")
        try:
            return await asyncio.shield(submitting)
        except asyncio.CancelledError:
            await asyncio.wait({submitting}, timeout=LAST_WAIT_SECONDS)
            submitting.cancel()
            raise

    async def _submitted(self, texts: Mapping[str, str]) -> KeptJob | None:
        if self._tally.is_off:
            return None
        try:
            name = await self._jobs.submit(texts)
        except JobsUnavailable as error:
            self._tally.failed(str(error), times=MAX_FAILURES)
            return None
        except EmbeddingFailed as error:
            self._tally.failed(str(error))
            return None
        job = KeptJob(name=name, embedder_key=self._key, hashes=frozenset(texts))
        await self._store.write(lambda index: index.set_meta(jobs_row([*kept_jobs(index.meta()), job])))
        return job

    async def _finish(self, jobs: Sequence[KeptJob]) -> frozenset[bytes]:
        """Waits for jobs and stores their vectors; the hashes in jobs that are still running."""
        self._total += sum(len(job.hashes) for job in jobs)
        ended = await asyncio.gather(*(self._ended(job) for job in jobs))
        running = [job for job, is_ended in zip(jobs, ended, strict=True) if not is_ended]
        return frozenset(bytes.fromhex(text_hash) for job in running for text_hash in job.hashes)

    async def _ended(self, job: KeptJob) -> bool:
        """Whether the job is over, its vectors are stored, and it is removed.

        While the provider cannot be asked, the job is kept, because its vectors are paid for.
        """
        try:
            state = await self._waited(job)
            if state is None:
                return False
            if state.phase == "ended":
                await self._store_results(job)
            else:
                self._tally.failed(state.problem)
        except EmbeddingFailed as error:
            self._tally.unreachable(f"{error} A later pass fetches what the job made.")
            return False
        await self._forget(job)
        return True

    async def _waited(self, job: KeptJob) -> JobState | None:
        """The final state of a job; `None` if it runs on and the pass does not wait.

        Raises:
            EmbeddingFailed: the provider could not be asked several times in a row.
        """
        rules, waited_seconds, unanswered = self._jobs.rules, 0.0, 0
        while True:
            try:
                state = await self._jobs.state(job.name)
                unanswered = 0
            except EmbeddingFailed as error:
                unanswered += 1
                if unanswered >= _POLL_FAILURES or not rules.wait:
                    raise
                log.info("a batch job could not be polled: %s", error)
                state = JobState(phase="running", completed=self._completed.get(job.name, 0))
            self._completed[job.name] = len(job.hashes) if state.phase == "ended" else state.completed
            self._advance(min(self._total, sum(self._completed.values())), self._total)
            if state.phase != "running":
                return state
            if not rules.wait:
                return None
            if waited_seconds >= rules.timeout_seconds:
                await self._jobs.cancel(job.name)
                return JobState(
                    phase="failed",
                    problem=f"The batch job {job.name} was not done after {rules.timeout_seconds / 60:.15g} "
                    "minutes and was canceled.",
                )
            await self._jobs.pause()
            # A poll interval of 0 would never reach the timeout.
            waited_seconds += max(rules.poll_seconds, 0.001)

    async def _store_results(self, job: KeptJob) -> None:
        """Stores vectors as they arrive. Ordinary requests are left for texts without one, and report why.

        Raises:
            EmbeddingFailed: the results could not be fetched now.
        """
        found: dict[bytes, Vector | None] = {}
        count = 0
        try:
            async for text_id, vector in self._jobs.results(job.name):
                if vector is None or text_id not in job.hashes:
                    continue
                found[bytes.fromhex(text_id)] = vector
                count += 1
                if len(found) >= _STORED_AT_ONCE:
                    await self._put(found)
                    found = {}
            await self._put(found)
        except (ResultsGone, VectorsDiffer) as error:
            self._tally.failed(str(error))
            return
        finally:
            self.stored += count
        if count == 0:
            self._tally.failed(f"The batch job {job.name} made no vector of {len(job.hashes)} texts.")
        else:
            self._tally.succeeded()

    async def _put(self, vectors: Mapping[bytes, Vector | None]) -> None:
        await self._store.write(
            lambda index: index.put_vectors(self._key, vectors, now_seconds=self._now_seconds)
        )

    async def _forget(self, job: KeptJob) -> None:
        def forget(index: Writer) -> None:
            index.set_meta(jobs_row([kept for kept in kept_jobs(index.meta()) if kept.name != job.name]))

        await self._store.write(forget)
