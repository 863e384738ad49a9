"""Any model of the sentence-transformers library in this process. Edge.

The library is the extra `sentence-transformers`, because it brings PyTorch along. Loads
on first use, in a thread; a name that is no folder may be fetched from its hub by the library.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from nacre.installation import install_command
from nacre.memory.contracts.embedder import EmbedderFacts, EmbeddingFailed, TextRefused

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

PIECE_TOKENS = 200
"""Most such models were trained on a paragraph at a time and cut what is longer."""


class SentenceTransformerEmbedder:
    """`Embedder` (its methods are described there) for a model by its name on the hub or its folder.

    Its vectors have length 1 and are made with the model's own prompts for questions and documents.
    """

    def __init__(self, model: str) -> None:
        self.facts = EmbedderFacts(
            provider="sentence-transformers",
            model=model,
            fingerprint=f"st-{hashlib.sha256(model.encode()).hexdigest()[:16]}",
            batch_texts=16,
            piece_tokens=PIECE_TOKENS,
        )
        self._lock = threading.Lock()
        self._loaded: SentenceTransformer | None = None

    @property
    def lack(self) -> str:
        """That the library is not installed, as a sentence; else empty."""
        return "" if find_spec("sentence_transformers") else _without_library(self.facts.model, "")

    async def embed_query(self, text: str) -> Sequence[float]:
        return (await asyncio.to_thread(self._embed, [text], is_query=True))[0]

    async def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        if not texts:
            return []
        return await asyncio.to_thread(self._embed, list(texts), is_query=False)

    async def close(self) -> None:
        """Frees the model once the texts in hand are done."""
        await asyncio.to_thread(self._unload)

    def _unload(self) -> None:
        with self._lock:
            self._loaded = None

    def _embed(self, texts: list[str], *, is_query: bool) -> list[list[float]]:
        with self._lock:
            model = self._loaded or self._load()
            encode = model.encode_query if is_query else model.encode_document
            found: Any = encode(texts, normalize_embeddings=True, show_progress_bar=False)
        vectors: list[list[float]] = found.tolist()
        for vector in vectors:
            length = math.hypot(*vector)
            if length == 0 or not math.isfinite(length):
                raise TextRefused(f"The model {self.facts.model} made no usable vector of a text.")
        return vectors

    def _load(self) -> SentenceTransformer:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise EmbeddingFailed(_without_library(self.facts.model, f" ({error})")) from error
        try:
            self._loaded = SentenceTransformer(self.facts.model, device="cpu")
        # the library raises errors of its own, of its hub client and of torch
        except Exception as error:
            raise EmbeddingFailed(
                f"sentence-transformers could not load the model {self.facts.model!r} ({error}). "
                "memorySearch.model is its name on the hub or its folder."
            ) from error
        return self._loaded


def _without_library(model: str, why: str) -> str:
    return (
        f"The embedding model {model} needs sentence-transformers, which is not installed{why}. Install it "
        f"with: {install_command('sentence-transformers')}. Or leave memorySearch.provider out to use the "
        "model that comes with Nacre."
    )
