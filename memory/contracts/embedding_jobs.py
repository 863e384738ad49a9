"""Batch jobs of embeddings: an embedder that has them gets many texts at once, and their vectors later.

The jobs themselves are an extension's; the index keeps what it has to know of them in one row of its state.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Set
from typing import TYPE_CHECKING, Protocol, TypeAlias

from nacre.record import Record

if TYPE_CHECKING:
    from nacre.memory.contracts.store import Store

JOBS_ROW = "embedding_jobs"
"""The row of the index's state that belongs to the jobs, and survives a new index."""

MissingTexts: TypeAlias = Callable[[Set[bytes], int], Awaitable[Mapping[bytes, str]]]
"""`missing(known, limit)` returns about `limit` texts without vectors by hash, except the known ones."""


class JobsOutcome(Record):
    """`stored` vectors came from jobs; running jobs hold the texts with the hashes `held`."""

    stored: int
    held: frozenset[bytes]


class EmbeddingJobs(Protocol):
    """The batch jobs of an embedder. After repeated failures it submits no further ones."""

    @property
    def problem(self) -> str:
        """The last failure, as a sentence; empty after a success."""

    async def fill(
        self,
        store: Store,
        embedder_key: str,
        missing: MissingTexts,
        *,
        now_seconds: int,
        advance: Callable[[int, int], None],
    ) -> JobsOutcome:
        """Stores the vectors of earlier jobs, and submits new jobs if many texts have none.

        `advance(done, total)` counts texts of the jobs for which it waits.
        """


def jobs_of(embedder: object) -> EmbeddingJobs | None:
    """The embedder's batch jobs; most embedders have none and no such attribute."""
    return getattr(embedder, "jobs", None)
