"""A cross-encoder of the sentence-transformers library in this process. Edge: imports that library.

The library is the extra `sentence-transformers`. The model loads in a thread; a name
that is no folder may be fetched from its hub by the library.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nacre.installation import install_command
from nacre.memory.search.rerankers.reranker import RerankingFailed

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

_BATCH_TEXTS = 8
"""Texts of one length at a time: more are padded to the longest, and no quicker on a processor."""


class CrossEncoderReranker:
    """`Reranker` (its methods are described there) for a model by its name on the hub or its folder."""

    def __init__(self, model: str) -> None:
        self.name = f"sentence-transformers/{model}"
        self._model = model
        self._lock = threading.Lock()
        self._loaded: CrossEncoder | None = None

    async def load(self) -> None:
        await asyncio.to_thread(self._load)

    async def relevance(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        return await asyncio.to_thread(self._relevance, question, list(texts))

    async def close(self) -> None:
        """Frees the model once the texts in hand are done."""
        await asyncio.to_thread(self._unload)

    def _relevance(self, question: str, texts: list[str]) -> list[float]:
        with self._lock:
            model = self._loaded
            if model is None:
                raise RerankingFailed(f"The re-ranker {self.name} is not loaded.")
            try:
                found: Any = model.predict(
                    [(question, text) for text in texts], batch_size=_BATCH_TEXTS, show_progress_bar=False
                )
            # torch and the model's own code raise errors of their own
            except Exception as error:
                raise RerankingFailed(f"The re-ranker {self.name} failed ({error}).") from error
        numbers: list[Any] = found.tolist()
        if any(not isinstance(number, float) for number in numbers):
            raise RerankingFailed(
                f"The model {self._model!r} gives several numbers for a text, so it is no re-ranker. Use a "
                "cross-encoder with one label."
            )
        return numbers

    def _load(self) -> None:
        with self._lock:
            if self._loaded is not None:
                return
            try:
                from sentence_transformers import CrossEncoder
            except ImportError as error:
                raise RerankingFailed(
                    f"The re-ranker {self._model} needs sentence-transformers, which is not installed "
                    f"({error}). Install it with: {install_command('sentence-transformers')}."
                ) from error
            try:
                self._loaded = CrossEncoder(self._model, device="cpu")
            # the library raises errors of its own, of its hub client and of torch
            except Exception as error:
                raise RerankingFailed(
                    f"sentence-transformers could not load the model {self._model!r} ({error}). "
                    "memorySearch.query.rerank.model is its name on the hub or its folder."
                ) from error

    def _unload(self) -> None:
        with self._lock:
            self._loaded = None
