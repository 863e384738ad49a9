"""An embedder that answers at once, for measuring everything but the embedder: clustered vectors by text."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from nacre.memory.contracts.embedder import EmbedderFacts

CLUSTERS = 500
SPREAD = 0.7


class InstantEmbedder:
    """Vectors in clusters, as embeddings of real texts lie; the same text has the same vector."""

    def __init__(self, dimensions: int) -> None:
        self.facts = EmbedderFacts(
            provider="benchmark", model=f"instant-{dimensions}", fingerprint="none", batch_texts=128
        )
        self._dimensions = dimensions
        self._centres = np.random.default_rng(1).standard_normal((CLUSTERS, dimensions), dtype=np.float32)

    async def embed_query(self, text: str) -> Sequence[float]:
        """The vector of a question."""
        return self._vector(text)

    async def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector for each text."""
        return [self._vector(text) for text in texts]

    async def close(self) -> None:
        """Nothing to let go of."""

    def _vector(self, text: str) -> Sequence[float]:
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
        random = np.random.default_rng(seed)
        centre = self._centres[seed % CLUSTERS]
        vector: Sequence[float] = centre + SPREAD * random.standard_normal(self._dimensions, dtype=np.float32)
        return vector
