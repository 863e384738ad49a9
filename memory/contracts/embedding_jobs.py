"""A provider's batch jobs of embeddings: the contract for the provider's code, and the jobs kept in the
index.

Many texts are submitted at once, and their vectors are fetched later.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Literal, Protocol

from nacre.memory.contracts.embedder import EmbeddingFailed
from nacre.record import Record


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


class EmbeddingJobs(Protocol):
    """A provider's batch jobs for documents. Each vector comes back with the id of its text."""

    @property
    def rules(self) -> JobRules: ...

    @property
    def max_texts(self) -> int:
        """The maximum number of texts in one job."""

    async def submit(self, texts: Mapping[str, str]) -> str:
        """Submits texts by id; the job's name.

        Raises:
            JobsUnavailable: the provider has no such jobs.
            EmbeddingFailed: the job could not be submitted.
        """

    async def state(self, job: str) -> JobState:
        """The state of a job; an unknown job has failed.

        Raises:
            EmbeddingFailed: the provider could not be asked.
        """

    def results(self, job: str) -> AsyncIterator[tuple[str, Sequence[float] | None]]:
        """The vectors of a job by id; `None` for a text that got none. Ids may be missing.

        Raises:
            ResultsGone: there are no results, now or later.
            EmbeddingFailed: the results could not be fetched.
        """

    async def pause(self) -> None:
        """Waits between two polls of a job."""

    async def cancel(self, job: str) -> None:
        """Asks the provider to stop a job. Never fails."""


class KeptJob(Record):
    """A job whose vectors are not stored yet: its name, its embedder, and the hashes of its texts."""

    name: str
    embedder_key: str
    hashes: frozenset[str]


JOBS_ROW = "embedding_jobs"
"""The row of the index's state that `kept_jobs` reads."""


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


def jobs_of(embedder: object) -> EmbeddingJobs | None:
    """The embedder's batch jobs; most embedders have none and no such attribute."""
    return getattr(embedder, "jobs", None)
