"""multilingual-e5-small with int8 weights as an embedder, on the threads of the model that ships.

It reads about a hundred languages, so that a question in one finds notes in another.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.e5.e5_model import PASSAGE, QUESTION, E5Model
from nacre.memory.contracts.embedder import EmbedderFacts, EmbeddingFailed
from nacre.memory.embedders.minilm import PIECE_TOKENS, MiniLmEmbedder

VECTORS = "multilingual-e5-small-int8-1"


class E5Embedder(MiniLmEmbedder):
    """`MiniLmEmbedder` with another model, which reads a prefix before questions and passages."""

    facts = EmbedderFacts(
        provider="local",
        model="multilingual-e5-small",
        fingerprint=VECTORS,
        batch_texts=16,
        piece_tokens=PIECE_TOKENS,
        sentences=True,
    )

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)

    def reads(self, text: str) -> float:
        """1 for a text with letters or digits, 0 for one of signs alone, which says nothing to compare."""
        return float(any(char.isalnum() for char in text))

    async def embed_query(self, text: str) -> Sequence[float]:
        return await super().embed_query(QUESTION + text)

    async def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return await super().embed_documents([PASSAGE + text for text in texts])

    def _load(self) -> E5Model:  # type: ignore[override]  # a benchmark's model in the place of MiniLM
        try:
            self._model = E5Model(self._folder, many=True)  # type: ignore[assignment]  # the same
        # onnxruntime raises bare Exceptions of its own.
        except Exception as error:
            raise EmbeddingFailed(
                f"The embedding model in {self._folder} could not be loaded ({error}). "
                "benchmarks/e5/export_e5.py makes it."
            ) from error
        return self._model
