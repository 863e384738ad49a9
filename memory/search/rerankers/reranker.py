"""What puts the best places of a search into another order. The contract for every re-ranker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nacre.memory.contracts.errors import MemoryIndexError


class RerankingFailed(MemoryIndexError):
    """The re-ranker gave no order: the sentence says why. The hits stay in their usual one."""


class Reranker(Protocol):
    """A model that reads a question and a text together, and says how well the text answers it."""

    @property
    def name(self) -> str:
        """`provider/model`, for the owner."""

    async def load(self) -> None:
        """Brings in what an answer needs: libraries, a model. It may take seconds, and asks nobody.

        Raises:
            RerankingFailed: something is missing or cannot be loaded.
        """

    async def relevance(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        """One number for each text, in the order of the texts; a higher one answers the question better.

        The numbers of two questions, or of two models, need not be comparable.

        Raises:
            RerankingFailed: there are no such numbers.
        """

    async def close(self) -> None:
        """Lets go of connections and models."""
