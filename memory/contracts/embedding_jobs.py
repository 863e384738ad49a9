"""Batch jobs of a provider, as the index sees them: many texts handed in at once, vectors fetched later.

The contract for the runtime's provider code, and what the index keeps of a job until its vectors are stored.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Literal, Protocol

from nacre.memory.contracts.embedder import EmbeddingFailed
from nacre.records.record import Record


class JobsUnavailable(EmbeddingFailed):
    """The provider has no batch jobs for this model or account, now or later."""


class ResultsGone(EmbeddingFailed):
    """A job has no results that could still be fetched: its texts are to be asked for again."""


class JobRules(Record):
    """How jobs are used: whether a pass waits for them, how many at a time, how often and how long."""

    wait: bool = True
    concurrency: int = 2
    poll_seconds: float = 2.0
    timeout_seconds: float = 3_600.0


class JobState(Record):
    """Where a job is. `failed` has a sentence in `problem`; one that `ended` may still lack some results."""

    phase: Literal["running", "ended", "failed"]
    completed: int = 0
    total: int = 0
    problem: str = ""


class EmbeddingJobs(Protocol):
    """A provider's batch jobs for documents. A text's id comes back with its vector."""

    @property
    def rules(self) -> JobRules: ...

    @property
    def max_texts(self) -> int:
        """The most texts for one job."""

    async def submit(self, texts: Mapping[str, str]) -> str:
        """Hands in texts by id; the job's name.

        Raises:
            JobsUnavailable: there are no such jobs here.
            EmbeddingFailed: it could not be handed in.
        """

    async def state(self, job: str) -> JobState:
        """Where a job is; one that the provider does not know, or knows no more, has failed.

        Raises:
            EmbeddingFailed: the provider could not be asked.
        """

    def results(self, job: str) -> AsyncIterator[tuple[str, Sequence[float] | None]]:
        """The vectors of a job by id; `None` for a text that got none. Ids may be missing.

        Raises:
            ResultsGone: there are none to be fetched, now or later.
            EmbeddingFailed: they could not be fetched.
        """

    async def pause(self) -> None:
        """Waits as long as the rules say between two looks at a job."""

    async def cancel(self, job: str) -> None:
        """Asks the provider to stop; never fails."""


class KeptJob(Record):
    """A job whose vectors are not stored yet: its name, the embedder it belongs to, its texts' hashes."""

    name: str
    embedder_key: str
    hashes: frozenset[str]


JOBS_ROW = "embedding_jobs"
"""The row of the index's state that `kept_jobs` reads."""


def kept_jobs(meta: Mapping[str, str]) -> list[KeptJob]:
    """The jobs that an earlier pass left; a row that cannot be read counts as none."""
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
    """The embedder's batch jobs; most have none, and say so by not having the attribute."""
    return getattr(embedder, "jobs", None)
