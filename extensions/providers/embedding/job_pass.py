"""Makes vectors by batch jobs: submits many texts of all files at once.

Each job is stored in the index with the hashes of its texts before anything waits for it, so that nothing is
paid for twice after a kill: the next pass polls the job and stores its vectors. After two failed jobs in a
row, ordinary requests are used for the rest of the process.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from nacre.extensions.providers.embedding.batch_jobs import (
    HttpEmbeddingJobs,
    JobState,
    JobsUnavailable,
    ResultsGone,
)
from nacre.memory.contracts.embedder import EmbeddingFailed, VectorsDiffer
from nacre.memory.contracts.embedding_jobs import JOBS_ROW, JobsOutcome, MissingTexts
from nacre.record import Record

if TYPE_CHECKING:
    from nacre.memory.contracts.store import Store, Vector, Writer

log = logging.getLogger(__name__)

MIN_TEXTS = 50
"""Fewer texts are requested directly, because nobody wants to wait minutes for one day's notes."""

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
    """The row of state for these jobs."""
    rows = [
        {"name": job.name, "embedder": job.embedder_key, "hashes": " ".join(sorted(job.hashes))}
        for job in jobs
    ]
    return {JOBS_ROW: json.dumps(rows)}


class BatchJobs:
    """`EmbeddingJobs` over a provider's jobs, with the results of all passes of this process."""

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
        """As `EmbeddingJobs.fill` says."""
        one_pass = _Pass(store, self, embedder_key, now_seconds=now_seconds, advance=advance)
        held = await one_pass.run(missing)
        return JobsOutcome(stored=one_pass.stored, held=held)

    @property
    def is_off(self) -> bool:
        """Whether jobs are no longer tried."""
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

        Returns the hashes of texts that running jobs hold at the end.
        """
        held = await self._resume()
        tried = set(held)
        limit = self._jobs.max_texts * self._jobs.rules.concurrency
        while not self._tally.is_off:
            texts = await missing(tried, limit)
            if len(texts) < MIN_TEXTS:
                break
            held |= await self._hand_in(texts)
            tried |= texts.keys()
        return held

    async def _resume(self) -> frozenset[bytes]:
        """The texts that jobs of earlier passes hold. Jobs of another embedder are canceled and removed."""
        kept = kept_jobs(await self._store.read(lambda index: index.meta()))
        for job in kept:
            if job.embedder_key != self._key:
                await self._jobs.cancel(job.name)
                await self._forget(job)
        return await self._finish([job for job in kept if job.embedder_key == self._key])

    async def _hand_in(self, texts: Mapping[bytes, str]) -> frozenset[bytes]:
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
        handing_in = asyncio.create_task(self._submitted(texts), name="memory-batch-job")
        try:
            return await asyncio.shield(handing_in)
        except asyncio.CancelledError:
            await asyncio.wait({handing_in}, timeout=LAST_WAIT_SECONDS)
            handing_in.cancel()
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
                log.info("a batch job could not be asked after: %s", error)
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
            # a poll interval of 0 would never reach the timeout
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
