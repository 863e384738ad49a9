"""What turns texts into vectors, as the index sees it. The contract for every file in `embedders/`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nacre.memory.errors import MemoryIndexError
from nacre.memory.records import Chunk


class EmbeddingFailed(MemoryIndexError):
    """The embedder gave no vectors: the sentence says why. Words can still be searched."""


class TextRefused(EmbeddingFailed):
    """The embedder will not take this text (too long, not allowed), now or later."""


class Embedder(Protocol):
    """A model that embeds. Vectors of two embedders with the same three names can be compared.

    `provider` and `model` are shown to the owner; `fingerprint` stands for the endpoint and whatever else
    changes the vectors, and never holds a key. `batch_texts` is the most texts for one call.
    """

    @property
    def provider(self) -> str: ...

    @property
    def model(self) -> str: ...

    @property
    def fingerprint(self) -> str: ...

    @property
    def batch_texts(self) -> int: ...

    async def embed_query(self, text: str) -> Sequence[float]:
        """The vector of a question.

        Raises:
            EmbeddingFailed: no vector could be had.
        """

    async def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector for each text, in order.

        Raises:
            TextRefused: one of the texts is not taken; ask again with fewer of them.
            EmbeddingFailed: no vectors could be had.
        """

    async def close(self) -> None:
        """Lets go of connections, threads and models."""


def embedding_texts(chunk: Chunk) -> tuple[str, ...]:
    """The texts whose vectors stand for a chunk, each with the chunk's headings; the best one counts."""
    title = " > ".join(chunk.heading_path)
    return (f"{title}\n{chunk.text}" if title else chunk.text,)
